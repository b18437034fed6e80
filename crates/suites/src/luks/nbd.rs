//! NBD clients that nobody here wrote: nbdinfo, nbdcopy, qemu-img, fio's engine; and nbdkit's LUKS filter on
//! our image.

use std::fs;

use super::lab::{Lab, same};
use strongroom_harness::failure::{Result, ensure};
use strongroom_harness::tally::Tally;

const DATA: usize = 32 << 20;
const CHEAP: &str = "--kdf-memory 64KiB --kdf-time 4";

pub(super) fn run(lab: &Lab, tally: &mut Tally, long: bool) {
    for sector in [512, 4096] {
        tally.count(&format!("NBD clients, {sector} bytes"), clients(lab, sector, long));
    }
    tally.count("nbdkit's luks filter", nbdkit(lab));
}

fn clients(lab: &Lab, sector: u32, long: bool) -> Result {
    lab.remove(&["image", "socket", "back", "fresh"]);
    lab.run(&format!(
        "strongroom disk format image --size 48MiB --sector-size {sector} --yes --password-file passphrase {CHEAP}"
    ))?;
    lab.run("strongroom disk open image --nbd socket --allow-discards --password-file passphrase")?;
    let outcome = speak(lab, sector, long);
    let closed = lab.run("strongroom disk close image");
    outcome?;
    closed.map(drop)
}

fn speak(lab: &Lab, sector: u32, long: bool) -> Result {
    let socket = lab.path("socket");
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let info: serde_json::Value = serde_json::from_str(&lab.run(&format!("nbdinfo --json {uri}"))?)?;
    let export = &info["exports"][0];
    ensure!(export["export-size"] == DATA, "nbdinfo sees {} bytes", export["export-size"]);
    ensure!(
        export["block_size_minimum"] == sector,
        "nbdinfo sees blocks of {}",
        export["block_size_minimum"]
    );
    for flag in ["can_multi_conn", "can_fua", "can_flush", "can_trim", "can_zero"] {
        ensure!(export[flag] == true, "nbdinfo sees no {flag}");
    }
    let busy = lab.finish(&format!("nbdinfo --map {uri}"))?;
    ensure!(busy.status.success(), "nbdinfo --map: {}", busy.output());
    let data = Lab::data(DATA, 21);
    fs::write(lab.path("fresh"), &data)?;
    lab.run(&format!("nbdcopy --flush fresh {uri}"))?;
    lab.run(&format!("nbdcopy {uri} back"))?;
    same(&fs::read(lab.path("back"))?, &data)?;
    lab.remove(&["back"]);
    lab.run(&format!("qemu-img convert -f raw -O raw {uri} back"))?;
    same(&fs::read(lab.path("back"))?, &data)?;
    lab.run(&format!("qemu-img compare -f raw -F raw fresh {uri}"))?;
    let seconds = if long { 60 } else { 4 };
    // Every block is read back and its checksum compared.
    lab.run(&format!(
        "fio --name=mix --ioengine=nbd --uri={uri} --rw=randrw --rwmixread=50 --bs=4k --iodepth=32 --size=32m \
         --verify=crc32c --verify_fatal=1 --do_verify=1 --time_based=1 --runtime={seconds}"
    ))?;
    lab.run(&format!(
        "fio --name=large --ioengine=nbd --uri={uri} --rw=write --bs=1m --iodepth=4 --size=32m --verify=crc32c \
         --verify_fatal=1 --do_verify=1"
    ))?;
    Ok(())
}

/// nbdkit reads an image of ours by its own LUKS code.
fn nbdkit(lab: &Lab) -> Result {
    lab.remove(&["image", "back"]);
    lab.run(
        "strongroom disk format image --size 6MiB --type luks1 --kdf-time 1000 --yes --password-file passphrase",
    )?;
    let data = Lab::data(4 << 20, 22);
    lab.fill("image", "", &data)?;
    let mut command =
        lab.command("nbdkit --exit-with-parent -U - --filter=luks file image passphrase=+passphrase");
    command.args(["--run", "nbdcopy \"$uri\" back"]);
    strongroom_harness::command::output(&mut command, super::lab::LIMIT)?;
    same(&fs::read(lab.path("back"))?[..data.len()], &data)
}
