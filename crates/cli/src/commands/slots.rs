//! Key slots as reports tell of them.

use serde::Serialize;
use strongroom_format::vault::header::Header;
use strongroom_format::vault::slot::{Kdf, KeySlot, LaterSlot, SlotKind};
use strongroom_keys::slots::{list_later_slots, list_slots};

use crate::fit::Display;
use crate::fit::table::{Column, Form};
use crate::report;

/// A key slot.
#[derive(Serialize)]
pub(super) struct SlotReport {
    index: usize,
    kind: &'static str,
    label: String,
    /// None of a kind that this program does not know.
    created: Option<String>,
    kdf: Option<KdfReport>,
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
        SlotKind::PasswordAndKeyFile => "password+key-file",
    }
}

/// All slots of a header, by number.
pub(super) fn reports(header: &Header) -> Vec<SlotReport> {
    let known = list_slots(header).map(|(index, slot)| SlotReport::of(index, slot));
    let later = list_later_slots(header).map(|(index, slot)| SlotReport::of_later(index, slot));
    let mut reports: Vec<_> = known.chain(later).collect();
    reports.sort_by_key(|report| report.index);
    reports
}

impl SlotReport {
    fn of(index: usize, slot: &KeySlot) -> SlotReport {
        let kdf = match slot.kdf {
            Kdf::Hkdf => KdfReport::Hkdf,
            Kdf::Argon2id(cost) => KdfReport::Argon2id {
                memory_bytes: u64::from(cost.memory_kib()) * 1024,
                passes: cost.passes(),
                lanes: cost.lanes(),
            },
        };
        SlotReport {
            index,
            kind: kind_name(slot.kind),
            label: slot.label.as_str().to_owned(),
            created: Some(report::rfc3339(slot.created)),
            kdf: Some(kdf),
        }
    }

    fn of_later(index: usize, slot: &LaterSlot) -> SlotReport {
        let kind = match slot.reserved_for() {
            Some("age recipient") => "age-recipient",
            Some("token") => "token",
            _ => "unknown",
        };
        SlotReport { index, kind, label: String::new(), created: None, kdf: None }
    }

    /// What each guess of a password costs; none where nothing can be guessed.
    pub(super) fn guess_cost(&self) -> Option<String> {
        match &self.kdf {
            Some(KdfReport::Hkdf) | None => None,
            Some(KdfReport::Argon2id { memory_bytes, passes, lanes }) => {
                let plural = if *passes == 1 { "" } else { "es" };
                Some(format!("{}, {passes} pass{plural}, {lanes} lanes", report::bytes(*memory_bytes)))
            }
        }
    }
}

const COLUMNS: [Column; 5] = [
    Column::right("slot", 4),
    Column::left("kind", 17),
    Column::left("made", 20),
    Column::left("what trying it costs", 33),
    Column::left("label", 0),
];

/// A table of slots, for people.
pub(super) fn table(slots: &[SlotReport], display: Display) -> String {
    let row = |slot: &SlotReport| {
        let uniform = || match slot.kdf {
            Some(_) => "nothing: it cannot be guessed".to_owned(),
            None => "this version does not open it".to_owned(),
        };
        let cost = slot.guess_cost().unwrap_or_else(uniform);
        let created = slot.created.clone().unwrap_or_default();
        let SlotReport { index, kind, .. } = slot;
        let label = report::shown(slot.label.as_bytes());
        vec![index.to_string(), (*kind).to_owned(), created, cost, label]
    };
    Form::new(&COLUMNS).text(&slots.iter().map(row).collect::<Vec<_>>(), display)
}
