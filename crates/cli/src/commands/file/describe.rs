//! `strongroom file inspect`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;

use serde::Serialize;
use strongroom_format::age::{PAYLOAD_NONCE_LEN, plain_len};

use super::failure;
use crate::args::file::FileInspectArgs;
use crate::failure::{Exit, Failure, Result};
use crate::report::{Output, bytes};

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    armored: bool,
    header_bytes: u64,
    /// Of the payload, when the file is not armored.
    plain_bytes: Option<u64>,
    /// How many stanzas of each kind.
    stanzas: BTreeMap<String, u64>,
    post_quantum: bool,
}

pub(super) fn run(args: &FileInspectArgs, output: Output) -> Result<Exit> {
    let path = &args.file;
    let file = File::open(path).map_err(|error| Failure::system(path, &error))?;
    let len = file.metadata().map_err(|error| Failure::system(path, &error))?.len();
    let (mut reader, armored) = strongroom_file::armor::detect(BufReader::new(file))
        .map_err(|error| Failure::system(path, &error))?;
    let header = strongroom_file::read_header(&mut reader).map_err(|error| failure(path, path, error))?;
    let header_bytes = header.encode().len() as u64;
    let mut stanzas = BTreeMap::new();
    for stanza in &header.stanzas {
        *stanzas.entry(stanza.kind.clone()).or_insert(0) += 1;
    }
    let sealed = len.checked_sub(header_bytes + PAYLOAD_NONCE_LEN as u64).filter(|_| !armored);
    let post_quantum = stanzas.keys().any(|kind| kind.starts_with("mlkem768"));
    let plain_bytes = sealed.and_then(plain_len);
    if plain_bytes.is_none() && !armored {
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
