//! Engines on devices that are there: QEMU's virtio-crypto, which computes AES in CBC, driven from user space through
//! VFIO behind an IOMMU, and by the kernel's own driver, through `AF_ALG`.
//!
//! On each: the conformance suite, disks over NBD that dm-crypt reads, where `tune` says that it becomes the faster
//! one, and where it does. The machine's CPU is emulated and the device is not, so there is such a size.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

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
/// Bytes of the least batch that is measured, by `tune` too.
const SMALLEST: f64 = 512.0;
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
const STEPS: [(&str, &str); 6] = [
    ("engines", "`strongroom engines` tells what it has"),
    ("conform", "the conformance suite"),
    ("disk", "dm-crypt reads what it wrote to disks, and it reads what dm-crypt wrote"),
    ("tune", "`strongroom tune` measures it"),
    ("cross", "from which size on it is faster is measured"),
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
  step $1-tune sh -c "strongroom tune aes-cbc-plain64 --engine $engine --dry-run --json > /run/told 2>/run/progress && sed -n '/\"explanation\"/,/\\]/s/^ *\"\(.*[^,]\)\"[,]*$/NOTE $engine, tune: \1/p' /run/told"
  step $1-cross sh -c "measure --on $engine --crossover > /run/told && sed 's/^/NOTE /' /run/told"
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
    let others = [("measure", measure), ("nbdcopy", find("nbdcopy"))];
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
    WAYS.iter().for_each(|(_, engine)| println!("{}", crossovers(&console, engine)));
    keep_log(tally, &console)
}

/// From which size on a device encrypts faster than the CPU, as `tune` names it and as it was measured. For a reader:
/// what is timed passes or fails nothing.
fn crossovers(console: &str, engine: &str) -> String {
    let note =
        |head: String| guest::notes(console).find_map(|note| note.strip_prefix(&head).map(str::to_owned));
    let named = note(format!("{engine}, tune: aes-cbc-plain64. ")).and_then(|sentence| {
        let rest = sentence.split("encrypt: ").nth(1)?.to_owned();
        if rest.starts_with(engine) {
            return Some(SMALLEST);
        }
        let (size, _) = rest.split(&format!("{engine} from ")).nth(1)?.split_once(" on")?;
        bytes(size)
    });
    let Some(measured) = note(format!("{engine} is faster ")) else {
        return format!("{engine}: no crossover was measured");
    };
    let measured = measured.strip_prefix("from ").and_then(|note| note.split_once(" bytes"));
    let measured = measured.and_then(|(bytes, _)| bytes.parse::<f64>().ok());
    match (named, measured) {
        (Some(named), Some(measured)) => {
            let apart = f64::max(named / measured, measured / named);
            format!(
                "{engine}: the crossover is {named} bytes to `tune` and {measured} measured, {apart:.2} times apart"
            )
        }
        (None, None) => format!("{engine}: it is faster at no size, to `tune` and measured"),
        (Some(named), None) => {
            format!("{engine}: the crossover is {named} bytes to `tune`, and it was faster at no size")
        }
        (None, Some(measured)) => {
            format!("{engine}: `tune` names no crossover, and {measured} bytes were measured")
        }
    }
}

/// The number that a size like `16 KiB` is.
fn bytes(size: &str) -> Option<f64> {
    let (count, unit) = size.split_once(' ')?;
    let unit = ["B", "KiB", "MiB"].iter().position(|known| *known == unit)?;
    Some(count.parse::<f64>().ok()? * f64::from(1 << (10 * unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossovers_are_read_from_what_the_machine_said() {
        let said = |encrypt: &str, measured: &str| {
            let tune = format!(
                "NOTE d:1, tune: aes-cbc-plain64. decrypt: a, d:1 from 1 MiB on; encrypt: {encrypt}."
            );
            crossovers(&format!("{tune}\r\nNOTE d:1 is faster {measured}\r\n"), "d:1")
        };
        let told = said("a, d:1 from 16 KiB on, 0.1 GB/s at 64 KiB", "from 10000 bytes on");
        assert_eq!(told, "d:1: the crossover is 16384 bytes to `tune` and 10000 measured, 1.64 times apart");
        assert_eq!(
            said("a, 0.1 GB/s at 64 KiB", "at no size"),
            "d:1: it is faster at no size, to `tune` and measured"
        );
        assert_eq!(crossovers("NOTE 3 files", "d:1"), "d:1: no crossover was measured");
        assert!(said("a", "from 512 bytes on").ends_with("names no crossover, and 512 bytes were measured"));
        assert!(
            said("a, d:1 from 512 B on", "at no size")
                .ends_with("512 bytes to `tune`, and it was faster at no size")
        );
    }
}
