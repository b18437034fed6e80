//! Known-answer tests, which a cipher passes on a device before its first byte.

use std::ops::Range;
use std::sync::mpsc::channel;

use strongroom_memory::wipe;

use crate::cipher::Cipher;
use crate::failure::Failure;
use crate::launcher::{Launcher, NotNow};
use crate::plan::{Builder, Sectors, Stream};
use crate::sys::Block;

/// What a cipher makes of a counter block of zeros, under a key whose first bit alone is set (NESSIE's and NIST's first
/// vectors for keys of 256 bits).
const FIRST_BIT: [(Cipher, u128); 4] = [
    (Cipher::Aes, 0xe35a_6dcb_19b2_01a0_1ebc_fa8a_a22b_5759),
    (Cipher::Serpent, 0xa223_aa12_8846_3c0e_2be3_8ebd_8256_16c0),
    (Cipher::Twofish, 0x7852_29b5_1b51_5f30_a1fc_c88b_969a_4e47),
    (Cipher::Camellia, 0x2136_fabd_a091_dfb5_171b_94b8_efbb_5d08),
];

/// The last of five blocks, of bytes 0 to 4, of sector 5 in XTS under the bytes 0 to 63 (computed with libgcrypt).
const SECTOR: [(Cipher, u128); 4] = [
    (Cipher::Aes, 0xdcc4_d4ea_ab90_3d36_a394_ca45_3e4c_5484),
    (Cipher::Serpent, 0xdb9f_a388_15c1_e5b1_bd61_92eb_c36c_c3c6),
    (Cipher::Twofish, 0x741e_cdd5_fa93_bf18_35d5_bad1_0671_9786),
    (Cipher::Camellia, 0xc276_295f_3f76_9cb1_e0ec_dc89_69ec_ca40),
];

/// RFC 8439 section 2.3.2: the first 16 bytes of the block.
const CHACHA20: u128 = 0x10f1_e7e4_d13b_5915_500f_dd1f_a320_71c4;

fn answer(table: &[(Cipher, u128)], cipher: Cipher) -> [u8; 16] {
    let (_, answer) = table.iter().find(|(of, _)| *of == cipher).expect("every block cipher has an answer");
    answer.to_be_bytes()
}

/// Compiles a cipher's kernels and checks what they compute.
pub(crate) fn run(launcher: &Launcher, cipher: Cipher) -> Result<(), Failure> {
    launcher.device().prepare(cipher)?;
    let is_right = match cipher {
        Cipher::ChaCha20 => {
            let key = std::array::from_fn(|i| i as u8);
            let nonce = [0, 0, 0, 9, 0, 0, 0, 0x4a, 0, 0, 0, 0];
            keystream(launcher, cipher, key, nonce, 1)? == CHACHA20.to_be_bytes()
        }
        _ => {
            let mut key = [0; 32];
            key[0] = 0x80;
            keystream(launcher, cipher, key, [0; 12], 0)? == answer(&FIRST_BIT, cipher)
                && sector(launcher, cipher)?
        }
    };
    if is_right { Ok(()) } else { Err(Failure::WrongAnswers) }
}

fn keystream(
    launcher: &Launcher,
    cipher: Cipher,
    key: [u8; 32],
    nonce: [u8; 12],
    counter: u32,
) -> Result<[u8; 16], Failure> {
    let made = launched(launcher, |builder| {
        let range = builder.run(16);
        builder.pass(cipher, 8);
        let key = builder.key(&key);
        builder.counter([(Stream { key, nonce, counter }, range.clone())], false);
        range
    })?;
    Ok(made.try_into().expect("sixteen bytes"))
}

/// Encrypted as expected, and decrypted to what it was.
fn sector(launcher: &Launcher, cipher: Cipher) -> Result<bool, Failure> {
    let plain: Vec<u8> = (0..80).map(|i| i / 16).collect();
    let crypt = |input: &[u8], decrypt| {
        launched(launcher, |builder| {
            let range = builder.run(80);
            builder.data_goes_in();
            builder.bytes(range.clone()).copy_from_slice(input);
            builder.pass(cipher, 8);
            let [data, tweak] = [0, 32].map(|first| builder.key(&std::array::from_fn(|i| first + i as u8)));
            let first = builder.tweak(5u128.to_le_bytes());
            builder.encrypt_tweaks(tweak);
            let sectors = Sectors { tweak: first, blocks_per_sector: 5 };
            builder.xts(data, decrypt, [(sectors, range.clone())]);
            range
        })
    };
    let encrypted = crypt(&plain, false)?;
    Ok(encrypted[64..] == answer(&SECTOR, cipher) && crypt(&encrypted, true)? == plain)
}

/// The bytes that a launch makes in the range that `build` returns. Waits while the device is busy.
fn launched(
    launcher: &Launcher,
    build: impl Fn(&mut Builder<'_>) -> Range<usize>,
) -> Result<Vec<u8>, Failure> {
    let mut begun = loop {
        match launcher.begin() {
            Ok(begun) => break begun,
            Err(NotNow::Busy) => std::thread::sleep(std::time::Duration::from_millis(1)),
            Err(NotNow::Failed(failure)) => return Err(failure),
        }
    };
    let mut builder = Builder::new(begun.block());
    let range = build(&mut builder);
    let plan = builder.finish();
    let (give_back, data) = (launcher.returner(), plan.data());
    let (tells, told) = channel();
    let done = move |result: Result<Block, Failure>| {
        let made = result.map(|mut block| {
            let made = block[range].to_vec();
            wipe(&mut block[data]);
            give_back(block);
            made
        });
        drop(tells.send(made));
    };
    launcher.queue(begun, plan, Box::new(done));
    told.recv().unwrap_or(Err(Failure::Lost))
}
