//! A trace as bytes: a line of JSON, then the records.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::record::{RECORD_LEN, Record};
use crate::recorder::{RECORDS_MAX, Recorder};

/// `schema` of a header.
const SCHEMA: &str = "strongroom.trace/1";
/// Longest header.
const HEADER_MAX: usize = 64 << 10;

/// What holds for a whole trace. Times and counts are those between its start
/// and its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// `strongroom.trace/1`.
    pub schema: String,
    /// Of the program.
    pub version: String,
    /// When it began, RFC 3339 in UTC.
    pub began: String,
    /// `mount` or `disk`.
    pub of: String,
    /// What sealed or encrypted: a suite, or a cipher as dm-crypt names it.
    pub algorithm: String,
    /// Of a vault's blocks or a disk's sectors.
    pub block_size_bytes: u64,
    /// CPUs that the daemon may use.
    pub cpus: u64,
    /// How batches were placed: the policy's name.
    pub policy: String,
    /// How long it was recorded.
    pub recorded_ns: u64,
    /// It ended early since there was no more room.
    pub is_full: bool,
    /// CPU time of the daemon.
    pub daemon_cpu_ns: u64,
    /// CPU time of everything on the machine; null where the system does not
    /// tell it.
    pub machine_cpu_ns: Option<u64>,
    /// How long threads of the daemon waited for a CPU; null likewise.
    pub cpu_wait_ns: Option<u64>,
    /// The store's calls; null where nobody times them.
    pub store: Option<StoreTotals>,
    /// What engines did.
    pub engines: Vec<EngineTotals>,
    /// Cryptography that no request waited for.
    pub background_ns: u64,
    /// Bytes of it.
    pub background_bytes: u64,
    /// Batches of it.
    pub background_batches: u64,
    /// Records that follow.
    pub records: u64,
}

/// What calls of the system took for the store, in all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreTotals {
    /// Reading.
    pub read_ns: u64,
    /// Writing.
    pub write_ns: u64,
    /// Barriers.
    pub barrier_ns: u64,
    /// Names and attributes.
    pub names_ns: u64,
}

/// What one engine did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineTotals {
    /// Its name.
    pub name: String,
    /// Bytes it was given.
    pub bytes: u64,
    /// Batches.
    pub batches: u64,
    /// Mean time from submission to answer, of those measured.
    pub latency_ns_mean: u64,
}

/// A trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// What holds for all of it.
    pub header: Header,
    /// In the order in which requests began.
    pub records: Vec<Record>,
}

/// Why bytes are no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError {
    /// They do not begin with a header.
    Header(String),
    /// There are fewer or more records than the header says, or more than there
    /// may be.
    Length,
    /// A record has fields that cannot be.
    Record(usize),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Header(what) => write!(f, "it is no trace: {what}"),
            FileError::Length => f.write_str("it does not have as many records as it says"),
            FileError::Record(at) => write!(f, "record {at} has fields that cannot be"),
        }
    }
}

impl std::error::Error for FileError {}

impl Trace {
    /// Ends what a recorder records; `header` has all but what the recorder
    /// knows. None when nothing is recorded.
    #[must_use]
    pub fn end(recorder: &Recorder, header: Header) -> Option<Trace> {
        let kept = recorder.end()?;
        let [background_ns, background_bytes, background_batches] = recorder.background();
        let header = Header {
            schema: SCHEMA.to_owned(),
            recorded_ns: kept.recorded.as_nanos() as u64,
            is_full: kept.is_full,
            background_ns,
            background_bytes,
            background_batches,
            records: kept.records.len() as u64,
            ..header
        };
        Some(Trace { header, records: kept.records })
    }

    /// As a file has it.
    ///
    /// # Panics
    /// Never: a header has text keys.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(&self.header).expect("a header has text keys");
        bytes.push(b'\n');
        bytes.extend(self.records.iter().flat_map(Record::encode));
        bytes
    }

    /// The reverse.
    ///
    /// # Errors
    /// [`FileError`]: it was cut, changed, or made by a version that is not
    /// known.
    pub fn decode(bytes: &[u8]) -> Result<Trace, FileError> {
        let first = &bytes[..bytes.len().min(HEADER_MAX)];
        let end = first.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| FileError::Header("it has no header".to_owned()))?;
        let value: serde_json::Value = serde_json::from_slice(&bytes[..end])
            .map_err(|_| FileError::Header("it has no header".to_owned()))?;
        match value["schema"].as_str() {
            Some(SCHEMA) => {}
            Some(other) => {
                return Err(FileError::Header(format!(
                    "this version does not know `{}`",
                    other.escape_debug()
                )));
            }
            None => return Err(FileError::Header("it names no schema".to_owned())),
        }
        let header: Header =
            serde_json::from_value(value).map_err(|error| FileError::Header(error.to_string()))?;
        let body = &bytes[end + 1..];
        let (chunks, rest) = body.as_chunks::<RECORD_LEN>();
        if !rest.is_empty() || chunks.len() as u64 != header.records || chunks.len() > RECORDS_MAX {
            return Err(FileError::Length);
        }
        let record = |(at, chunk)| Record::decode(chunk).ok_or(FileError::Record(at));
        let records = chunks.iter().enumerate().map(record).collect::<Result<Vec<_>, _>>()?;
        match records.windows(2).position(|pair| pair[0].start_ns > pair[1].start_ns) {
            Some(at) => Err(FileError::Record(at + 1)),
            None => Ok(Trace { header, records }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::Kind;
    use crate::record::tests::request;

    fn trace() -> Trace {
        let records = vec![request(5, 10, 1, Kind::Read), request(9, 10, 2, Kind::Write)];
        let header = Header { schema: SCHEMA.to_owned(), records: 2, ..Header::default() };
        Trace { header, records }
    }

    #[test]
    fn a_trace_comes_back() {
        let bytes = trace().encode();
        assert_eq!(Trace::decode(&bytes), Ok(trace()));
        let recorder = Recorder::new(|| Duration::ZERO);
        assert_eq!(Trace::end(&recorder, Header::default()), None);
        recorder.start();
        let empty = Trace::end(&recorder, Header { cpus: 3, ..Header::default() }).expect("a trace");
        assert_eq!(Trace::decode(&empty.encode()), Ok(empty));
    }

    #[test]
    fn what_was_cut_or_changed_is_refused_and_never_panics() {
        let bytes = trace().encode();
        for len in 0..bytes.len() {
            assert!(Trace::decode(&bytes[..len]).is_err(), "{len}");
        }
        let changed = |from: &str, to: &str| {
            let text = String::from_utf8_lossy(&bytes[..bytes.len() - 2 * RECORD_LEN]).replace(from, to);
            Trace::decode(&[text.as_bytes(), &bytes[bytes.len() - 2 * RECORD_LEN..]].concat())
        };
        assert!(matches!(changed("trace/1", "trace/9"), Err(FileError::Header(_))));
        assert_eq!(changed("\"records\":2", "\"records\":3"), Err(FileError::Length));
        let turned = Trace { records: trace().records.into_iter().rev().collect(), ..trace() };
        assert_eq!(Trace::decode(&turned.encode()), Err(FileError::Record(1)));
    }
}
