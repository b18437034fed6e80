//! Serves an image as the raw file of an open disk, in clear: what that export costs before anything is
//! encrypted.
//!
//! ```text
//! cargo run --release -p strongroom-fuse --example raw -- IMAGE MOUNT_POINT
//! ```
//!
//! For measurements (`cargo xtask bench disk`), not for use. It ends when it is unmounted.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use strongroom_disk::{Bytes, FileBacking, PlainDevice};
use strongroom_fuse::raw;
use strongroom_fuse::{Mount, MountOptions, Session, SessionOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, point] = arguments.as_slice() else {
        return Err("usage: raw IMAGE MOUNT_POINT".into());
    };
    let backing = FileBacking::open(Path::new(image), true).map_err(|error| format!("{image}: {error:?}"))?;
    let device = Arc::new(PlainDevice::new(backing)?);
    // As `strongroom disk open --raw` has it.
    let mount =
        Mount::new(Path::new(point), &MountOptions { source: image.clone(), ..MountOptions::default() })?;
    let options = SessionOptions { writeback_cache: false, ..SessionOptions::default() };
    Session::new(mount, Arc::new(raw::file("volume", Bytes::new(device))), options).run()?;
    Ok(())
}
