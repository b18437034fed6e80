//! The associated data of a record in TLS 1.2 (RFC 5246, section 6.2.3.3):
//! sequence number, type, version, and the payload's length.

use crate::reason::Reason;

/// Bytes of it.
const LEN: usize = 13;
/// Where the length stands.
const LENGTH_AT: usize = 11;

pub(crate) type RecordAd = [u8; LEN];

/// OpenSSL gives the length of what is sent, which has `around` bytes besides
/// the payload.
///
/// # Errors
/// It has another length, or says one that is less than `around`.
pub(crate) fn associated_data(given: &[u8], around: usize) -> Result<RecordAd, Reason> {
    let mut ad: RecordAd = given.try_into().map_err(|_| Reason::Parameter)?;
    let payload = payload_len(&ad).checked_sub(around).ok_or(Reason::DataLength)?;
    ad[LENGTH_AT..].copy_from_slice(&(payload as u16).to_be_bytes());
    Ok(ad)
}

/// The length that stands in it.
pub(crate) fn payload_len(ad: &RecordAd) -> usize {
    usize::from(u16::from_be_bytes([ad[LENGTH_AT], ad[LENGTH_AT + 1]]))
}
