//! Fields of fixed structures: where each one stands and how long it is.
//!
//! A structure is declared once, in the order of the format document, and the
//! compiler checks that its fields leave neither gap nor overlap.

use core::ops::Range;

/// A field of a structure of fixed layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The beginning of the field's description in the format document.
    pub name: &'static str,
    /// Bytes before it in the structure.
    pub offset: usize,
    /// Its length in bytes.
    pub len: usize,
}

impl Field {
    /// The bytes that it occupies.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len
    }

    /// The first byte behind it.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.offset + self.len
    }

    /// The field's bytes in `structure`, which is at least as long as the
    /// layout says.
    pub(crate) fn of<'a>(&self, structure: &'a [u8]) -> &'a [u8] {
        &structure[self.range()]
    }

    /// The field as an array; `N` is its length.
    pub(crate) fn array<const N: usize>(&self, structure: &[u8]) -> [u8; N] {
        self.of(structure).try_into().expect("the array has the field's length")
    }

    pub(crate) fn byte(&self, structure: &[u8]) -> u8 {
        structure[self.offset]
    }

    pub(crate) fn u16(&self, structure: &[u8]) -> u16 {
        u16::from_le_bytes(self.array(structure))
    }

    pub(crate) fn u32(&self, structure: &[u8]) -> u32 {
        u32::from_le_bytes(self.array(structure))
    }

    pub(crate) fn u64(&self, structure: &[u8]) -> u64 {
        u64::from_le_bytes(self.array(structure))
    }

    /// Writes the whole field; `bytes` has its length.
    pub(crate) fn set(&self, structure: &mut [u8], bytes: &[u8]) {
        structure[self.range()].copy_from_slice(bytes);
    }
}

/// True when the fields follow each other without gap or overlap from 0 to `len`.
#[must_use]
pub const fn is_contiguous(fields: &[Field], len: usize) -> bool {
    let mut at = 0;
    let mut i = 0;
    while i < fields.len() {
        if fields[i].offset != at {
            return false;
        }
        at += fields[i].len;
        i += 1;
    }
    at == len
}

/// Declares a module with one [`Field`] per line, `FIELDS` in order, and `LEN`.
macro_rules! layout {
    ($(#[$doc:meta])* $module:ident: $len:expr; $($field:ident = $offset:expr, $size:expr, $name:literal;)+) => {
        $(#[$doc])*
        pub mod $module {
            use $crate::layout::{Field, is_contiguous};
            $(
                #[doc = concat!("Field: ", $name, ".")]
                pub const $field: Field = Field { name: $name, offset: $offset, len: $size };
            )+
            /// Every field, in order.
            pub const FIELDS: &[Field] = &[$($field),+];
            /// Bytes of the structure.
            pub const LEN: usize = $len;
            const _: () = assert!(is_contiguous(FIELDS, LEN));
        }
    };
}
pub(crate) use layout;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_an_overlap_and_a_wrong_end_are_noticed() {
        let field = |offset, len| Field { name: "x", offset, len };
        assert!(is_contiguous(&[field(0, 4), field(4, 8)], 12));
        assert!(!is_contiguous(&[field(0, 4), field(5, 7)], 12));
        assert!(!is_contiguous(&[field(0, 4), field(3, 9)], 12));
        assert!(!is_contiguous(&[field(0, 4), field(4, 8)], 13));
    }
}
