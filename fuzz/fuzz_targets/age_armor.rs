//! Armor of age: what is taken out of it goes in again, and junk is an error.
#![no_main]

use std::io::{Cursor, Read, Write};

use libfuzzer_sys::fuzz_target;
use strongroom_file::armor::{Armor, Dearmor, detect};

fuzz_target!(|data: &[u8]| {
    let mut inside = Vec::new();
    if Dearmor::new(Cursor::new(data)).read_to_end(&mut inside).is_ok() {
        let mut armor = Armor::new(Vec::new()).expect("memory");
        armor.write_all(&inside).expect("memory");
        let again = armor.finish().expect("memory");
        let mut back = Vec::new();
        Dearmor::new(Cursor::new(&again)).read_to_end(&mut back).expect("it was written so");
        assert_eq!(back, inside);
        let text = |bytes: &[u8]| -> Vec<u8> { bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect() };
        assert_eq!(text(&again), text(data));
    }
    let (mut reader, _) = detect(Cursor::new(data.to_vec())).expect("memory");
    let _ = reader.read_to_end(&mut Vec::new());
});
