//! Engines on devices that are there: QEMU's virtio-crypto, which computes AES in CBC, driven from user space through
//! VFIO behind an IOMMU, and by the kernel's own driver, through `AF_ALG`.
//!
//! On each: the conformance suite, disks over NBD that dm-crypt reads, where `tune` says that it becomes the faster
//! one, and where it does. The machine's CPU is emulated and the device is not, so there is such a size.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::guest::Others;
use super::kernel::Kernel;
use super::{boot, find, guest, keep_log};
use crate::luks::lab::{Lab, PASSPHRASE};
use strongroom_harness::command;
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

const PACKAGE: &str = "strongroom-device-vfio-user";
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
/// Bytes that a disk is filled with.
const DATA: usize = 4 << 20;

/// Two devices: the first is the kernel's, the second is given to VFIO.
const WORDS: [&str; 10] = [
    "-device",
    "intel-iommu,intremap=on,device-iotlb=off",
    "-object",
    "cryptodev-backend-builtin,id=first",
    "-device",
    "virtio-crypto-pci,cryptodev=first,addr=05.0",
    "-object",
    "cryptodev-backend-builtin,id=second",
    "-device",
    "virtio-crypto-pci,cryptodev=second,addr=06.0,disable-legacy=on,iommu_platform=on",
];

/// On a busy machine the emulated timer seems not to work behind the IOMMU.
const KERNEL_WORDS: &str = "intel_iommu=on no_timer_check";

/// Ways to a device, the faster one first, and the engines that they are.
const WAYS: [(&str, &str); 2] = [("vfio", "vfio:0000:00:06.0"), ("kernel", "kernel:virtio_crypto_aes_cbc")];

/// What is asked of each.
const STEPS: [(&str, &str); 5] = [
    ("engines", "`strongroom engines` tells what it has"),
    ("conform", "the conformance suite"),
    ("disk", "dm-crypt reads what it wrote to disks, and it reads what dm-crypt wrote"),
    ("cross", "from which size on it is faster, to `strongroom tune` and measured"),
    ("place", "the scheduler places work there"),
];

const SCRIPT: &str = r#"
exec 2>&1
cd /carrier
function=/sys/bus/pci/devices/0000:00:06.0
echo vfio-pci > $function/driver_override
echo 0000:00:06.0 > $function/driver/unbind
echo 0000:00:06.0 > /sys/bus/pci/drivers_probe
cat > /disk <<'END'
# Disks on an engine, behind the tiers of the CPU.
set -e
at=$(strongroom engines | grep '^cpu-' | grep -vc 'NOT HERE')
nbd='nbd+unix:///?socket=/run/nbd'
# One at a time, and short: the kernel's driver takes a sector at a time, and where the machine is slow a longer
# batch, or one behind others, would be late.
copy() { nbdcopy --connections=1 --requests=1 --request-size=32768 "$@"; }
open() { strongroom disk open image --nbd /run/nbd --engine $engine --set policy=fixed,use=$at --password-file passphrase; }
told() { strongroom disk list --json | tr -d ' \n' | tr '{' '\n' | grep "\"name\":\"$engine\"" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
is_same() { head -c $(wc -c < $1) $2 | cmp - $1; }
for cipher in aes-cbc-plain64 aes-cbc-plain; do
  for sector in 512 4096; do
    rm -f image
    strongroom disk format image --size 24MiB --cipher $cipher --key-size 256 --sector-size $sector --yes --password-file passphrase --kdf pbkdf2 --kdf-time 1000
    open
    copy --flush data "$nbd"
    copy "$nbd" back
    is_same data back
    echo "NOTE $engine: $(told bytes) bytes of $cipher, $sector bytes a sector, $(told checked) batches checked, $(told lost) lost, $(told mismatches) wrong"
    test $(told bytes) -ge $(($(wc -c < data) + $(wc -c < back)))
    test $(told lost) -eq 0 -a $(told mismatches) -eq 0
    strongroom disk close image
    cryptsetup open --type luks --key-file passphrase image disk
    is_same data /dev/mapper/disk
    cat other > /dev/mapper/disk
    cryptsetup close disk
    open
    copy "$nbd" back
    is_same other back
    strongroom disk close image
  done
done
END
try() {
  export engine=$2
  step $1-engines sh -c "strongroom engines --engine $engine | grep -A1 '^$engine' | grep 'aes cbc'"
  step $1-conform measure --on $engine --conform
  step $1-disk sh /disk
  step $1-cross sh -c "measure --on $engine --crossover --strongroom /sbin/strongroom > /run/told && sed 's/^/NOTE /' /run/told"
  step $1-place sh -c "measure --on $engine > /run/told && sed 's/^/NOTE /' /run/told"
}
"#;

/// Runs the machine and counts what it said.
pub(super) fn run(
    kernel: &Kernel,
    strongroom: &Path,
    scratch: &Scratch,
    limit: Duration,
    tally: &mut Tally,
) -> Result {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--package", PACKAGE, "--example", "measure"]);
    command::show(&mut build, BUILD_LIMIT)?;
    let measure = workspace::target()?.join("release/examples/measure");
    ensure!(measure.is_file(), "the build left no {}", measure.display());
    let root = scratch.make("device-root")?;
    fs::create_dir_all(root.join("carrier"))?;
    for (name, bytes) in [("data", Lab::data(DATA, 62)), ("other", Lab::data(DATA, 63))] {
        fs::write(root.join("carrier").join(name), bytes)?;
    }
    fs::write(root.join("carrier/passphrase"), PASSPHRASE)?;
    let tries = WAYS.map(|(way, engine)| format!("try {way} {engine}\n")).concat();
    fs::write(root.join("script"), format!("{SCRIPT}{tries}"))?;
    let initramfs = scratch.path().join("device-initramfs");
    let programs = [("measure", measure), ("nbdcopy", find("nbdcopy"))];
    let others = Others { programs: &programs, ..Others::default() };
    guest::initramfs(kernel, strongroom, &others, &root, &initramfs)?;
    let mut version = Command::new("qemu-system-x86_64");
    let version = command::output(version.arg("--version"), BUILD_LIMIT)?;
    println!("{}", version.lines().next().unwrap_or_default());
    let console = boot(kernel, &initramfs, &WORDS, KERNEL_WORDS, limit)?;
    for (way, engine) in WAYS {
        for (step, title) in STEPS {
            let said = guest::verdict(&console, &format!("{way}-{step}"));
            tally.count(&format!("{engine}: {title}"), said);
        }
    }
    keep_log(tally, &console)
}
