//! Key slots as reports tell of them.

use std::fmt::Write as _;

use serde::Serialize;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::slot::{Kdf, SlotKind};
use strongroom_keys::slots::list_slots;

use crate::report;

/// A key slot.
#[derive(Serialize)]
pub(super) struct SlotReport {
    index: usize,
    kind: &'static str,
    label: String,
    created: String,
    kdf: KdfReport,
}

#[derive(Serialize)]
#[serde(tag = "name", rename_all = "lowercase")]
enum KdfReport {
    #[serde(rename = "argon2id")]
    Argon2id { memory_bytes: u64, passes: u32, lanes: u32 },
    #[serde(rename = "hkdf-sha256")]
    Hkdf,
}

/// A kind of slot, for programs.
pub(super) fn kind_name(kind: SlotKind) -> &'static str {
    match kind {
        SlotKind::Password => "password",
        SlotKind::KeyFile => "key-file",
        SlotKind::Recovery => "recovery",
    }
}

/// All slots of a header.
pub(super) fn reports(header: &Header) -> Vec<SlotReport> {
    list_slots(header)
        .map(|(index, slot)| SlotReport {
            index,
            kind: kind_name(slot.kind),
            label: slot.label.as_str().to_owned(),
            created: report::rfc3339(slot.created),
            kdf: match slot.kdf {
                Kdf::Hkdf => KdfReport::Hkdf,
                Kdf::Argon2id(cost) => KdfReport::Argon2id {
                    memory_bytes: u64::from(cost.memory_kib()) * 1024,
                    passes: cost.passes(),
                    lanes: cost.lanes(),
                },
            },
        })
        .collect()
}

impl SlotReport {
    /// What each guess of a password costs; none where nothing can be guessed.
    pub(super) fn guess_cost(&self) -> Option<String> {
        match &self.kdf {
            KdfReport::Hkdf => None,
            KdfReport::Argon2id { memory_bytes, passes, lanes } => {
                let plural = if *passes == 1 { "" } else { "es" };
                Some(format!("{}, {passes} pass{plural}, {lanes} lanes", report::bytes(*memory_bytes)))
            }
        }
    }
}

/// A table of slots, for people.
pub(super) fn table(slots: &[SlotReport]) -> String {
    let mut text =
        String::from("slot  kind      made                  what trying it costs               label\n");
    for slot in slots {
        let cost = slot.guess_cost().unwrap_or_else(|| "nothing: it cannot be guessed".to_owned());
        let SlotReport { index, kind, created, label, .. } = slot;
        let line = format!("{index:>4}  {kind:<8}  {created:<20}  {cost:<33}  {label}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}
