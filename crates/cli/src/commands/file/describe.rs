//! `strongroom file inspect`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufReader, Read};
use std::path::Path;

use serde::Serialize;
use strongroom_file::{Error, Input};
use strongroom_format::age::{PAYLOAD_NONCE_LEN, plain_len};

use super::descriptors::is_standard;
use super::failure;
use crate::args::file::FileInspectArgs;
use crate::failure::{Exit, Failure, Result};
use crate::report::{Output, bytes};

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    armored: bool,
    header_bytes: u64,
    /// Of the payload.
    plain_bytes: Option<u64>,
    /// How many stanzas of each kind.
    stanzas: BTreeMap<String, u64>,
    post_quantum: bool,
}

pub(super) fn run(args: &FileInspectArgs, output: Output) -> Result<Exit> {
    let path = &args.file;
    let failed = |error| failure(path, path, error);
    let reading = |error: io::Error| Failure::system(path, &error);
    let (input, len) = opened(path).map_err(reading)?;
    let (mut reader, armored) = strongroom_file::armor::detect(BufReader::new(input)).map_err(reading)?;
    let header = strongroom_file::read_header(&mut reader).map_err(failed)?;
    let header_bytes = header.encode().len() as u64;
    let mut stanzas = BTreeMap::new();
    for stanza in &header.stanzas {
        *stanzas.entry(stanza.kind.clone()).or_insert(0) += 1;
    }
    let payload = match len.filter(|_| !armored) {
        Some(len) => len.saturating_sub(header_bytes),
        // What has no length has an end.
        None => io::copy(&mut reader, &mut io::sink()).map_err(|error| failed(Error::of_reading(error)))?,
    };
    let post_quantum = stanzas.keys().any(|kind| kind.starts_with("mlkem768"));
    let plain_bytes = payload.checked_sub(PAYLOAD_NONCE_LEN as u64).and_then(plain_len);
    if plain_bytes.is_none() {
        return Err(Failure::new(Exit::Damage, "the payload was cut off: no payload is so long").at(path));
    }
    let document = Document {
        schema: "strongroom.file-inspect/1",
        armored,
        header_bytes,
        plain_bytes,
        stanzas,
        post_quantum,
    };
    output.print(&document, |document| {
        let mut text = format!("age, version 1{}\n", if document.armored { ", armored" } else { "" });
        for (kind, count) in &document.stanzas {
            let _ = writeln!(text, "recipients  {count} {kind}");
        }
        let _ = writeln!(text, "header      {}", bytes(document.header_bytes));
        if let Some(plain) = document.plain_bytes {
            let _ = writeln!(text, "plain       {} ({plain} bytes)", bytes(plain));
        }
        text
    })?;
    Ok(Exit::Done)
}

/// The input, and its length where it has one.
fn opened(path: &Path) -> io::Result<(Box<dyn Read + Send>, Option<u64>)> {
    if is_standard(path) {
        return Ok((Box::new(io::stdin()), None));
    }
    Ok(match Input::of(crate::opening::to_read(path)?)? {
        Input::File(file) => {
            let len = file.metadata()?.len();
            (Box::new(file), Some(len))
        }
        Input::Stream(stream) => (stream, None),
    })
}
