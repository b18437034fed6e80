//! Identifiers: bytes with a type each, so that none is taken for another.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// Bytes of the identifier.
            pub const LEN: usize = $len;

            /// True when every byte is zero, which stands for none.
            #[must_use]
            pub fn is_zero(&self) -> bool {
                self.0 == [0; $len]
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    };
}

id! {
    /// A stored file's id, drawn when it is created and kept for life.
    FileId, 16
}
id! {
    /// A directory's id, under which its names are sealed.
    DirectoryId, 16
}
id! {
    /// A vault's id, drawn when it is made.
    VaultId, 16
}
id! {
    /// A write session: the first 12 bytes of every nonce drawn in it.
    WriteSession, 12
}
