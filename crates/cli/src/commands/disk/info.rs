//! `disk info` and `disk is-luks`: what a header says.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use strongroom_disk::backing::Backing;
use strongroom_disk::header::{CopyState, SlotInfo};
use strongroom_disk::{Error, Header};
use strongroom_format::luks::Kdf;

use super::image;
use crate::args::disk::DiskInfoArgs;
use crate::failure::{Exit, Failure, Result};
use crate::fit::Display;
use crate::fit::table::{Column, Form};
use crate::report::{self, Output};

/// What a header says, as a document.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    image: String,
    luks_version: u8,
    uuid: String,
    label: String,
    cipher: String,
    key_bits: Option<u32>,
    sector_size: u32,
    /// Where data begins.
    data_offset: u64,
    /// Bytes of data; none in a detached header.
    data_bytes: Option<u64>,
    /// Of LUKS2: what its two copies are worth.
    header_copies: Vec<&'static str>,
    slots: Vec<SlotReport>,
    tokens: Vec<TokenReport>,
}

/// A key slot.
#[derive(Serialize)]
pub(super) struct SlotReport {
    slot: u32,
    kdf: KdfReport,
    cipher: String,
    hash: &'static str,
    priority: u8,
    /// Whether it holds the key of the data.
    bound: bool,
}

#[derive(Serialize)]
#[serde(tag = "name", rename_all = "lowercase")]
enum KdfReport {
    Pbkdf2 { hash: &'static str, iterations: u32 },
    Argon2i { memory_bytes: u64, passes: u32, lanes: u32 },
    Argon2id { memory_bytes: u64, passes: u32, lanes: u32 },
}

#[derive(Serialize)]
struct TokenReport {
    token: u32,
    #[serde(rename = "type")]
    kind: String,
}

/// Prints what a header says.
///
/// # Errors
/// As reading a header.
pub(super) fn run(args: &DiskInfoArgs, output: Output) -> Result<Exit> {
    let device = image::look(&args.image)?;
    let header = image::header(&args.image, &device)?;
    let document = document(&args.image, &header, &device)?;
    output.print_at_width(&document, text)?;
    let damaged = document.header_copies.contains(&CopyState::Damaged.name());
    Ok(if damaged { Exit::Damage } else { Exit::Done })
}

/// Whether there is a header.
///
/// # Errors
/// When it cannot be read, or is damaged or not supported.
pub(super) fn is_luks(args: &DiskInfoArgs) -> Result<Exit> {
    let device = image::look(&args.image)?;
    let _reading = device.lock_header(false).map_err(|error| image::explain_open(error, &args.image))?;
    match Header::read(&device) {
        Ok(_) => Ok(Exit::Done),
        Err(Error::NotLuks) => Ok(Exit::Other),
        Err(error) => Err(image::explain(error, &args.image)),
    }
}

/// What a header says.
///
/// # Errors
/// When the device cannot tell its length.
pub(super) fn document(path: &Path, header: &Header, device: &dyn Backing) -> Result<Document> {
    let segment = header.segment().map_err(|error| image::explain(error, path))?;
    let len = device.len().map_err(|error| Failure::system(path, &error))?;
    let rest = segment.size.or_else(|| len.checked_sub(segment.offset));
    let whole = rest.map(|rest| rest / u64::from(segment.sector_size) * u64::from(segment.sector_size));
    let (label, copies, tokens) = match header {
        Header::V1(_) => (String::new(), Vec::new(), Vec::new()),
        Header::V2(header) => (
            header.binary.label.clone(),
            header.copies.iter().map(|copy| copy.name()).collect(),
            header.metadata.tokens(),
        ),
    };
    Ok(Document {
        schema: "strongroom.disk-info/1",
        image: path.display().to_string(),
        luks_version: header.version(),
        uuid: header.uuid().to_owned(),
        label,
        cipher: segment.encryption.to_string(),
        key_bits: header.key_len().map(|len| len * 8),
        sector_size: segment.sector_size,
        data_offset: segment.offset,
        data_bytes: whole.filter(|_| segment.offset > 0),
        header_copies: copies,
        slots: slots(header),
        tokens: tokens.into_iter().map(|(token, kind)| TokenReport { token, kind }).collect(),
    })
}

/// The slots of a header.
pub(super) fn slots(header: &Header) -> Vec<SlotReport> {
    let report = |info: SlotInfo| SlotReport {
        slot: info.slot,
        kdf: match info.kdf {
            Kdf::Pbkdf2 { hash, iterations } => KdfReport::Pbkdf2 { hash: hash.name(), iterations },
            Kdf::Argon2 { kind, passes, memory_kib, lanes } => {
                let memory_bytes = u64::from(memory_kib) * 1024;
                match kind {
                    strongroom_format::luks::kdf::Argon2Kind::I => {
                        KdfReport::Argon2i { memory_bytes, passes, lanes }
                    }
                    strongroom_format::luks::kdf::Argon2Kind::Id => {
                        KdfReport::Argon2id { memory_bytes, passes, lanes }
                    }
                }
            }
        },
        cipher: info.encryption.to_string(),
        hash: info.hash.name(),
        priority: info.priority,
        bound: info.is_bound,
    };
    header.slots().into_iter().map(report).collect()
}

const COLUMNS: [Column; 3] = [
    Column::right("slot", 4),
    Column::left("what trying it costs", 44),
    Column::left("cipher of the slot", 0),
];

/// A table of slots, for people.
pub(super) fn table(slots: &[SlotReport], display: Display) -> String {
    let row = |SlotReport { slot, kdf, cipher, priority, bound, .. }: &SlotReport| {
        let cost = match kdf {
            KdfReport::Pbkdf2 { hash, iterations } => format!("pbkdf2, {hash}, {iterations} iterations"),
            KdfReport::Argon2i { memory_bytes, passes, lanes } => {
                argon2("argon2i", *memory_bytes, *passes, *lanes)
            }
            KdfReport::Argon2id { memory_bytes, passes, lanes } => {
                argon2("argon2id", *memory_bytes, *passes, *lanes)
            }
        };
        let note = match (bound, priority) {
            (false, _) => ", unbound: opens nothing here",
            (true, 0) => ", when named alone",
            (true, 2) => ", tried first",
            _ => "",
        };
        let (cost, cipher) = (report::shown(cost.as_bytes()), report::shown(cipher.as_bytes()));
        vec![slot.to_string(), cost, format!("{cipher}{note}")]
    };
    Form::new(&COLUMNS).text(&slots.iter().map(row).collect::<Vec<_>>(), display)
}

fn argon2(name: &str, memory_bytes: u64, passes: u32, lanes: u32) -> String {
    format!("{name}, {}, {passes} passes, {lanes} lanes", report::bytes(memory_bytes))
}

/// For people.
pub(super) fn text(document: &Document, display: Display) -> String {
    let mut text = format!("{}\n", document.image);
    let _ = writeln!(text, "  format       LUKS{}", document.luks_version);
    let _ = writeln!(text, "  UUID         {}", report::shown(document.uuid.as_bytes()));
    if !document.label.is_empty() {
        let _ = writeln!(text, "  label        {}", report::shown(document.label.as_bytes()));
    }
    let bits = document.key_bits.map_or_else(String::new, |bits| format!(", key of {bits} bits"));
    let _ = writeln!(text, "  cipher       {}{bits}", report::shown(document.cipher.as_bytes()));
    let _ = writeln!(text, "  sector size  {} bytes", document.sector_size);
    match document.data_bytes {
        Some(len) => {
            let offset = report::bytes(document.data_offset);
            let _ = writeln!(text, "  data         {} from {offset} on", report::bytes(len));
        }
        None => text.push_str("  data         on another device\n"),
    }
    if let [first, second] = document.header_copies[..] {
        let _ = writeln!(text, "  header       first copy {first}, second copy {second}");
    }
    for TokenReport { token, kind } in &document.tokens {
        let _ = writeln!(text, "  token        {token}: {kind}");
    }
    text.push('\n');
    text + &table(&document.slots, display)
}
