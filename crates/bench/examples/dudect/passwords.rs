//! What a wrong password, key file or forged header meets on its way.

use std::hint::black_box;
use std::time::Instant;

use strongroom_format::vault::Suite;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::slot::{KdfCost, Label, Slot};
use strongroom_keys::slots::{NewVault, SlotOptions, create_header, verify_header};
use strongroom_keys::{Credential, KeyFile, RootKey, Secret, SecretBytes, unlock};
use strongroom_units::BlockSize;

use crate::Subject;
use crate::statistics::{Rng, Times, measure};

/// So many calls of the others are one of a password, which takes thousands of
/// times as long.
const CALLS_PER_PASSWORD: usize = 20;

/// The ways of a secret that is wrong.
pub(crate) fn subjects() -> Vec<Subject> {
    vec![
        Subject::new("a secret compared".into(), "tag", of_secret),
        Subject::new("a header's MAC".into(), "tag", of_header),
        Subject::new("a slot opened by a wrong key file".into(), "password", of_key_file),
        Subject::new("a slot opened by a wrong password".into(), "password", |calls, rng| {
            of_password(calls / CALLS_PER_PASSWORD, rng)
        }),
        Subject::new("a slot whose commitment is forged".into(), "tag", of_commitment),
    ]
}

/// Wrong in the first byte, or in the last.
fn wrong(right: &[u8], class: usize) -> Vec<u8> {
    let mut wrong = right.to_vec();
    wrong[if class == 0 { 0 } else { right.len() - 1 }] ^= 1;
    wrong
}

fn timed<T>(call: impl FnOnce() -> T) -> f64 {
    let started = Instant::now();
    black_box(call());
    started.elapsed().as_nanos() as f64
}

fn header(credential: &Credential) -> (Header, RootKey) {
    let vault =
        NewVault { suite: Suite::Xaes256Gcm, block_size: BlockSize::MIN, base32_names: false, created: 0 };
    // As cheap as a password may be to try: what is sought lies around the KDF.
    let cost = KdfCost::new(KdfCost::MEMORY_MIN, 1, 1).expect("within the bounds");
    let options = SlotOptions { label: Label::default(), created: 0, cost };
    create_header(&vault, credential, &options).expect("the kernel gives random bytes")
}

fn of_secret(calls: usize, rng: &mut Rng) -> Times {
    let secret = Secret::<32>::random().expect("the kernel gives random bytes");
    measure(calls, rng, |class, _| {
        let other: [u8; 32] = wrong(secret.expose(), class).try_into().expect("as long as the secret");
        timed(|| secret.equals(black_box(&other)))
    })
}

fn of_header(calls: usize, rng: &mut Rng) -> Times {
    let (mut header, root) = header(&key_file(&rng.bytes(KeyFile::KEY_LEN)));
    let right = header.mac;
    measure(calls, rng, |class, _| {
        header.mac = wrong(&right, class).try_into().expect("as long as the MAC");
        timed(|| verify_header(black_box(&header), &root))
    })
}

fn key_file(content: &[u8]) -> Credential {
    Credential::KeyFile(KeyFile::from_content(content).expect("it is long enough"))
}

fn of_key_file(calls: usize, rng: &mut Rng) -> Times {
    let right = rng.bytes(KeyFile::KEY_LEN);
    let (header, _) = header(&key_file(&right));
    measure(calls, rng, |class, _| {
        let credential = key_file(&wrong(&right, class));
        timed(|| unlock(&header, &credential).is_err())
    })
}

fn of_password(calls: usize, rng: &mut Rng) -> Times {
    let password = |text: &[u8]| Credential::Password(SecretBytes::take(&mut text.to_vec()));
    let right = rng.bytes(20);
    let (header, _) = header(&password(&right));
    measure(calls, rng, |class, _| {
        let credential = password(&wrong(&right, class));
        timed(|| unlock(&header, &credential).is_err())
    })
}

/// The right key file, for a slot whose commitment was changed.
fn of_commitment(calls: usize, rng: &mut Rng) -> Times {
    let credential = key_file(&rng.bytes(KeyFile::KEY_LEN));
    let (mut header, _) = header(&credential);
    let Some(Slot::Known(slot)) = header.slots[0].clone() else { panic!("the vault has a slot") };
    let right = slot.commitment;
    measure(calls, rng, |class, _| {
        let Some(Slot::Known(slot)) = &mut header.slots[0] else { panic!("the vault has a slot") };
        slot.commitment = wrong(&right, class).try_into().expect("as long as the commitment");
        timed(|| unlock(&header, &credential).is_err())
    })
}
