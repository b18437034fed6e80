//! Arithmetic in GF(2^8) for key schedules, computed and not looked up.

/// The polynomial of AES without x^8 (FIPS 197 section 4.2).
#[cfg(any(target_arch = "x86_64", test))]
pub(crate) const AES_POLYNOMIAL: u8 = 0x1b;

/// The product modulo x^8 and `polynomial`.
pub(crate) fn multiply(a: u8, b: u8, polynomial: u8) -> u8 {
    let mut product = 0;
    let mut shifted = a;
    for bit in 0..8 {
        product ^= shifted & (b >> bit & 1).wrapping_neg();
        shifted = shifted << 1 ^ polynomial & (shifted >> 7).wrapping_neg();
    }
    product
}

/// The inverse in the field of AES, 0 for 0: the 254th power.
#[cfg(any(target_arch = "x86_64", test))]
pub(crate) fn aes_inverse(byte: u8) -> u8 {
    let mut power = byte;
    let mut product = 1;
    for _ in 0..7 {
        power = multiply(power, power, AES_POLYNOMIAL);
        product = multiply(product, power, AES_POLYNOMIAL);
    }
    product
}

/// The S-box of AES (FIPS 197 section 5.1.1).
#[cfg(any(target_arch = "x86_64", test))]
pub(crate) fn aes_box(byte: u8) -> u8 {
    let inverse = aes_inverse(byte);
    (1..5).fold(inverse ^ 0x63, |sum, turn| sum ^ inverse.rotate_left(turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197 figure 7.
    #[test]
    fn the_box_of_the_standard() {
        assert_eq!([0x00, 0x01, 0x53, 0xff].map(aes_box), [0x63, 0x7c, 0xed, 0x16]);
    }
}
