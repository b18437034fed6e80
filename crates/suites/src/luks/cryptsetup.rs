//! cryptsetup, on files and without the kernel: it makes images that are opened here, and opens, changes and
//! decrypts those that were made here. Its own ciphers without a kernel are those of AES.

use std::fs;

use super::lab::{Lab, same};
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::tally::Tally;

/// Bytes of data in an image.
const DATA: usize = 2 << 20;

/// cryptsetup's options for the cheapest cost of each KDF.
const KDFS: [(&str, &str); 3] = [
    ("pbkdf2", "--pbkdf pbkdf2 --pbkdf-force-iterations 1000"),
    ("argon2i", "--pbkdf argon2i --pbkdf-memory 64 --pbkdf-force-iterations 4 --pbkdf-parallel 1"),
    ("argon2id", "--pbkdf argon2id --pbkdf-memory 128 --pbkdf-force-iterations 5 --pbkdf-parallel 2"),
];

/// The cheapest cost of this program's KDFs.
const CHEAP: &str = "--kdf-memory 64KiB --kdf-time 4";

pub(super) fn run(lab: &Lab, tally: &mut Tally, long: bool) {
    let (sectors, hashes): (&[u32], &[&str]) =
        (&[512, 4096], &["sha1", "sha256", "sha512", "ripemd160", "whirlpool"]);
    for sector in sectors {
        for (kdf, options) in KDFS {
            let name = format!("LUKS2 of cryptsetup, {sector} bytes, {kdf}");
            tally.count(&name, theirs_luks2(lab, *sector, options, "aes-xts-plain64", 512));
        }
    }
    let more = [
        ("aes-cbc-essiv:sha256", 256),
        ("aes-cbc-plain64", 128),
        ("aes-xts-plain", 256),
        ("aes-xts-essiv:sha256", 512),
    ];
    for (cipher, bits) in more {
        let name = format!("LUKS2 of cryptsetup, {cipher}, {bits} bits");
        tally.count(&name, theirs_luks2(lab, 512, KDFS[0].1, cipher, bits));
    }
    for hash in hashes {
        tally.count(&format!("LUKS1 of cryptsetup, {hash}"), theirs_luks1(lab, hash));
    }
    tally.count("a header copy of cryptsetup's that is damaged", damaged_copy(lab));
    tally.count("tokens of cryptsetup's are kept", tokens(lab));
    tally.count("a reencryption that cryptsetup has begun is refused", begun_reencryption(lab));
    for (version, sector) in [("luks1", 512), ("luks2", 512), ("luks2", 4096)] {
        tally.count(&format!("{version} of ours, {sector} bytes"), ours(lab, version, sector));
    }
    let ciphers: &[(&str, u32, u32)] = &[
        ("aes-xts-plain64", 512, 512),
        ("aes-xts-plain64", 512, 4096),
        ("aes-cbc-essiv:sha256", 256, 512),
        ("aes-xts-essiv:sha256", 512, 4096),
        ("aes-cbc-plain64", 256, 4096),
        ("aes-xts-plain", 256, 512),
        ("aes-cbc-plain", 128, 512),
    ];
    let count = if long { ciphers.len() } else { 5 };
    for (cipher, bits, sector) in &ciphers[..count] {
        let name = format!("ours decrypted offline, {cipher}, {bits} bits, {sector} bytes");
        tally.count(&name, ours_decrypted(lab, cipher, *bits, *sector));
    }
}

/// cryptsetup encrypts known data in place, offline; it is read here.
fn theirs_luks2(lab: &Lab, sector: u32, kdf: &str, cipher: &str, bits: u32) -> Result {
    let data = Lab::data(DATA, u64::from(sector));
    fs::write(lab.path("data"), &data)?;
    lab.remove(&["header"]);
    lab.run(&format!(
        "cryptsetup reencrypt --encrypt --type luks2 --header header --force-offline-reencrypt {kdf} --cipher {cipher} \
         --key-size {bits} --sector-size {sector} --batch-mode --key-file passphrase data"
    ))?;
    ensure!(fs::read(lab.path("data"))? != data, "cryptsetup has encrypted nothing");
    same(&lab.plain("data", "--header header", DATA)?, &data)?;
    // And back: what is written here, cryptsetup decrypts.
    let other = Lab::data(DATA, 77);
    lab.fill("data", "--header header", &other)?;
    decrypt(lab)?;
    same(&fs::read(lab.path("data"))?, &other)
}

fn decrypt(lab: &Lab) -> Result {
    lab.run(
        "cryptsetup reencrypt --decrypt --header header --force-offline-reencrypt --batch-mode --key-file passphrase \
         data",
    )
    .map(drop)
}

/// A header of cryptsetup's, which is opened, given a key and opened by both. (What LUKS1 data is like is shown
/// with QEMU.)
fn theirs_luks1(lab: &Lab, hash: &str) -> Result {
    lab.sparse("image", 4 << 20)?;
    lab.run(&format!(
        "cryptsetup luksFormat --type luks1 --hash {hash} --pbkdf-force-iterations 1000 --batch-mode image passphrase"
    ))?;
    let key =
        "strongroom disk key add image --password-file passphrase --new-password-file second --kdf-time 1000";
    lab.run(key)?;
    lab.run("cryptsetup open --test-passphrase --key-slot 1 --key-file second image")?;
    lab.run("cryptsetup luksAddKey --pbkdf-force-iterations 1000 --key-file second image passphrase")?;
    lab.run("strongroom disk key remove image 0 --password-file passphrase --key-slot 2")?;
    lab.run("strongroom disk key remove image 1 --password-file passphrase")?;
    lab.run("cryptsetup open --test-passphrase --key-file passphrase image")?;
    let refused = lab.finish("cryptsetup open --test-passphrase --key-file second image")?;
    ensure!(refused.code() == 2, "a removed key opens: {}", refused.output());
    Ok(())
}

fn theirs(lab: &Lab) -> Result {
    lab.sparse("image", 17 << 20)?;
    lab.run(&format!("cryptsetup luksFormat --type luks2 {} --batch-mode image passphrase", KDFS[0].1))
        .map(drop)
}

/// Either copy of a header of cryptsetup's is enough, and is made whole by a change.
fn damaged_copy(lab: &Lab) -> Result {
    use std::os::unix::fs::FileExt;
    theirs(lab)?;
    for at in [0u64, 0x4000] {
        let file = fs::File::options().write(true).open(lab.path("image"))?;
        file.write_all_at(&[0; 64], at)?;
        drop(file);
        let info = lab.finish("strongroom disk info image")?;
        ensure!(info.code() == 4, "the damage is not told: {}", info.output());
        lab.run(&format!(
            "strongroom disk key change image --password-file passphrase --new-password-file passphrase {CHEAP}"
        ))?;
        lab.run("strongroom disk info image")?;
        lab.run("cryptsetup open --test-passphrase --key-file passphrase image")?;
    }
    Ok(())
}

/// Tokens pass through a change as they were.
fn tokens(lab: &Lab) -> Result {
    theirs(lab)?;
    let token = r#"{"type":"test","keyslots":["0"],"data":{"list":[1,2.5,null,"x"],"deep":{"a":{}}}}"#;
    fs::write(lab.path("token"), token)?;
    lab.run("cryptsetup token import --json-file token --token-id 3 image")?;
    lab.run(&format!(
        "strongroom disk key add image --password-file passphrase --new-password-file second {CHEAP}"
    ))?;
    let exported: serde_json::Value =
        serde_json::from_str(&lab.run("cryptsetup token export --token-id 3 image")?)?;
    let expected: serde_json::Value = serde_json::from_str(token)?;
    ensure!(exported == expected, "the token is {exported}");
    Ok(())
}

/// A reencryption in progress is refused by name, and nothing is written.
fn begun_reencryption(lab: &Lab) -> Result {
    theirs(lab)?;
    lab.run("cryptsetup reencrypt --init-only --batch-mode --key-file passphrase image")?;
    let before = fs::read(lab.path("image"))?;
    for line in [
        "strongroom disk info image".to_owned(),
        "strongroom disk open image --nbd socket --password-file passphrase".to_owned(),
        format!(
            "strongroom disk key add image --password-file passphrase --new-password-file second {CHEAP}"
        ),
        "strongroom disk resize image 24MiB --yes".to_owned(),
    ] {
        let refused = lab.finish(&line)?;
        ensure!(
            refused.code() != 0 && refused.output().contains("reencrypt"),
            "{line}: {}, {}",
            refused.code(),
            refused.output()
        );
    }
    ensure!(fs::read(lab.path("image"))? == before, "the image was changed");
    Ok(())
}

/// An image of ours through cryptsetup's commands.
fn ours(lab: &Lab, version: &str, sector: u32) -> Result {
    lab.remove(&["image", "backup"]);
    let cost = if version == "luks1" { "--kdf-time 1000" } else { CHEAP };
    lab.run(&format!(
        "strongroom disk format image --size 18MiB --type {version} --sector-size {sector} --yes --password-file \
         passphrase {cost}"
    ))?;
    lab.run("cryptsetup isLuks image")?;
    lab.run("cryptsetup open --test-passphrase --key-file passphrase image")?;
    let dump = lab.run("cryptsetup luksDump image")?;
    ensure!(dump.contains("aes-xts-plain64") || dump.contains("xts-plain64"), "luksDump says {dump}");
    lab.run(&format!("cryptsetup luksAddKey {} --key-file passphrase image second", KDFS[0].1))?;
    lab.run("strongroom disk key list image")?;
    lab.run("strongroom disk key remove image 0 --password-file second")?;
    lab.run("cryptsetup open --test-passphrase --key-file second image")?;
    // Backups pass both ways.
    lab.run("strongroom disk header backup image backup")?;
    lab.run(&format!("cryptsetup luksAddKey {} --key-file second image passphrase", KDFS[0].1))?;
    lab.run("cryptsetup luksHeaderRestore --batch-mode --header-backup-file backup image")?;
    let gone = lab.finish("cryptsetup open --test-passphrase --key-file passphrase image")?;
    ensure!(gone.code() == 2, "the restored header has the newer key: {}", gone.output());
    lab.remove(&["backup"]);
    lab.run("cryptsetup luksHeaderBackup --header-backup-file backup image")?;
    lab.run("strongroom disk erase image --yes")?;
    let erased = lab.finish("cryptsetup open --test-passphrase --key-file second image")?;
    ensure!(!erased.status.success(), "an erased image opens");
    lab.run("strongroom disk header restore image backup --yes")?;
    lab.run("cryptsetup open --test-passphrase --key-file second image").map(drop)
}

/// Data that was written here, decrypted by cryptsetup.
fn ours_decrypted(lab: &Lab, cipher: &str, bits: u32, sector: u32) -> Result {
    lab.remove(&["header"]);
    fs::write(lab.path("data"), vec![0; DATA])?;
    lab.run(&format!(
        "strongroom disk format data --header header --cipher {cipher} --key-size {bits} --sector-size {sector} --yes \
         --password-file passphrase {CHEAP}"
    ))?;
    let data = Lab::data(DATA, 5);
    lab.fill("data", "--header header", &data)?;
    ensure!(fs::read(lab.path("data"))? != data, "the image is unencrypted");
    decrypt(lab)?;
    same(&fs::read(lab.path("data"))?, &data)
}
