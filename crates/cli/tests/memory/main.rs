//! Secrets in the memory of the daemon: the password nowhere, keys and what is
//! expanded from them in locked memory alone, which core dumps leave out.
//!
//! The keys are derived here from the password, apart from the daemon. They
//! need root, which alone may read a daemon's memory.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use scan::{Found, Pattern, halves, scan};
use sha2::{Digest, Sha256};
use strongroom_disk::FileBacking;
use strongroom_engine_cpu::CpuEngine;
use strongroom_format::vault::Geometry;
use strongroom_format::vault::header::Header;
use strongroom_keys::{Credential, DataKeys, SecretBytes, VaultKeys, unlock_copies};
use strongroom_units::{BlockIndex, BlockSize};
use support::{PROGRAM, Place, assert_success, noise, run};

mod scan;
#[path = "../support/mod.rs"]
mod support;

const PASSWORD: &str = "Zq7-hunter2-UNIQUE-pw-91x";

/// False, and says so, where a daemon's memory cannot be read.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: only root may read the memory of a daemon");
    }
    root
}

fn password() -> Pattern {
    Pattern { name: "the password".to_owned(), bytes: PASSWORD.as_bytes().to_vec() }
}

/// A vault of `suite` whose password is [`PASSWORD`].
fn vault(suite: &str) -> Place {
    let place = Place::new();
    fs::write(place.password(), PASSWORD).expect("written");
    fs::remove_dir_all(place.vault()).expect("removed");
    let (vault, file) = (place.vault(), place.password());
    let words =
        ["init", "--suite", suite, "--kdf-memory", "8MiB", "--kdf-time", "1", "--recovery-out", "none"];
    let mut init = Command::new(PROGRAM);
    assert_success(&init.args(words).arg(vault).arg("--password-file").arg(file).output().expect("runs"));
    place
}

/// The state that HMAC-SHA-256 begins with under a key (RFC 2104), as words in
/// memory.
fn hmac_state(key: &[u8; 32], pad: u8) -> Vec<u8> {
    let mut block = [pad; 64];
    block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
    let mut state = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    sha2::block_api::compress256(&mut state, &[block]);
    state.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// HMAC-SHA-256 (RFC 2104) of a message shorter than a block.
fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let padded = |pad: u8| {
        let mut block = [pad; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::digest([&padded(0x36)[..], message].concat());
    Sha256::digest([&padded(0x5c)[..], &inner].concat()).into()
}

/// What the suites of section 3.1 of the format make of a key.
fn keys_of_counter_mode(suite: &str, name: &str, key: &[u8; 32]) -> Vec<Pattern> {
    let extracted = hmac(&[0; 32], key);
    let commitment = hmac(&extracted, format!("{suite} commitment\0\x01").as_bytes());
    let mut patterns = halves(&format!("{EXTRACTED} of {name}"), &extracted);
    patterns.extend(halves(&format!("the commitment key of {name}"), &commitment));
    patterns
}

/// Every key of a vault.
fn keys_of(vault: &Path) -> Vec<Pattern> {
    let copies: Vec<Vec<u8>> = [0, 1]
        .map(|copy| fs::read(vault.join(format!(".strongroom/header.{copy}"))).expect("a header"))
        .into();
    let copies: Vec<&[u8]> = copies.iter().map(Vec::as_slice).collect();
    let credential = Credential::Password(SecretBytes::take(&mut PASSWORD.as_bytes().to_vec()));
    let (header, root): (Header, _) = unlock_copies(&copies, &credential).expect("the password is right");
    let keys = VaultKeys::derive(&root, header.vault);
    let data = DataKeys::derive(&root, header.vault, header.generation);
    let header_key = root.header_key(header.vault);
    let mut patterns = vec![password()];
    patterns.extend(halves("the root key", root.expose()));
    for (name, key) in [
        ("the key of blocks", data.blocks()),
        ("the key of pages", data.pages()),
        ("the key of the journal", keys.journal()),
        ("the key of records", keys.records()),
        ("the key of freshness files", keys.freshness()),
        ("the key of the header", header_key.expose()),
    ] {
        patterns.extend(halves(name, key));
        patterns.extend(keys_of_counter_mode(header.suite.name(), name, key));
        for pad in [0x36, 0x5c] {
            patterns.extend(halves(&format!("{name}, as HMAC holds it"), &hmac_state(key, pad)));
        }
    }
    patterns.extend(halves("the key of names", keys.names()));
    patterns.extend(halves("the key of attributes", keys.xattrs()));
    patterns
}

/// Has the daemon use all of its keys.
fn use_all(place: &Place) {
    for number in 0..20 {
        let directory = place.at(&format!("directory {number}"));
        fs::create_dir(&directory).expect("made");
        fs::write(directory.join("file"), noise(100_000, number)).expect("written");
        std::os::unix::fs::symlink("to where", directory.join("link")).expect("linked");
        let file = fs::File::open(directory.join("file")).expect("opened");
        rustix::fs::fsetxattr(&file, "user.colour", b"blue", rustix::fs::XattrFlags::empty()).expect("set");
        file.sync_all().expect("synced");
    }
    fs::write("/proc/sys/vm/drop_caches", "3").expect("root may");
    for number in 0..20 {
        let read = fs::read(place.at(&format!("directory {number}/file"))).expect("read");
        assert!(read == noise(100_000, number));
        fs::rename(place.at(&format!("directory {number}/file")), place.at(&format!("file {number}")))
            .expect("renamed");
    }
}

/// The password is nowhere, `known` is there, and all is in kept memory.
fn assert_kept(found: &[Found], known: &str) {
    let exposed: Vec<&Found> = found.iter().filter(|found| !found.is_kept).collect();
    assert!(exposed.is_empty(), "outside of locked memory: {exposed:#?}");
    assert!(!found.iter().any(|found| found.name == "the password"), "{found:#?}");
    assert!(found.iter().any(|found| found.name.starts_with(known)), "not found, so not looked for: {known}");
}

fn keys_stand_in_locked_memory_alone(suite: &str, engine: &str, schedule: Option<&str>) {
    if !is_root() {
        return;
    }
    let place = vault(suite);
    let fresh = place.directory.path().join("fresh");
    place.mount(&["--engine", engine, "--freshness", fresh.to_str().expect("text")]);
    use_all(&place);
    let found = scan(place.pid().as_raw_nonzero().get().cast_unsigned(), &keys_of(&place.vault()));
    assert_kept(&found, "the root key");
    assert_kept(&found, "the key of names");
    if let Some(schedule) = schedule {
        assert_kept(&found, schedule);
    }
    place.umount();
}

const EXPANDED: Option<&str> = Some("an expanded AES-256 key");

#[test]
fn keys_of_xaes() {
    keys_stand_in_locked_memory_alone("xaes-256-gcm", "cpu", EXPANDED);
}

#[test]
fn keys_of_xaes_by_lesser_code() {
    keys_stand_in_locked_memory_alone("xaes-256-gcm", "cpu-portable", None);
}

#[test]
fn keys_of_xchacha() {
    keys_stand_in_locked_memory_alone("xchacha20-poly1305", "cpu", None);
}

#[test]
fn keys_of_aegis() {
    keys_stand_in_locked_memory_alone("aegis-256x2", "cpu", None);
    keys_stand_in_locked_memory_alone("aegis-256x4", "cpu", None);
}

/// What HKDF makes of a key before it is expanded to those of ciphers.
const EXTRACTED: &str = "the extracted key";

#[test]
fn keys_of_serpent() {
    keys_stand_in_locked_memory_alone("serpent-256-poly1305", "cpu", Some(EXTRACTED));
    keys_stand_in_locked_memory_alone("serpent-256-poly1305", "cpu-portable", Some(EXTRACTED));
}

#[test]
fn keys_of_the_cascade() {
    keys_stand_in_locked_memory_alone("cascade", "cpu", EXPANDED);
    keys_stand_in_locked_memory_alone("cascade", "cpu-portable", Some(EXTRACTED));
}

/// What leads the password to the daemon, and serving in the first process.
#[test]
fn no_way_of_the_password_leaves_it_behind() {
    if !is_root() {
        return;
    }
    let place = vault("xaes-256-gcm");
    let keys = keys_of(&place.vault());
    let command = format!("cat {}", place.password().display());
    for foreground in [false, true] {
        let mut mount = Command::new(PROGRAM);
        mount.arg("mount").arg(place.vault()).arg(place.mount_point()).arg("--log").arg(place.log());
        mount.args(["--password-command", &command]).args(foreground.then_some("--foreground"));
        let mut process = mount.spawn().expect("the program runs");
        support::soon("it is mounted", || support::is_mounted(&place.mount_point()));
        fs::write(place.at("file"), "text").expect("written");
        let found = scan(place.pid().as_raw_nonzero().get().cast_unsigned(), &keys);
        assert_kept(&found, "the root key");
        place.umount();
        assert!(process.wait().expect("it ends").success());
    }
}

#[test]
fn keys_of_disks() {
    if !is_root() {
        return;
    }
    let ciphers = ["aes-xts-plain64", "aes-cbc-essiv:sha256", "serpent-xts-plain64", "camellia-xts-plain64"];
    for (cipher, version) in ciphers.into_iter().zip(["luks2", "luks1", "luks2", "luks2"]) {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
        fs::write(at("password"), PASSWORD).expect("written");
        let kdf = ["--kdf", "pbkdf2", "--kdf-time", "1000", "--password-file"];
        let disk = ["disk", "format", "--size", "32MiB", "--type", version, "--cipher", cipher, "--yes"];
        assert_success(&run(&[&disk[..], &kdf[..], &[&at("password"), &at("image")]].concat()));
        let engine: std::sync::Arc<dyn strongroom_engine::Engine> = std::sync::Arc::new(CpuEngine::new());
        let image = FileBacking::open_shared(Path::new(&at("image")), false).expect("an image");
        let header = strongroom_disk::Header::read(&image).expect("a header");
        let key = header.unlock(&image, &engine, PASSWORD.as_bytes(), None).expect("it is right").key;
        drop(image);
        let mut patterns = halves("the volume key", key.expose());
        patterns.push(password());

        fs::create_dir(at("plain")).expect("made");
        let open =
            ["disk", "open", "--foreground", "--raw", &at("plain"), "--password-file", &at("password")];
        let mut daemon = Command::new(PROGRAM).args(open).arg(at("image")).spawn().expect("the program runs");
        let volume = Path::new(&at("plain")).join("volume");
        support::soon("it is open", || volume.exists());
        let mut file = fs::File::options().read(true).write(true).open(&volume).expect("opened");
        file.write_all(&noise(1 << 20, 1)).expect("written");
        file.sync_all().expect("synced");
        file.read_exact(&mut vec![0; 1 << 20]).expect("read");
        drop(file);
        let found = scan(daemon.id(), &patterns);
        let closed = run(&["disk", "close", &at("plain")]);
        let ended = daemon.wait().expect("it ends");
        assert_success(&closed);
        assert!(ended.success());
        if cipher.starts_with("aes") {
            assert_kept(&found, "an expanded AES-256 key");
        } else {
            // These keep no plain key, but must be looked for all the same.
            assert!(found.iter().all(|found| found.is_kept), "{cipher}: {found:#?}");
        }
    }
}

/// The scan finds what is not kept: in another process, in this one, and what
/// nobody gave it.
#[test]
fn planted_secrets_are_found() {
    let planted = Pattern { name: "planted".to_owned(), bytes: b"Planted-4c1e-secret-b77a".to_vec() };
    let mut other = Command::new("cat")
        .env("PLANTED", "Planted-4c1e-secret-b77a")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("cat");
    // Until it answers it may have neither an environment of its own nor its libraries.
    let (mut input, mut output) = (other.stdin.take().expect("piped"), other.stdout.take().expect("piped"));
    input.write_all(b"?").expect("taken");
    output.read_exact(&mut [0]).expect("it answers");
    let found = scan(other.id(), &[planted]);
    drop(input);
    other.wait().expect("it ends");
    assert!(found.iter().any(|found| found.name == "planted" && !found.is_kept), "{found:#?}");

    let key: [u32; 8] =
        noise(32, 77).as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect::<Vec<_>>()[..]
            .try_into()
            .expect("eight words");
    let schedule = Box::new(scan::expanded(&key));
    let state: Box<Vec<u8>> = Box::new([b"expand 32-byte k".as_slice(), &noise(32, 78)].concat());
    let found = scan(std::process::id(), &[]);
    for (name, address) in
        [("an expanded AES-256 key", schedule.as_ptr().addr()), (scan::CHACHA, state.as_ptr().addr())]
    {
        let here = found.iter().find(|found| found.name == name && found.address == address);
        assert!(here.is_some_and(|found| !found.is_kept), "{name}: {found:#?}");
    }
}

/// The stored file of the only one in a vault: the largest there is.
fn stored(vault: &Path) -> Vec<u8> {
    let mut files = Vec::new();
    let mut left = vec![vault.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry")) {
            let kind = entry.file_type().expect("a kind");
            if entry.file_name() == ".strongroom" {
                continue;
            } else if kind.is_dir() {
                left.push(entry.path());
            } else if kind.is_file() {
                files.push(fs::read(entry.path()).expect("read"));
            }
        }
    }
    files.into_iter().max_by_key(Vec::len).expect("a file")
}

/// Masks of data and stored data, which are one's keystream onto the other: two
/// pieces of each of some blocks.
fn masks_of(data: &[u8], stored: &[u8]) -> Vec<Pattern> {
    let size = BlockSize::from_bytes(4096).expect("a size of blocks");
    let geometry = Geometry::new(size);
    let piece = |block: u64, at: usize| {
        let offset = geometry.block_offset(BlockIndex(block)).0 as usize + at;
        let plain = &data[block as usize * 4096 + at..];
        let bytes = stored[offset..offset + 16].iter().zip(plain).map(|(sealed, plain)| sealed ^ plain);
        Pattern { name: format!("the mask of block {block} at {at}"), bytes: bytes.collect() }
    };
    (0..data.len() as u64 / 4096)
        .step_by(97)
        .flat_map(|block| [piece(block, 0), piece(block, 4000)])
        .collect()
}

/// Bytes of masks that were there when they were needed, by what needed them.
fn mask_hits(place: &Place, kind: &str) -> u64 {
    place.status()["masks"][kind]["hit_bytes"].as_u64().expect("a count")
}

/// Masks that were used, checked, or made in vain are wiped: none of what was
/// sealed and opened is left.
fn masks_are_wiped(suite: &str) {
    if !is_root() {
        return;
    }
    let place = vault(suite);
    place.mount(&["--engine", "sim", "-o", "masks=on,check=16"]);
    let data = noise(12 << 20, 5);
    // A device that gets no CPU meanwhile makes no mask in time.
    support::soon("masks are used for writes", || {
        let _ = fs::remove_file(place.at("file"));
        fs::write(place.at("file"), &data).expect("written");
        fs::File::open(place.at("file")).and_then(|file| file.sync_all()).expect("synced");
        mask_hits(&place, "writes") > 1 << 20
    });
    support::soon("masks are used for reads", || {
        fs::write("/proc/sys/vm/drop_caches", "3").expect("root may");
        assert!(fs::read(place.at("file")).expect("read") == data);
        mask_hits(&place, "reads") > 1 << 20
    });
    let masks = masks_of(&data, &stored(&place.vault()));
    let daemon = place.pid().as_raw_nonzero().get().cast_unsigned();
    // A window ends with the file's last handle, which the kernel tells later;
    // what is wiped late would be found until then, and what never is, for ever.
    support::soon("no mask is left", || {
        let mut found = scan(daemon, &masks);
        // Expanded keys are looked for by every scan; the cascade has some, in locked memory.
        found.retain(|found| !found.is_kept || found.name.starts_with("the mask"));
        eprintln!("{found:#?}");
        found.is_empty()
    });
    place.umount();
}

#[test]
fn masks_of_serpent_are_wiped() {
    masks_are_wiped("serpent-256-poly1305");
}

#[test]
fn masks_of_the_cascade_are_wiped() {
    masks_are_wiped("cascade");
}

/// A mask that is left is found: in this process, where one stands.
#[test]
fn a_mask_that_is_left_is_found() {
    if !is_root() {
        return;
    }
    let (data, stored) = (noise(4096, 6), noise(3 * 4096 + 4096, 7));
    let masks = masks_of(&data, &stored);
    let offset = Geometry::new(BlockSize::MIN).block_offset(BlockIndex(0)).0 as usize;
    let left: Vec<u8> = stored[offset..].iter().zip(&data).map(|(sealed, plain)| sealed ^ plain).collect();
    let address = std::hint::black_box(&left).as_ptr().addr();
    let found = scan(std::process::id(), &masks[..1]);
    drop(std::hint::black_box(left));
    assert!(found.iter().any(|found| found.address == address), "{found:#?}");
}
