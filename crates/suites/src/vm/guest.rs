//! What runs in the machine: an initramfs with the programs, and a script that tells on the console how each step
//! went.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::kernel::Kernel;
use super::{Image, find};
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};

const LIMIT: Duration = Duration::from_secs(120);

const MODULES: [&str; 28] = [
    "virtio_pci",
    "virtio_blk",
    "crc32c_generic",
    "ext4",
    "loop",
    "dm-mod",
    "dm-crypt",
    "ecb",
    "cbc",
    "xts",
    "essiv",
    "authenc",
    "aes_generic",
    "serpent_generic",
    "twofish_generic",
    "camellia_generic",
    "sha256_generic",
    "sha256",
    "sha512_generic",
    "sha1_generic",
    "algif_skcipher",
    "algif_hash",
    "fuse",
    "ublk_drv",
    "vmgenid",
    "virtio_crypto",
    "vfio-pci",
    "vfio_iommu_type1",
];

/// Steps with ublk, and what they show.
pub(super) const UBLK: [(&str, &str); 8] = [
    ("ublk-open", "a ublk device of an image of ours"),
    ("ublk-copy", "ext4 on the ublk device takes a tree"),
    ("ublk-again", "e2fsck is content and the tree the same after closing and opening"),
    ("ublk-dm", "dm-crypt sees the same tree"),
    ("ublk-swap", "swap on a ublk device with a one-time key"),
    ("ublk-kill-1", "the server is killed under ext4: errors and no hang, and what was synced is whole"),
    ("ublk-kill-2", "once more, beside the device that is left of the first"),
    ("ublk-kill-3", "and once more"),
];

/// The passphrase's file has no newline at its end, and is a key file for cryptsetup.
pub(super) fn script(images: &[Image], data: usize) -> String {
    let mut text = "cd /carrier\nexec 2>&1\n".to_owned();
    for image in images {
        let name = image.name();
        let open = format!("cryptsetup open --type luks --key-file passphrase {name} disk");
        if image.ours {
            let _ = writeln!(
                text,
                "step {name} sh -c '{open} && head -c {data} /dev/mapper/disk | cmp - data && cryptsetup close disk'"
            );
        } else {
            let form = match image.version {
                "luks1" => "--type luks1".to_owned(),
                _ => format!(
                    "--type luks2 --pbkdf pbkdf2 --sector-size {} --luks2-keyslots-size 1m --offset 4096",
                    image.sector
                ),
            };
            let _ = writeln!(
                text,
                "step {name} sh -c 'truncate -s 4M {name} && cryptsetup luksFormat -q {form} --cipher {} --key-size {} \
                 --pbkdf-force-iterations 1000 {name} passphrase && {open} && cat data > /dev/mapper/disk && sync && \
                 cryptsetup close disk'",
                image.cipher, image.key_bits
            );
        }
        text.push_str("cryptsetup close disk 2>/dev/null\n");
    }
    text.push_str(UBLK_SCRIPT);
    text
}

const UBLK_SCRIPT: &str = r#"
mkdir -p /mnt
cheap="--kdf pbkdf2 --kdf-time 1000"
open="strongroom disk open /tmp/image --ublk --password-file passphrase"
strongroom disk format /tmp/image --size 96MiB --yes --password-file passphrase $cheap
step ublk-open sh -c "$open && test -b /dev/ublkb0"
step ublk-copy sh -c 'mkfs.ext4 -q /dev/ublkb0 && mount /dev/ublkb0 /mnt && cp -a /lib /mnt/tree && sync && ! strongroom disk close /tmp/image && umount /mnt && strongroom disk close /tmp/image'
step ublk-again sh -c "$open && e2fsck -f -n /dev/ublkb0 && mount /dev/ublkb0 /mnt && diff -r /lib /mnt/tree && umount /mnt && strongroom disk close /tmp/image"
step ublk-dm sh -c 'cryptsetup open --key-file passphrase /tmp/image disk && mount -o ro /dev/mapper/disk /mnt && diff -r /lib /mnt/tree && umount /mnt && cryptsetup close disk'
truncate -s 64M /tmp/swap
step ublk-swap sh -c 'strongroom disk open /tmp/swap --ublk --ephemeral --yes && mkswap /dev/ublkb0 && swapon /dev/ublkb0 && ! strongroom disk close /tmp/swap && swapoff /dev/ublkb0 && strongroom disk close /tmp/swap'
cat > /tmp/kill <<'END'
# Files are synced and noted one after the other, and written without a sync beside that, while the server is killed.
set -e
begin() {
  strongroom disk open /tmp/image --ublk --foreground --password-file /carrier/passphrase &
  server=$!
  waited=0
  # A device whose server was killed has no block device any more.
  until device=$(ls /dev/ublkb*) 2>/dev/null; do
    waited=$((waited + 1))
    test $waited -lt 300
    sleep 0.2
  done
  test -b "$device"
  mount "$device" /mnt
}
part() { dd if=/carrier/data bs=64k skip=$(($1 % 8)) count=1 2>/dev/null; }
begin
rm -rf /mnt/kill /mnt/after /tmp/synced
mkdir /mnt/kill
sync
touch /tmp/synced
(
  n=0
  while part $n | dd of=/mnt/kill/$n bs=64k conv=fsync 2>/dev/null; do
    echo $n >> /tmp/synced
    n=$((n + 1))
  done
) &
synced=$!
(while cat /carrier/data > /mnt/kill/unsynced; do :; done) 2>/dev/null &
unsynced=$!
while test "$(wc -l < /tmp/synced)" -lt 20; do kill -0 $synced; sleep 0.1; done
kill -9 $server
# Whoever writes is told, and nobody waits for ever.
wait $server $synced $unsynced || true
waited=0
while test -e "$device"; do waited=$((waited + 1)); test $waited -lt 300; sleep 0.2; done
umount /mnt
# The journal is replayed by mounting.
begin
umount /mnt
e2fsck -f -n "$device"
mount "$device" /mnt
for n in $(cat /tmp/synced); do part $n | cmp - /mnt/kill/$n; done
cp -a /mnt/kill /mnt/after
sync
umount /mnt
strongroom disk close /tmp/image
wait $server
echo "NOTE $(wc -l < /tmp/synced) files were synced when the server was killed, and are whole"
END
for round in 1 2 3; do step ublk-kill-$round sh /tmp/kill; done
"#;

const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /carrier /root
/bin/busybox --install -s /bin
export PATH=/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o size=600m tmp /tmp
mount -t tmpfs run /run
mkdir -p /run/cryptsetup /run/user/0
for module in $(cat /modules/order); do insmod /modules/$module 2>/dev/null; done
cat > /bin/step <<'END'
#!/bin/busybox sh
name=$1
shift
if timeout 600 "$@"; then echo "VERDICT $name passed"; else dmesg | tail -n 3; echo "VERDICT $name failed"; fi
END
chmod 755 /bin/step
if test -f /script; then
  sh /script
elif mount -t ext4 /dev/vda /carrier; then
  sh /carrier/script
  cd /
  umount /carrier
fi
echo "VERDICT end passed"
sync
poweroff -f
"#;

/// What the console says of a step.
pub(super) fn verdict(console: &str, name: &str) -> Result {
    let line = |verdict: &str| format!("VERDICT {name} {verdict}");
    // The firmware leaves codes of the terminal before the first.
    let said = |verdict: &str| console.lines().any(|told| told.trim().ends_with(&line(verdict)));
    if said("passed") {
        return Ok(());
    }
    // What was said before the verdict is why.
    let lines: Vec<&str> = console.lines().collect();
    let at = lines.iter().position(|told| told.trim().ends_with(&line("failed")));
    let at = at.ok_or_else(|| Failure::new("the machine did not get there"))?;
    let before: Vec<&str> =
        lines[..at].iter().rev().take_while(|told| !told.contains("VERDICT")).copied().collect();
    Err(Failure::new(before.into_iter().rev().collect::<Vec<_>>().join("\n    ")))
}

/// What the machine's script notes beside its verdicts.
pub(super) fn notes(console: &str) -> impl Iterator<Item = &str> {
    console.lines().filter_map(|told| {
        let (before, noted) = told.trim().split_once("NOTE ")?;
        // As before the first verdict.
        (before.is_empty() || before.starts_with('\u{1b}')).then_some(noted)
    })
}

/// What a machine has beside what all have.
#[derive(Default)]
pub(super) struct Others<'a> {
    pub(super) programs: &'a [(&'a str, PathBuf)],
    pub(super) modules: &'a [&'a str],
    /// Where Debian packages are unpacked from which programs come, with their libraries.
    pub(super) packages: PathBuf,
}

/// Makes the initramfs of `root`: what is there already, busybox, programs with their libraries, modules, init. A file
/// `script` in it is what the machine runs; without one that comes with the carrier.
pub(super) fn initramfs(
    kernel: &Kernel,
    strongroom: &Path,
    others: &Others<'_>,
    root: &Path,
    file: &Path,
) -> Result {
    for name in ["bin", "sbin", "modules", "etc"] {
        fs::create_dir_all(root.join(name))?;
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")?;
    fs::copy(find("busybox"), root.join("bin/busybox"))?;
    // busybox's own tools would come first otherwise.
    let mut programs = ["cryptsetup", "mkfs.ext4", "e2fsck"].map(|name| (name, find(name))).to_vec();
    programs.push(("strongroom", strongroom.to_path_buf()));
    programs.extend_from_slice(others.programs);
    let mut libraries = BTreeSet::new();
    for (name, path) in programs {
        libraries.extend(libraries_of(&path, &others.packages)?);
        let copy = root.join("sbin").join(name);
        fs::copy(&path, &copy).context(path.display())?;
        // Smaller where there is such a program; not needed.
        let _ = command::finish(Command::new("strip").arg(copy), LIMIT);
    }
    for library in libraries {
        let place = library.strip_prefix(&others.packages).or(library.strip_prefix("/"));
        let to = root.join(place.unwrap_or(&library));
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(&library, to).context(library.display())?;
    }
    let modules = [&MODULES, others.modules].concat();
    let order = kernel.copy_modules(&modules, &root.join("modules"))?;
    fs::write(root.join("modules/order"), order.join("\n"))?;
    fs::write(root.join("init"), INIT)?;
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755))?;
    let mut pack = Command::new("sh");
    pack.args(["-c", "find . | cpio --quiet -o -H newc > \"$0\""]).arg(file).current_dir(root);
    command::output(&mut pack, LIMIT).map(drop)
}

/// What the loader says that a program needs, which may come from unpacked packages.
fn libraries_of(program: &Path, packages: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program);
    if !packages.as_os_str().is_empty() && program.starts_with(packages) {
        let places = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/samba"];
        let places = places.map(|place| packages.join(place).display().to_string());
        ldd.env("LD_LIBRARY_PATH", places.join(":"));
    }
    let text = command::output(&mut ldd, LIMIT)?;
    let found: BTreeSet<PathBuf> = text
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect();
    ensure!(!found.is_empty(), "ldd says nothing of {}", program.display());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_found_with_its_reason() {
        let console = "\u{1b}cVERDICT a passed\r\nno such thing\r\nVERDICT b failed\r\n";
        assert!(verdict(console, "a").is_ok());
        assert_eq!(verdict(console, "b").unwrap_err().to_string(), "no such thing");
        assert!(verdict(console, "c").is_err());
        let console = "\u{1b}[?7l\u{1b}[2JNOTE 2 files\r\nno\r\na NOTE b\r\nNOTE 3 files\r\n";
        assert_eq!(notes(console).collect::<Vec<_>>(), ["2 files", "3 files"]);
    }
}
