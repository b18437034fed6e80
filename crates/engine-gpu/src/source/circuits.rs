//! Boolean circuits of published tables, as macros of the kernels' language. They are made from the tables whenever
//! a source is put together, so that no circuit has to be believed.
//!
//! Boxes of four bits are written in algebraic normal form with common products: correct by construction, and not the
//! shortest. Affine maps of bytes are a sum for each bit.

use std::fmt::Write as _;

/// A box of four bits: entry `x` is the image of `x`.
type Box4 = [u8; 16];

/// The S-boxes of Serpent (Anderson, Biham, Knudsen 1998, appendix A.5).
const SERPENT: [Box4; 8] = [
    [3, 8, 15, 1, 10, 6, 5, 11, 14, 13, 4, 2, 7, 0, 9, 12],
    [15, 12, 2, 7, 9, 0, 5, 10, 1, 11, 14, 8, 6, 13, 3, 4],
    [8, 6, 7, 9, 3, 12, 10, 15, 13, 1, 14, 4, 0, 11, 5, 2],
    [0, 15, 11, 8, 12, 9, 6, 3, 13, 1, 2, 4, 10, 7, 5, 14],
    [1, 15, 8, 3, 12, 0, 11, 6, 2, 5, 4, 10, 9, 14, 7, 13],
    [15, 5, 2, 11, 4, 10, 9, 12, 0, 3, 14, 8, 13, 6, 7, 1],
    [7, 2, 12, 5, 8, 4, 6, 11, 14, 9, 1, 15, 13, 3, 10, 0],
    [1, 13, 15, 0, 14, 8, 2, 11, 7, 4, 12, 10, 9, 3, 5, 6],
];

/// The tables t0 to t3 of Twofish's q0, then of q1 (section 4.3.5).
const TWOFISH: [[Box4; 4]; 2] = [
    [
        [8, 1, 7, 13, 6, 15, 3, 2, 0, 11, 5, 9, 14, 12, 10, 4],
        [14, 12, 11, 8, 1, 2, 3, 5, 15, 4, 10, 6, 7, 0, 9, 13],
        [11, 10, 5, 14, 6, 13, 9, 0, 12, 8, 15, 3, 2, 4, 7, 1],
        [13, 7, 15, 4, 1, 2, 6, 14, 9, 11, 3, 0, 8, 5, 12, 10],
    ],
    [
        [2, 8, 11, 13, 15, 7, 6, 14, 3, 1, 9, 4, 0, 10, 12, 5],
        [1, 14, 2, 11, 4, 12, 3, 7, 6, 13, 10, 5, 15, 9, 0, 8],
        [4, 12, 7, 5, 1, 6, 9, 10, 0, 14, 13, 8, 2, 11, 3, 15],
        [11, 9, 5, 1, 12, 3, 13, 14, 6, 4, 7, 15, 2, 0, 8, 10],
    ],
];

/// `BOX0` to `BOX7` and their inverses `UNBOX0` to `UNBOX7`, each of four words in place, bit 0 first.
pub(crate) fn serpent() -> String {
    let mut text = String::new();
    for (number, table) in SERPENT.iter().enumerate() {
        let mut inverse = [0; 16];
        for (argument, &image) in (0..).zip(table) {
            inverse[usize::from(image)] = argument;
        }
        push_box(&mut text, &format!("BOX{number}(a, b, c, d)"), table, None);
        push_box(&mut text, &format!("UNBOX{number}(a, b, c, d)"), &inverse, None);
    }
    text
}

/// `TABLE0` to `TABLE3`: those of q0, or of q1 where the bit of M is set.
pub(crate) fn twofish() -> String {
    let mut text = String::new();
    for (number, (table, other)) in TWOFISH[0].iter().zip(&TWOFISH[1]).enumerate() {
        push_box(&mut text, &format!("TABLE{number}(a, b, c, d, M)"), table, Some(other));
    }
    text
}

/// Products of the variables a to d by which are in them, those of fewer factors first, and how each is made.
const PRODUCTS: [(usize, &str, &str); 11] = [
    (3, "ab", "a & b"),
    (5, "ac", "a & c"),
    (9, "ad", "a & d"),
    (6, "bc", "b & c"),
    (10, "bd", "b & d"),
    (12, "cd", "c & d"),
    (7, "abc", "ab & c"),
    (11, "abd", "ab & d"),
    (13, "acd", "ac & d"),
    (14, "bcd", "bc & d"),
    (15, "abcd", "abc & d"),
];

/// The coefficients of the algebraic normal form of one bit of the image.
fn normal_form(table: &Box4, bit: usize) -> [bool; 16] {
    let mut form = [0; 16].map(|_: u8| false);
    for (entry, image) in form.iter_mut().zip(table) {
        *entry = image >> bit & 1 == 1;
    }
    for variable in 0..4 {
        for x in (0..16).filter(|x| x >> variable & 1 == 1) {
            form[x] ^= form[x ^ 1 << variable];
        }
    }
    form
}

fn sum(form: &[bool; 16]) -> String {
    let name = |x: usize| match x {
        0 => "~0u",
        1 => "a",
        2 => "b",
        4 => "c",
        8 => "d",
        _ => PRODUCTS.iter().find(|(product, ..)| *product == x).expect("all products are named").1,
    };
    let terms: Vec<&str> = (0..16).filter(|&x| form[x]).map(name).collect();
    if terms.is_empty() { "0u".to_owned() } else { terms.join(" ^ ") }
}

/// A macro for a box, or for a box and another one where M is set.
fn push_box(text: &mut String, head: &str, table: &Box4, other: Option<&Box4>) {
    let forms: Vec<[bool; 16]> = (0..4).map(|bit| normal_form(table, bit)).collect();
    // What the other box adds.
    let differences: Vec<[bool; 16]> = other.map_or_else(Vec::new, |other| {
        let others = (0..4).map(|bit| normal_form(other, bit));
        others.zip(&forms).map(|(other, form)| std::array::from_fn(|x| other[x] ^ form[x])).collect()
    });
    let mut used: Vec<usize> =
        (0..16).filter(|&x| forms.iter().chain(&differences).any(|form| form[x])).collect();
    for (product, part) in [(15, 7), (7, 3), (11, 3), (13, 5), (14, 6)] {
        if used.contains(&product) {
            used.push(part);
        }
    }
    let _ = write!(text, "#define {head} {{");
    for (_, name, made) in PRODUCTS.iter().filter(|(product, ..)| used.contains(product)) {
        let _ = write!(text, " u32 {name} = {made};");
    }
    for (bit, form) in forms.iter().enumerate() {
        let _ = write!(text, " u32 n{bit} = {}", sum(form));
        if let Some(difference) = differences.get(bit) {
            let _ = write!(text, " ^ (M & ({}))", sum(difference));
        }
        text.push(';');
    }
    text.push_str(" a = n0; b = n1; c = n2; d = n3; }\n");
}

/// An affine map of bytes: for each bit of the image which bits of the argument are summed, and what is added.
#[derive(Clone, Copy)]
struct Affine {
    rows: [u8; 8],
    constant: u8,
}

/// Camellia's s1 (RFC 3713 section 2.4.4) is an affine map, the inversion in the field of AES and another affine map,
/// by the isomorphism that takes Camellia's generator to 0x12.
const CAMELLIA_BEFORE: Affine =
    Affine { rows: [0x3e, 0x8a, 0xd8, 0xb5, 0x2d, 0x81, 0xa4, 0xc5], constant: 0x0b };
const CAMELLIA_AFTER: Affine =
    Affine { rows: [0xc0, 0xba, 0x5f, 0x8c, 0x8d, 0xfc, 0x1e, 0x04], constant: 0x6e };

/// The inverse of the affine map of AES's S-box: the byte turned left by 1, 3 and 6, and 5.
const AES_UNMAP: Affine = Affine { rows: [0xa4, 0x49, 0x92, 0x25, 0x4a, 0x94, 0x29, 0x52], constant: 0x05 };

impl Affine {
    fn apply(&self, byte: u8) -> u8 {
        let bits = (0..8).map(|bit| ((self.rows[bit] & byte).count_ones() as u8 & 1) << bit);
        bits.fold(self.constant, |image, bit| image ^ bit)
    }

    /// `self` after `first`.
    fn after(&self, first: &Affine) -> Affine {
        let constant = self.apply(first.constant);
        let mut rows = [0; 8];
        for argument in 0..8 {
            let image = self.apply(first.apply(1 << argument)) ^ constant;
            for (bit, row) in rows.iter_mut().enumerate() {
                *row |= (image >> bit & 1) << argument;
            }
        }
        Affine { rows, constant }
    }

    /// As a macro from the planes `x` to the planes `y`.
    fn push(&self, text: &mut String, name: &str) {
        let _ = write!(text, "#define {name}(x, y) {{");
        for (bit, row) in self.rows.iter().enumerate() {
            let terms: Vec<String> =
                (0..8).filter(|argument| row >> argument & 1 == 1).map(|n| format!("x[{n}]")).collect();
            let not = if self.constant >> bit & 1 == 1 { "~" } else { "" };
            let _ = write!(text, " y[{bit}] = {not}({});", terms.join(" ^ "));
        }
        text.push_str(" }\n");
    }
}

/// `BEFORE` and `AFTER`: what stands before and after AES's S-box to make Camellia's s1.
pub(crate) fn camellia() -> String {
    let mut text = String::new();
    CAMELLIA_BEFORE.push(&mut text, "BEFORE");
    CAMELLIA_AFTER.after(&AES_UNMAP).push(&mut text, "AFTER");
    text
}
