//! From the root key to every other key of a vault (section 2 of the format).

use hkdf::Hkdf;
use sha2::Sha256;
use strongroom_format::vault::VaultId;
use strongroom_memory::in_wiped_stack;

use crate::random::EntropyError;
use crate::secret::Secret;

/// A key's label and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derivation {
    /// The beginning of HKDF's `info`.
    pub label: &'static str,
    /// Bytes of the key.
    pub len: usize,
}

const BLOCKS: Derivation = Derivation { label: "strongroom blocks", len: 32 };
const PAGES: Derivation = Derivation { label: "strongroom pages", len: 32 };
const JOURNAL: Derivation = Derivation { label: "strongroom journal", len: 32 };
const NAMES: Derivation = Derivation { label: "strongroom names", len: 64 };
const XATTRS: Derivation = Derivation { label: "strongroom xattrs", len: 64 };
const RECORDS: Derivation = Derivation { label: "strongroom records", len: 32 };
const SPECIALS: Derivation = Derivation { label: "strongroom special records", len: 64 };
const HEADER: Derivation = Derivation { label: "strongroom header", len: 32 };
const FRESHNESS: Derivation = Derivation { label: "strongroom freshness", len: 32 };
const LOCK: Derivation = Derivation { label: "strongroom lock", len: 64 };

/// Every key that comes from the root key, in the format document's order.
pub const DERIVATIONS: [Derivation; 10] =
    [BLOCKS, PAGES, JOURNAL, NAMES, XATTRS, RECORDS, SPECIALS, HEADER, FRESHNESS, LOCK];

/// The 32 bytes from which all keys of a vault come.
pub struct RootKey(Secret<32>);

impl RootKey {
    /// A new one.
    ///
    /// # Errors
    /// [`EntropyError`].
    pub fn random() -> Result<RootKey, EntropyError> {
        Secret::random().map(RootKey)
    }

    pub(crate) fn from_secret(secret: Secret<32>) -> RootKey {
        RootKey(secret)
    }

    /// The bytes. Copies of them are their maker's to wipe.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// A second one of the same vault, for opening it again without asking
    /// for the secret. Named, and no `Clone`, so that nobody copies keys
    /// without noticing; wiped like any other.
    #[must_use]
    pub fn duplicate(&self) -> RootKey {
        RootKey(Secret::build(|key| key.copy_from_slice(self.0.expose())))
    }

    /// `generation` is at least 1; keys that do not change have the first.
    fn derive(&self, vault: VaultId, generation: u32, what: Derivation, key: &mut [u8]) {
        let info = [what.label.as_bytes(), &[0], &generation.to_le_bytes()].concat();
        in_wiped_stack(|| {
            let hkdf = Hkdf::<Sha256>::new(Some(&vault.0), self.0.expose());
            hkdf.expand(&info, key).expect("64 bytes are less than 255 hashes");
        });
    }

    /// The key of the vault header's MAC.
    #[must_use]
    pub fn header_key(&self, vault: VaultId) -> Secret<32> {
        Secret::build(|key| self.derive(vault, FIRST_GENERATION, HEADER, key))
    }

    /// AES-SIV of what the lock says of its holder.
    pub(crate) fn lock_key(&self, vault: VaultId) -> Secret<64> {
        Secret::build(|key| self.derive(vault, FIRST_GENERATION, LOCK, key))
    }

    fn fill(&self, vault: VaultId, generation: u32, keys: &mut [u8], which: &[Derivation]) {
        for (key, &what) in keys.chunks_exact_mut(which[0].len).zip(which) {
            self.derive(vault, generation, what, key);
        }
    }
}

/// The generation of keys that do not change, and of a new vault's others.
pub const FIRST_GENERATION: u32 = 1;

/// The keys that seal the content of files, of one generation of a vault.
pub struct DataKeys(Secret<{ 2 * 32 }>);

impl DataKeys {
    /// Those of `vault` in `generation`, which is at least 1.
    #[must_use]
    pub fn derive(root: &RootKey, vault: VaultId, generation: u32) -> DataKeys {
        DataKeys(Secret::build(|keys| root.fill(vault, generation, keys, &[BLOCKS, PAGES])))
    }

    /// Seals blocks.
    #[must_use]
    pub fn blocks(&self) -> &[u8; 32] {
        &self.0.expose().as_chunks().0[0]
    }

    /// Seals pages.
    #[must_use]
    pub fn pages(&self) -> &[u8; 32] {
        &self.0.expose().as_chunks().0[1]
    }
}

/// The keys of a vault that are the same in all its generations.
pub struct VaultKeys {
    short: Secret<{ 3 * 32 }>,
    long: Secret<{ 3 * 64 }>,
}

impl VaultKeys {
    /// Those of `vault`.
    #[must_use]
    pub fn derive(root: &RootKey, vault: VaultId) -> VaultKeys {
        let all = |keys: &mut [u8], which: &[Derivation]| root.fill(vault, FIRST_GENERATION, keys, which);
        VaultKeys {
            short: Secret::build(|keys| all(keys, &[JOURNAL, RECORDS, FRESHNESS])),
            long: Secret::build(|keys| all(keys, &[NAMES, XATTRS, SPECIALS])),
        }
    }

    /// Seals journal records and segment headers.
    #[must_use]
    pub fn journal(&self) -> &[u8; 32] {
        self.short(0)
    }

    /// HMAC of directory records and homes.
    #[must_use]
    pub fn records(&self) -> &[u8; 32] {
        self.short(1)
    }

    /// Seals the frames of a freshness file.
    #[must_use]
    pub fn freshness(&self) -> &[u8; 32] {
        self.short(2)
    }

    /// AES-SIV of names.
    #[must_use]
    pub fn names(&self) -> &[u8; 64] {
        self.long(0)
    }

    /// AES-SIV of attributes' names and values.
    #[must_use]
    pub fn xattrs(&self) -> &[u8; 64] {
        self.long(1)
    }

    /// AES-SIV of special records and symlink targets.
    #[must_use]
    pub fn specials(&self) -> &[u8; 64] {
        self.long(2)
    }

    fn short(&self, index: usize) -> &[u8; 32] {
        &self.short.expose().as_chunks().0[index]
    }

    fn long(&self, index: usize) -> &[u8; 64] {
        &self.long.expose().as_chunks().0[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    fn hex(bytes: &[u8]) -> String {
        HEXLOWER.encode(bytes)
    }

    /// RFC 5869, A.1.
    #[test]
    fn hkdf_of_the_rfc() {
        let salt = HEXLOWER.decode(b"000102030405060708090a0b0c").expect("hex");
        let info = HEXLOWER.decode(b"f0f1f2f3f4f5f6f7f8f9").expect("hex");
        let mut key = [0; 42];
        Hkdf::<Sha256>::new(Some(&salt), &[0x0b; 22]).expand(&info, &mut key).expect("short");
        let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
        assert_eq!(hex(&key), expected);
    }

    fn root() -> RootKey {
        RootKey::from_secret(Secret::build(|key| key.fill(7)))
    }

    /// Computed once with another implementation of HKDF.
    #[test]
    fn keys_of_a_known_root() {
        let keys = VaultKeys::derive(&root(), VaultId([9; 16]));
        let data = DataKeys::derive(&root(), VaultId([9; 16]), 1);
        assert_eq!(hex(data.blocks()), "24d4b404e6948e494069c4ca4322210a1bd788861381accbb8909f600e3d2bd0");
        assert_eq!(
            hex(keys.names()),
            "3671a84adfb8f32aee1da73052a4aef163b9f650f1e72a8e75c12c80f366bb8f4a8aafc87668967d07e2a8f3b96a70ad809a4b03b70c9dca49ade3bc28ccda18"
        );
        assert_eq!(
            hex(root().header_key(VaultId([9; 16])).expose()),
            "c9fe0010a5292206f2442e3b0f6cc6f7e898b522912de11007edf10423e376ce"
        );
    }

    #[test]
    fn no_two_keys_are_alike() {
        let mut all = Vec::new();
        for vault in [9, 8] {
            let vault = VaultId([vault; 16]);
            let keys = VaultKeys::derive(&root(), vault);
            all.extend([keys.journal(), keys.records(), keys.freshness()].map(|key| hex(key)));
            all.extend([keys.names(), keys.xattrs(), keys.specials()].map(|key| hex(&key[..32])));
            all.push(hex(root().header_key(vault).expose()));
            for generation in [1, 2] {
                let keys = DataKeys::derive(&root(), vault, generation);
                all.extend([keys.blocks(), keys.pages()].map(|key| hex(key)));
            }
        }
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
