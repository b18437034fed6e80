//! `disk format`: a new encrypted disk.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use strongroom_disk::backing::Backing;
use strongroom_disk::header::{NewHeader, Version};
use strongroom_format::luks::{CipherSpec, binary};

use super::{confirm, cost, image, info};
use crate::args::disk::{DiskFormatArgs, LuksVersion};
use crate::failure::{Exit, Failure, Result};
use crate::report::Output;
use crate::secrets::Source;

/// Makes a disk.
///
/// # Errors
/// Usage when it cannot be made so, in use, and what the device reports.
pub(super) fn run(args: &DiskFormatArgs, output: Output) -> Result<Exit> {
    if args.secret.key_slot.is_some() {
        return Err(Failure::usage("a new disk has no key slot to be tried").hint("Leave --key-slot out."));
    }
    let mut new = new_header(args)?;
    let engine = image::engine(None, &[])?;
    new.check(&engine).map_err(|error| image::explain(error, &args.image))?;
    let made = make_files(args, &new)?;
    let outcome = make(args, &mut new, &engine, &made, output);
    if outcome.is_err() {
        made.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
    outcome
}

fn make(
    args: &DiskFormatArgs,
    new: &mut NewHeader,
    engine: &std::sync::Arc<dyn strongroom_engine::Engine>,
    made: &[std::path::PathBuf],
    output: Output,
) -> Result<Exit> {
    let path = &args.image;
    let data = image::open(path, true)?;
    let data_len = data.len().map_err(|error| Failure::system(path, &error))?;
    choose_sector_size(args, new, data_len)?;
    let what = format!("Everything on {} will be lost.", path.display());
    // Of a file that was made just now, nothing can be lost.
    confirm::overwriting(path, &*data, &what, args.yes || made.contains(path))?;
    let detached = match &args.header {
        Some(header) => {
            if image::look(header)?.is_same(&data).map_err(|error| Failure::system(header, &error))? {
                return Err(Failure::usage("the header and the disk are one file").at(header).hint(
                    "Name another file with --header, or leave it out: the header is then put before the data.",
                ));
            }
            let device = image::open(header, true)?;
            let what = format!("Everything in {} will be lost.", header.display());
            confirm::overwriting(header, &*device, &what, args.yes || made.contains(header))?;
            Some((header, device))
        }
        None => None,
    };
    let (header_path, device) = match &detached {
        Some((path, device)) => (path.as_path(), device),
        None => (path.as_path(), &data),
    };
    let secret = match args.secret.source() {
        Source::KeyFile(_) => image::secret(&args.secret, path)?,
        source => image::new_secret(&source, path)?,
    };
    let kdf = cost::kdf(&args.cost, new.version, new.hash)?;
    let _changing = image::lock(header_path, device, None)?;
    let made = new.create(&**device, engine, secret.expose(), kdf);
    let header = made.map_err(|error| image::explain(error, header_path))?;
    let document = info::document(header_path, &header, &**device)?;
    output.print_at_width(&document, |document, display| {
        format!("Made the disk {}\n\n{}", path.display(), info::text(document, display))
    })?;
    Ok(Exit::Done)
}

fn new_header(args: &DiskFormatArgs) -> Result<NewHeader> {
    if args.label.len() > binary::LABEL_LEN_MAX || args.label.chars().any(char::is_control) {
        return Err(Failure::usage("a label has at most 47 bytes, none of them control characters"));
    }
    if let Some(uuid) = &args.uuid
        && !is_uuid(uuid)
    {
        return Err(Failure::usage(format!("`{uuid}` is no UUID")));
    }
    let version = match args.version {
        LuksVersion::Luks1 => Version::Luks1,
        LuksVersion::Luks2 => Version::Luks2,
    };
    if version == Version::Luks1 && !args.label.is_empty() {
        return Err(Failure::usage("LUKS1 has no label").hint("Use --type luks2."));
    }
    Ok(NewHeader {
        version,
        key_len: key_len(args.key_size, &args.cipher)?,
        cipher: args.cipher.clone(),
        sector_size: 512,
        hash: args.hash,
        label: args.label.clone(),
        uuid: args.uuid.clone(),
        detached: args.header.is_some(),
    })
}

/// Bytes of a volume key.
///
/// # Errors
/// Usage for bits that are no bytes.
pub(super) fn key_len(asked: Option<u32>, cipher: &CipherSpec) -> Result<u32> {
    let usual = if cipher.mode().starts_with("xts") { 512 } else { 256 };
    let bits = asked.unwrap_or(usual);
    if bits == 0 || !bits.is_multiple_of(8) || bits > 512 {
        return Err(Failure::usage(format!("--key-size: {bits} bits are no key"))
            .hint("128, 192 or 256 bits for cbc; 256, 384 or 512 for xts."));
    }
    Ok(bits / 8)
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Sectors of 4096 bytes where nothing is lost by them.
fn choose_sector_size(args: &DiskFormatArgs, new: &mut NewHeader, data_len: u64) -> Result<()> {
    new.sector_size = match (args.sector_size, new.version) {
        (Some(size @ (512 | 1024 | 2048 | 4096)), _) => size,
        (Some(size), _) => {
            return Err(Failure::usage(format!("--sector-size: {size} bytes are no sector"))
                .hint("512, 1024, 2048 or 4096."));
        }
        (None, Version::Luks2) if data_len.is_multiple_of(4096) => 4096,
        (None, _) => 512,
    };
    if new.version == Version::Luks1 && new.sector_size != 512 {
        return Err(Failure::usage("LUKS1 has sectors of 512 bytes alone").hint("Use --type luks2."));
    }
    Ok(())
}

/// Makes the files that are missing; gives those that were made.
fn make_files(args: &DiskFormatArgs, new: &NewHeader) -> Result<Vec<std::path::PathBuf>> {
    let mut made = Vec::new();
    if let Some(size) = args.size {
        make_file(&args.image, size)
            .map_err(|failure| failure.hint("Leave --size out to use what is there."))?;
        made.push(args.image.clone());
    } else if !args.image.exists() {
        return Err(Failure::usage("it is not there").at(&args.image).hint("Make it with --size SIZE."));
    }
    if let Some(header) = args.header.as_ref().filter(|header| !header.exists()) {
        if let Err(failure) = make_file(header, new.header_len()) {
            made.iter().for_each(|path| drop(std::fs::remove_file(path)));
            return Err(failure);
        }
        made.push(header.clone());
    }
    Ok(made)
}

fn make_file(path: &Path, len: u64) -> Result<()> {
    let failed = |error: std::io::Error| Failure::system(path, &error);
    let file = File::options().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.set_len(len).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_told_from_other_words() {
        assert!(is_uuid("0b2b3c4d-0000-4000-8000-123456789abc"));
        for bad in
            ["", "0b2b3c4d", "0b2b3c4d-0000-4000-8000-123456789abg", "0b2b3c4d-0000-4000-8000-123456789ab"]
        {
            assert!(!is_uuid(bad), "{bad}");
        }
    }

    #[test]
    fn keys_have_the_usual_length() {
        let len = |cipher: &str, bits| key_len(bits, &CipherSpec::parse(cipher).expect("known")).ok();
        assert_eq!(len("aes-xts-plain64", None), Some(64));
        assert_eq!(len("aes-cbc-essiv:sha256", None), Some(32));
        assert_eq!(len("aes-xts-plain64", Some(256)), Some(32));
        assert_eq!(len("aes-xts-plain64", Some(250)), None);
    }
}
