//! Network file systems whose clients are the kernel's, NFS and SMB: the machine serves them to itself over loopback,
//! with the kernel's NFS server and with Samba. On each runs what `cargo xtask stores` runs on every store.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::debian::Debian;
use super::guest::{self, Others};
use super::kernel::Kernel;
use super::{boot, find, keep_log};
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;

/// Debian packages of the servers, and the programs of theirs.
const PACKAGES: [&str; 2] = ["nfs-kernel-server", "samba"];
const PROGRAMS: [(&str, &str); 5] = [
    ("exportfs", "usr/sbin/exportfs"),
    ("rpc.mountd", "usr/sbin/rpc.mountd"),
    ("rpc.nfsd", "usr/sbin/rpc.nfsd"),
    ("smbd", "usr/sbin/smbd"),
    ("smbpasswd", "usr/bin/smbpasswd"),
];

const MODULES: [&str; 9] =
    ["nfsd", "nfsv4", "cifs", "nls_utf8", "cmac", "ccm", "gcm", "ctr", "ghash-generic"];

/// On a busy machine the emulated timer seems not to work.
const KERNEL_WORDS: &str = "no_timer_check";

/// Each store, and how what is found has to begin.
const STORES: [(&str, &str, &str); 2] = [
    ("nfs", "NFS 4.2, the kernel's server", "nfs4: a vault lives there"),
    ("cifs", "CIFS, SMB 3.1.1, Samba", "cifs: refused for"),
];

/// The stores lie on ext4, with blocks that hold extended attributes of some length.
const SCRIPT: &str = r#"
exec 2>&1
ifconfig lo 127.0.0.1 up
# Samba's guests.
echo 'nobody:x:65534:65534:nobody:/:/bin/false' >> /etc/passwd
echo 'nogroup:x:65534:' >> /etc/group
truncate -s 1G /tmp/disk
mkfs.ext4 -q -b 4096 /tmp/disk
mkdir -p /export /mnt/nfs /mnt/cifs
mount -o loop /tmp/disk /export
mkdir -p /export/nfs /export/cifs
cat > /nfs <<'END'
set -e
mkdir -p /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs
echo 'nfs 2049/tcp' > /etc/services
touch /etc/exports /var/lib/nfs/etab /var/lib/nfs/rmtab
mount -t nfsd nfsd /proc/fs/nfsd
# Clients may come back for so many seconds first; there are none.
echo 10 > /proc/fs/nfsd/nfsv4leasetime
echo 10 > /proc/fs/nfsd/nfsv4gracetime
rpc.mountd --no-nfs-version 3
exportfs -o rw,no_root_squash,no_subtree_check,fsid=0,sync,insecure 127.0.0.1:/export/nfs
rpc.nfsd --no-nfs-version 3 4
mount -i -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1 127.0.0.1:/ /mnt/nfs
END
cat > /cifs <<'END'
set -e
mkdir -p /var/lib/samba/private /var/log/samba /var/cache/samba /run/samba /etc/samba
cat > /etc/samba/smb.conf <<'CONF'
[global]
server role = standalone server
disable netbios = yes
smb ports = 445
load printers = no
[store]
path = /export/cifs
read only = no
CONF
printf 'secret\nsecret\n' | smbpasswd -a -s root
smbd -D
waited=0
until mount -i -t cifs -o ip=127.0.0.1,username=root,password=secret,vers=3.1.1 //127.0.0.1/store /mnt/cifs; do
  waited=$((waited + 1))
  test $waited -lt 30
  sleep 1
done
END
for store in nfs cifs; do
  step $store sh -c "sh /$store && xtask stores --binary /sbin/strongroom --work /tmp --on /mnt/$store > /tmp/told; failed=\$?; sed 's/^/NOTE /' /tmp/told; exit \$failed"
done
"#;

/// Runs the machine and counts what it said.
pub(super) fn run(
    kernel: &Kernel,
    strongroom: &Path,
    scratch: &Scratch,
    limit: Duration,
    tally: &mut Tally,
) -> Result {
    let packages = Debian::new()?.unpacked("servers", |debian, root| debian.packages(&PACKAGES, root))?;
    let mut programs = PROGRAMS.map(|(name, path)| (name, packages.join(path))).to_vec();
    programs.push(("xtask", std::env::current_exe()?));
    // busybox's stat knows no long options.
    programs.extend(["fusermount3", "stat"].map(|name| (name, find(name))));
    let root = scratch.make("stores-root")?;
    fs::write(root.join("script"), SCRIPT)?;
    let initramfs = scratch.path().join("stores-initramfs");
    let others = Others { programs: &programs, modules: &MODULES, packages };
    guest::initramfs(kernel, strongroom, &others, &root, &initramfs)?;
    let console = boot(kernel, &initramfs, &[], KERNEL_WORDS, limit)?;
    for (store, title, expected) in STORES {
        let outcome = guest::verdict(&console, store).and_then(|()| {
            let found = guest::notes(&console).any(|note| note.trim().starts_with(expected));
            ensure!(found, "not found: `{expected}`");
            Ok(())
        });
        tally.count(&format!("a vault on {title}"), outcome);
    }
    keep_log(tally, &console)
}
