//! The post-quantum recipients of age 1.3, `mlkem768x25519`: HPKE (RFC 9180)
//! with the KEM MLKEM768-X25519 (X-Wing, draft-connolly-cfrg-xwing-kem),
//! HKDF-SHA256 and ChaCha20-Poly1305, in base mode, one message.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use age_core::format::{FileKey, Stanza};
use age_core::primitives::{bech32_decode, bech32_encode};
use age_core::secrecy::{ExposeSecret, SecretString};
use bech32::Hrp;
use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use hkdf::Hkdf;
use ml_kem::kem::Decapsulate;
use ml_kem::{B32, EncapsulateDeterministic, Encoded, EncodedSizeUser, KemCore, MlKem768};
use sha2::Sha256;
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Digest, Sha3_256, Shake256};
use strongroom_format::age::{decode_base64, encode_base64};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::keys;

const KIND: &str = "mlkem768x25519";
const INFO: &[u8] = b"age-encryption.org/mlkem768x25519";
const RECIPIENT: Hrp = Hrp::parse_unchecked("age1pq");
const IDENTITY: Hrp = Hrp::parse_unchecked("age-secret-key-pq-");
/// KEM, KDF and AEAD of RFC 9180: `HPKE` and their identifiers.
const SUITE: &[u8] = b"HPKE\x64\x7a\x00\x01\x00\x03";
const MLKEM_KEY: usize = 1184;
const MLKEM_CIPHERTEXT: usize = 1088;
/// Bytes of a wrapped file key.
const BODY: usize = 16 + 16;

type Decapsulator = <MlKem768 as KemCore>::DecapsulationKey;
type Encapsulator = <MlKem768 as KemCore>::EncapsulationKey;
type Shared = Zeroizing<[u8; 32]>;

/// A public key that the file key can be wrapped for.
#[derive(Clone)]
pub struct HybridRecipient {
    mlkem: Encapsulator,
    x25519: PublicKey,
}

/// A secret key.
pub struct HybridIdentity {
    seed: Zeroizing<[u8; 32]>,
    mlkem: Decapsulator,
    x25519: StaticSecret,
    recipient: HybridRecipient,
}

/// A text that is no key of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHybrid;

impl HybridIdentity {
    /// A new one.
    ///
    /// # Errors
    /// [`crate::Error::Entropy`].
    pub fn generate() -> Result<HybridIdentity, crate::Error> {
        Ok(HybridIdentity::of(Zeroizing::new(keys::random()?)))
    }

    fn of(seed: Zeroizing<[u8; 32]>) -> HybridIdentity {
        let mut expanded = Zeroizing::new([0; 96]);
        Shake256::default().chain(&seed[..]).finalize_xof().read(&mut expanded[..]);
        let part = |at: usize| -> Zeroizing<[u8; 32]> {
            Zeroizing::new(expanded[at..at + 32].try_into().expect("32 bytes"))
        };
        let (d, z): (B32, B32) = ((*part(0)).into(), (*part(32)).into());
        let (mlkem, public) = MlKem768::generate_deterministic(&d, &z);
        let x25519 = StaticSecret::from(*part(64));
        let recipient = HybridRecipient { mlkem: public, x25519: PublicKey::from(&x25519) };
        HybridIdentity { seed, mlkem, x25519, recipient }
    }

    /// Whom it reads for.
    #[must_use]
    pub fn recipient(&self) -> &HybridRecipient {
        &self.recipient
    }

    /// Its text, `AGE-SECRET-KEY-PQ-1…`.
    #[must_use]
    pub fn to_secret(&self) -> SecretString {
        let mut text = bech32_encode(IDENTITY, &self.seed[..]);
        text.make_ascii_uppercase();
        SecretString::from(text)
    }

    fn decapsulate(&self, encapsulated: &[u8]) -> Option<Shared> {
        let (ciphertext, public) = encapsulated.split_at_checked(MLKEM_CIPHERTEXT)?;
        let public: [u8; 32] = public.try_into().ok()?;
        let ciphertext = ml_kem::Ciphertext::<MlKem768>::try_from(ciphertext).ok()?;
        let of_mlkem = self.mlkem.decapsulate(&ciphertext).ok()?;
        let of_x25519 = self.x25519.diffie_hellman(&PublicKey::from(public));
        of_x25519
            .was_contributory()
            .then(|| combined(&of_mlkem, of_x25519.as_bytes(), &public, self.recipient.x25519.as_bytes()))
    }
}

/// The combiner of X-Wing.
fn combined(of_mlkem: &[u8], of_x25519: &[u8], ciphertext: &[u8], public: &[u8]) -> Shared {
    let hash = <Sha3_256 as Digest>::new()
        .chain_update(of_mlkem)
        .chain_update(of_x25519)
        .chain_update(ciphertext)
        .chain_update(public)
        .chain_update(br"\.//^\");
    Zeroizing::new(hash.finalize().into())
}

impl HybridRecipient {
    fn encapsulate(&self) -> Result<(Vec<u8>, Shared), crate::Error> {
        let message: B32 = keys::random::<32>()?.into();
        let ephemeral = StaticSecret::from(keys::random::<32>()?);
        let (ciphertext, of_mlkem) =
            self.mlkem.encapsulate_deterministic(&message).map_err(|()| crate::Error::Entropy)?;
        let public = PublicKey::from(&ephemeral);
        let of_x25519 = ephemeral.diffie_hellman(&self.x25519);
        let shared = combined(&of_mlkem, of_x25519.as_bytes(), public.as_bytes(), self.x25519.as_bytes());
        Ok(([&ciphertext[..], public.as_bytes()].concat(), shared))
    }
}

/// Key and nonce of the one message (RFC 9180 section 5.1, base mode).
fn schedule(shared: &Shared) -> (ChaCha20Poly1305, Nonce) {
    let extract = |salt: &[u8], label: &[u8], ikm: &[u8]| {
        let labelled = Zeroizing::new([b"HPKE-v1", SUITE, label, ikm].concat());
        Hkdf::<Sha256>::extract(Some(salt), &labelled)
    };
    let (of_id, _) = extract(&[], b"psk_id_hash", &[]);
    let (of_info, _) = extract(&[], b"info_hash", INFO);
    let context = [&[0], &of_id[..], &of_info[..]].concat();
    let (_, secret) = extract(&shared[..], b"secret", &[]);
    let expand = |label: &[u8], into: &mut [u8]| {
        let len = (into.len() as u16).to_be_bytes();
        let info = [&len[..], b"HPKE-v1", SUITE, label, &context].concat();
        secret.expand(&info, into).expect("fewer bytes than HKDF's most");
    };
    let mut key = Zeroizing::new([0; 32]);
    expand(b"key", &mut key[..]);
    let mut nonce = [0; 12];
    expand(b"base_nonce", &mut nonce);
    (ChaCha20Poly1305::new((&*key).into()), nonce.into())
}

impl age::Recipient for HybridRecipient {
    fn wrap_file_key(&self, file_key: &FileKey) -> Result<(Vec<Stanza>, HashSet<String>), age::EncryptError> {
        let failed = || age::EncryptError::Io(std::io::Error::other("the kernel gives no random bytes"));
        let (encapsulated, shared) = self.encapsulate().map_err(|_| failed())?;
        let (cipher, nonce) = schedule(&shared);
        let body = cipher.encrypt(&nonce, &file_key.expose_secret()[..]).expect("a short message");
        let stanza = Stanza { tag: KIND.into(), args: vec![encode_base64(&encapsulated)], body };
        Ok((vec![stanza], HashSet::from(["postquantum".into()])))
    }
}

impl age::Identity for HybridIdentity {
    fn unwrap_stanza(&self, stanza: &Stanza) -> Option<Result<FileKey, age::DecryptError>> {
        if stanza.tag != KIND {
            return None;
        }
        let invalid = Some(Err(age::DecryptError::InvalidHeader));
        let [encapsulated] = &stanza.args[..] else { return invalid };
        let Ok(encapsulated) = decode_base64(encapsulated.as_bytes()) else { return invalid };
        if stanza.body.len() != BODY {
            return invalid;
        }
        let Some(shared) = self.decapsulate(&encapsulated) else { return invalid };
        let (cipher, nonce) = schedule(&shared);
        let opened = Zeroizing::new(cipher.decrypt(&nonce, &stanza.body[..]).ok()?);
        Some(Ok(FileKey::init_with_mut(|bytes| bytes.copy_from_slice(&opened))))
    }
}

fn bytes_of(text: &str, hrp: Hrp) -> Result<Zeroizing<Vec<u8>>, NotHybrid> {
    let expected = |found| if found == hrp { Ok(()) } else { Err(NotHybrid) };
    bech32_decode(text, |_| NotHybrid, expected, |_, bytes| Ok(Zeroizing::new(bytes.collect())))
}

impl FromStr for HybridRecipient {
    type Err = NotHybrid;

    fn from_str(text: &str) -> Result<HybridRecipient, NotHybrid> {
        let bytes = bytes_of(text, RECIPIENT)?;
        let (mlkem, x25519) = bytes.split_at_checked(MLKEM_KEY).ok_or(NotHybrid)?;
        let x25519: [u8; 32] = x25519.try_into().map_err(|_| NotHybrid)?;
        let encoded = Encoded::<Encapsulator>::try_from(mlkem).map_err(|_| NotHybrid)?;
        let key = Encapsulator::from_bytes(&encoded);
        // FIPS 203 section 7.2: the check of the modulus.
        if key.as_bytes() != encoded {
            return Err(NotHybrid);
        }
        Ok(HybridRecipient { mlkem: key, x25519: x25519.into() })
    }
}

impl fmt::Display for HybridRecipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.mlkem.as_bytes()[..], self.x25519.as_bytes()].concat();
        f.write_str(&bech32_encode(RECIPIENT, &bytes))
    }
}

impl FromStr for HybridIdentity {
    type Err = NotHybrid;

    fn from_str(text: &str) -> Result<HybridIdentity, NotHybrid> {
        let bytes = bytes_of(text, IDENTITY)?;
        let seed: [u8; 32] = bytes[..].try_into().map_err(|_| NotHybrid)?;
        Ok(HybridIdentity::of(Zeroizing::new(seed)))
    }
}
