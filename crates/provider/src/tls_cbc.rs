//! CBC as TLS up to 1.2 uses it (RFC 5246 section 6.2.3.2): libssl has the
//! cipher pad a record, and when it is opened take padding and MAC off it.
//!
//! Constant time: neither the padding's length nor whether it is right may
//! show in time, since an attacker who sees it can decrypt (Vaudenay 2002;
//! AlFardan and Paterson 2013, "Lucky Thirteen"). A record with wrong padding
//! gets a random MAC, so that it fails later where a wrong MAC does.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater};
use zeroize::Zeroize;

use crate::reason::Reason;

const BLOCK: usize = 16;
/// Bytes of the longest MAC that OpenSSL knows.
const MAC_MAX: usize = 64;
/// The longest padding and its length byte.
const PADDING_MAX: usize = 256;

/// Versions as they stand in records.
const SSL3: u64 = 0x0300;
const TLS1: u64 = 0x0301;

/// What is known of the records of a connection.
#[derive(Clone)]
pub(crate) struct Records {
    /// A block before the data is the IV (TLS 1.1 and later, and DTLS).
    has_explicit_iv: bool,
    /// Of the last record.
    mac: [u8; MAC_MAX],
    mac_len: usize,
}

impl Drop for Records {
    fn drop(&mut self) {
        self.mac.zeroize();
    }
}

/// Bytes of a MAC that is behind the data; 0 where it is outside of what is
/// encrypted.
pub(crate) fn mac_len(len: u64) -> Result<usize, Reason> {
    usize::try_from(len).ok().filter(|len| *len <= MAC_MAX).ok_or(Reason::Parameter)
}

/// Fills what is behind the first `len` bytes with padding.
pub(crate) fn pad(record: &mut [u8], len: usize) {
    let padding = record.len() - len;
    record[len..].fill((padding - 1) as u8);
}

impl Records {
    pub(crate) fn new() -> Records {
        Records { has_explicit_iv: true, mac: [0; MAC_MAX], mac_len: 0 }
    }

    /// # Errors
    /// SSL 3.0, whose padding is not authenticated at all.
    pub(crate) fn set_version(&mut self, version: u64) -> Result<(), Reason> {
        if version == SSL3 {
            return Err(Reason::Parameter);
        }
        self.has_explicit_iv = version != TLS1;
        Ok(())
    }

    /// The MAC of the last record.
    pub(crate) fn mac(&self) -> &[u8] {
        &self.mac[..self.mac_len]
    }

    /// Takes IV, padding and MAC off a decrypted record; the bytes of data that
    /// stand behind the IV.
    ///
    /// # Errors
    /// The record is shorter than it can be, which everybody sees; or, where no
    /// MAC is to be checked later, its padding is wrong.
    pub(crate) fn open(&mut self, record: &[u8], mac_len: usize) -> Result<usize, Reason> {
        let data = if self.has_explicit_iv { record.get(BLOCK..).unwrap_or(&[]) } else { record };
        let Some(&padding) = data.last().filter(|_| data.len() > mac_len) else {
            return Err(Reason::DataLength);
        };
        let is_good = is_padded(data, padding, mac_len);
        let padding_len = u64::conditional_select(&0, &(u64::from(padding) + 1), is_good);
        let end = data.len() as u64 - padding_len;
        if mac_len == 0 {
            self.mac_len = 0;
            return if bool::from(is_good) { Ok(end as usize) } else { Err(Reason::BadDecrypt) };
        }
        let mut found = mac_before(data, end, mac_len);
        let mut random = [0; MAC_MAX];
        getrandom::fill(&mut random[..mac_len]).map_err(|_| Reason::Entropy)?;
        for ((mac, found), random) in self.mac.iter_mut().zip(&found).zip(&random) {
            *mac = u8::conditional_select(random, found, is_good);
        }
        found.zeroize();
        self.mac_len = mac_len;
        Ok(end as usize - mac_len)
    }
}

/// Whether `padding` bytes before the last one are there, and say so.
fn is_padded(data: &[u8], padding: u8, mac_len: usize) -> Choice {
    let needed = mac_len as u64 + u64::from(padding) + 1;
    let mut is_good = !needed.ct_gt(&(data.len() as u64));
    for (at, byte) in data.iter().rev().take(PADDING_MAX).enumerate() {
        is_good &= byte.ct_eq(&padding) | (at as u64).ct_gt(&u64::from(padding));
    }
    is_good
}

/// The bytes before `end`, which is secret: all that may be of them are read,
/// each to its place in a ring, which is turned in the end.
fn mac_before(data: &[u8], end: u64, mac_len: usize) -> [u8; MAC_MAX] {
    let start = end - mac_len as u64;
    let scanned = data.len().saturating_sub(PADDING_MAX + mac_len);
    let mut ring = [0; MAC_MAX];
    let mut turn = 0u64;
    let mut place = 0;
    for (at, byte) in (scanned as u64..).zip(&data[scanned..]) {
        let is_inside = !start.ct_gt(&at) & end.ct_gt(&at);
        turn = u64::conditional_select(&turn, &(place as u64), at.ct_eq(&start));
        ring[place] |= u8::conditional_select(&0, byte, is_inside);
        place = if place + 1 == mac_len { 0 } else { place + 1 };
    }
    let mut mac = [0; MAC_MAX];
    for (at, byte) in ring[..mac_len].iter().enumerate() {
        // From `turn` on, around the end.
        let (at, len) = (at as u64, mac_len as u64);
        let to = u64::conditional_select(&(at.wrapping_sub(turn)), &(at + len - turn), turn.ct_gt(&at));
        for (place, mac) in mac[..mac_len].iter_mut().enumerate() {
            *mac |= u8::conditional_select(&0, byte, (place as u64).ct_eq(&to));
        }
    }
    ring.zeroize();
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(version: u64) -> Records {
        let mut records = Records::new();
        records.set_version(version).unwrap();
        records
    }

    #[test]
    fn every_padding_of_every_mac_comes_off() {
        for (version, iv_len) in [(0x0301, 0), (0x0302, BLOCK), (0x0303, BLOCK)] {
            for mac_len in [0, 16, 20, 32, 48] {
                for payload in [0, 1, 15, 16, 17, 300] {
                    for padding in 0..=255u8 {
                        let plain: Vec<u8> =
                            (0..iv_len + payload + mac_len).map(|at| (at * 37) as u8).collect();
                        let mut record = plain.clone();
                        record.extend(vec![padding; usize::from(padding) + 1]);
                        let mut records = records(version);
                        assert_eq!(
                            records.open(&record, mac_len),
                            Ok(payload),
                            "{mac_len} {payload} {padding}"
                        );
                        assert_eq!(
                            records.mac(),
                            &plain[iv_len + payload..],
                            "{mac_len} {payload} {padding}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_padding_gets_a_random_mac() {
        let mut record = vec![7; 16 + 64 + 20];
        record.extend([11; 12]);
        for at in 1..13 {
            let mut wrong = record.clone();
            let place = wrong.len() - at;
            wrong[place] ^= 0x80;
            let mut first = records(0x0303);
            let mut second = records(0x0303);
            // Nothing is taken off, and the lengths say nothing.
            assert_eq!(first.open(&wrong, 20), Ok(64 + 12), "{at}");
            assert_eq!(second.open(&wrong, 20), Ok(64 + 12), "{at}");
            assert_ne!(first.mac(), second.mac(), "{at}");
            assert_eq!(records(0x0303).open(&wrong, 0), Err(Reason::BadDecrypt), "{at}");
        }
        assert_eq!(records(0x0303).open(&record, 20), Ok(64));
    }

    #[test]
    fn what_is_too_short_is_refused() {
        assert_eq!(records(0x0303).open(&[0; 16], 0), Err(Reason::DataLength));
        assert_eq!(records(0x0303).open(&[0; 32], 20), Err(Reason::DataLength));
        assert_eq!(records(0x0301).open(&[], 0), Err(Reason::DataLength));
        // Padding that reaches into the MAC is wrong padding.
        let mut first = records(0x0301);
        assert_eq!(first.open(&[31; 32], 20), Ok(12));
        assert_ne!(first.mac(), [31; 20]);
    }

    #[test]
    fn ssl3_is_refused() {
        assert_eq!(Records::new().set_version(0x0300), Err(Reason::Parameter));
    }
}
