//! QEMU's own LUKS1, with aes, serpent and twofish: both directions, by qemu-img and qemu-io.

use std::fs;

use super::lab::{Lab, PASSPHRASE, same};
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::tally::Tally;

const DATA: usize = 1 << 20;

/// How often QEMU may fail to time its KDF.
const ATTEMPTS: u32 = 10;

/// As QEMU names them, and as dm-crypt does: cipher, mode, IV, bits.
const CIPHERS: [(&str, &str, &str, &str, &str, u32); 8] = [
    ("aes-256", "xts", "plain64", "", "aes-xts-plain64", 512),
    ("aes-128", "xts", "plain64", "", "aes-xts-plain64", 256),
    ("aes-256", "cbc", "essiv", "sha256", "aes-cbc-essiv:sha256", 256),
    ("aes-256", "cbc", "plain64", "", "aes-cbc-plain64", 256),
    ("serpent-256", "xts", "plain64", "", "serpent-xts-plain64", 512),
    ("serpent-256", "cbc", "essiv", "sha256", "serpent-cbc-essiv:sha256", 256),
    ("twofish-256", "xts", "plain64", "", "twofish-xts-plain64", 512),
    ("twofish-256", "cbc", "plain", "", "twofish-cbc-plain", 256),
];

pub(super) fn run(lab: &Lab, tally: &mut Tally, _long: bool) {
    for cipher in &CIPHERS {
        let name = format!("{}, {} bits", cipher.4, cipher.5);
        tally.count(&format!("LUKS1 of QEMU, {name}"), theirs(lab, cipher));
        tally.count(&format!("LUKS1 of ours in QEMU, {name}"), ours(lab, cipher));
    }
}

/// How QEMU is told of an image and its passphrase.
fn spoken(image: &str) -> String {
    format!(
        "--object secret,id=s,data={} --image-opts driver=luks,key-secret=s,file.filename={image}",
        secret()
    )
}

/// The passphrase without its blank, which the words of a command could not hold.
fn secret() -> String {
    PASSPHRASE.replace(' ', "-")
}

fn prepare(lab: &Lab) -> Result {
    lab.remove(&["image", "plain", "back"]);
    Ok(fs::write(lab.path("qemu"), secret())?)
}

fn plain(lab: &Lab) -> Result<Vec<u8>> {
    fs::write(lab.path("passphrase"), secret())?;
    let found = lab.plain("image", "", DATA);
    fs::write(lab.path("passphrase"), PASSPHRASE)?;
    found
}

fn theirs(lab: &Lab, cipher: &(&str, &str, &str, &str, &str, u32)) -> Result {
    prepare(lab)?;
    let (name, mode, iv, iv_hash, ..) = cipher;
    let hash = if iv_hash.is_empty() { String::new() } else { format!(",ivgen-hash-alg={iv_hash}") };
    let data = Lab::data(DATA, 11);
    fs::write(lab.path("plain"), &data)?;
    convert(
        lab,
        &format!(
            "qemu-img convert --object secret,id=s,data={} -f raw -O luks -o \
         key-secret=s,cipher-alg={name},cipher-mode={mode},ivgen-alg={iv}{hash},iter-time=10 plain image",
            secret()
        ),
    )?;
    same(&plain(lab)?, &data)
}

/// QEMU times its KDF to choose the iterations, and gives up when it saw no CPU time pass, as happens on a
/// busy machine: that is tried again.
fn convert(lab: &Lab, line: &str) -> Result {
    let is_mistimed = |output: &str| output.contains("Unable to get accurate CPU usage");
    for _ in 0..ATTEMPTS {
        let finished = lab.finish(line)?;
        let output = finished.output();
        if finished.status.success() || !is_mistimed(&output) {
            ensure!(finished.status.success(), "`{line}`: {output}");
            return Ok(());
        }
    }
    Err(Failure::new(format!("`{line}` could not time its KDF {ATTEMPTS} times")))
}

fn ours(lab: &Lab, cipher: &(&str, &str, &str, &str, &str, u32)) -> Result {
    prepare(lab)?;
    let (.., name, bits) = cipher;
    lab.run(&format!(
        "strongroom disk format image --size 4MiB --type luks1 --cipher {name} --key-size {bits} --kdf-time 1000 --yes \
         --password-file qemu"
    ))?;
    // QEMU writes, and it is read here.
    let spoken = spoken("image");
    let io = |line: &str| {
        let mut command = lab.command(&format!("qemu-io {spoken}"));
        command.args(["-c", line]);
        strongroom_harness::command::output(&mut command, super::lab::LIMIT)
    };
    io("write -P 0x5a 0 1M")?;
    io("write -P 0x11 4096 512")?;
    let mut expected = vec![0x5a; DATA];
    expected[4096..4096 + 512].fill(0x11);
    same(&plain(lab)?, &expected)?;
    // Written here, and QEMU reads it.
    let data = Lab::data(DATA, 12);
    fs::write(lab.path("passphrase"), secret())?;
    let filled = lab.fill("image", "", &data);
    fs::write(lab.path("passphrase"), PASSPHRASE)?;
    filled?;
    lab.run(&format!("qemu-img convert {spoken} -O raw back"))?;
    let back = fs::read(lab.path("back"))?;
    ensure!(back.len() >= DATA, "QEMU sees {} bytes", back.len());
    same(&back[..DATA], &data)
}
