//! Input and output of one call. OpenSSL's callers may name the same bytes, or
//! ones that overlap, so both are slices only one after the other.

use std::marker::PhantomData;
use std::{ptr, slice};

use crate::reason::Reason;

/// Bytes that are copied before they are worked on, so that they are still in
/// the nearest cache. A multiple of what every cipher does at once.
const PART: usize = 8192;

/// Some bytes of input, and room for output; or input alone, which is
/// associated data.
pub(crate) struct Text<'a> {
    input: *const u8,
    len: usize,
    output: *mut u8,
    room: usize,
    bytes: PhantomData<&'a mut [u8]>,
}

impl<'a> Text<'a> {
    /// # Safety
    /// For `'a`: `len` bytes are readable at `input` when `len` is not 0, and
    /// `room` writable at `output` when it is not null, and nobody else touches
    /// them.
    pub(super) unsafe fn new(input: *const u8, len: usize, output: *mut u8, room: usize) -> Text<'a> {
        Text { input, len, output, room, bytes: PhantomData }
    }

    /// Bytes of input.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The input, when there is no output.
    pub(crate) fn associated(&self) -> Option<&'a [u8]> {
        self.output.is_null().then(|| match self.len {
            0 => &[][..],
            // SAFETY: the bytes are readable, and nothing is written meanwhile:
            // there is no output.
            len => unsafe { slice::from_raw_parts(self.input, len) },
        })
    }

    fn is_in_place(&self) -> bool {
        ptr::eq(self.input, self.output)
    }

    /// Copies the input from byte `from` on.
    ///
    /// # Panics
    /// When there are fewer.
    pub(crate) fn copy_to(&self, from: usize, to: &mut [u8]) {
        assert!(from <= self.len && to.len() <= self.len - from, "no more than the input");
        if !to.is_empty() {
            // SAFETY: those bytes of input are readable, as just seen; `to` is
            // ours and overlaps with nothing of OpenSSL's.
            unsafe { ptr::copy_nonoverlapping(self.input.add(from), to.as_mut_ptr(), to.len()) }
        }
    }

    /// The output: room for `before` bytes, and behind them the input without
    /// its last `after` bytes.
    ///
    /// # Errors
    /// There is not so much room.
    ///
    /// # Panics
    /// When the input has fewer than `after` bytes.
    pub(crate) fn moved(self, before: usize, after: usize) -> Result<&'a mut [u8], Reason> {
        let len = self.len.checked_sub(after).expect("no more than the input");
        let needed = before.checked_add(len).ok_or(Reason::OutputTooSmall)?;
        if self.output.is_null() || needed > self.room {
            return Err(Reason::OutputTooSmall);
        }
        // SAFETY: `len` bytes are readable, and `before + len` writable, as
        // just seen; they may overlap, which `copy` allows. What is then lent
        // is the output alone, and the input is not looked at again.
        unsafe {
            let to = self.output.add(before);
            if len > 0 && !ptr::eq(to, self.input) {
                ptr::copy(self.input, to, len);
            }
            Ok(slice::from_raw_parts_mut(self.output, needed))
        }
    }

    /// Input that is output as well.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn in_place(self) -> Result<&'a mut [u8], Reason> {
        self.in_place_with(0)
    }

    /// The same, with so many bytes behind it.
    ///
    /// # Errors
    /// It is not, or there is not so much room.
    pub(crate) fn in_place_with(self, behind: usize) -> Result<&'a mut [u8], Reason> {
        let needed = self.len.checked_add(behind).ok_or(Reason::OutputTooSmall)?;
        match self.is_in_place() && !self.output.is_null() {
            false => Err(Reason::NotInPlace),
            true if needed > self.room => Err(Reason::OutputTooSmall),
            // SAFETY: `room` bytes are writable, which are no fewer; those of
            // the input are the same and only lent once.
            true => Ok(unsafe { slice::from_raw_parts_mut(self.output, needed) }),
        }
    }

    /// Moves the input to the output and has it worked on there, part by part
    /// where that is faster.
    ///
    /// # Errors
    /// There is not enough room, or what `work` fails with.
    pub(crate) fn by_parts(
        self,
        mut work: impl FnMut(&mut [u8]) -> Result<(), Reason>,
    ) -> Result<usize, Reason> {
        let len = self.len;
        let apart = self.input.addr().abs_diff(self.output.addr()) >= len;
        if self.is_in_place() || !apart || len <= PART {
            work(self.moved(0, 0)?)?;
            return Ok(len);
        }
        if self.output.is_null() || len > self.room {
            return Err(Reason::OutputTooSmall);
        }
        let mut at = 0;
        while at < len {
            let part = PART.min(len - at);
            // SAFETY: input and output have `len` bytes and do not overlap, as
            // just seen; each part of the output is lent after it was written.
            work(unsafe {
                ptr::copy_nonoverlapping(self.input.add(at), self.output.add(at), part);
                slice::from_raw_parts_mut(self.output.add(at), part)
            })?;
            at += part;
        }
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &mut [u8], input: usize, len: usize, output: usize, room: usize) -> Text<'_> {
        assert!(input + len <= bytes.len() && output + room <= bytes.len());
        let base = bytes.as_mut_ptr();
        // SAFETY: both lie in `bytes`, which is borrowed as long.
        unsafe { Text::new(base.add(input), len, base.add(output), room) }
    }

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
    }

    #[test]
    fn what_overlaps_is_moved_whole() {
        const LEN: usize = 3 * PART + 5;
        for (input, output) in [(0, 1), (1, 0), (0, 100), (40, 0), (0, LEN), (LEN, 0), (9, 9)] {
            let mut bytes = pattern(2 * LEN);
            let expected: Vec<u8> = bytes[input..input + LEN].iter().map(|byte| byte ^ 0x55).collect();
            let done = text(&mut bytes, input, LEN, output, LEN).by_parts(|part| {
                part.iter_mut().for_each(|byte| *byte ^= 0x55);
                Ok(())
            });
            assert_eq!(done, Ok(LEN));
            assert!(bytes[output..output + LEN] == expected, "{input} to {output}");
        }
    }

    #[test]
    fn room_is_needed_for_what_is_written() {
        let mut bytes = pattern(3 * PART);
        assert_eq!(text(&mut bytes, 0, 32, 40, 31).moved(0, 0), Err(Reason::OutputTooSmall));
        assert_eq!(text(&mut bytes, 0, 32, 40, 47).moved(16, 0), Err(Reason::OutputTooSmall));
        let len = PART + 1;
        assert_eq!(text(&mut bytes, 0, len, len, len - 1).by_parts(|_| Ok(())), Err(Reason::OutputTooSmall));
        assert_eq!(text(&mut bytes, 0, 32, 0, 33).in_place_with(2), Err(Reason::OutputTooSmall));
        assert_eq!(text(&mut bytes, 0, 32, 1, 33).in_place(), Err(Reason::NotInPlace));
        assert_eq!(bytes, pattern(3 * PART));
        let moved = text(&mut bytes, 0, 32, 4, 40).moved(8, 2).unwrap();
        assert_eq!(moved[8..], pattern(30));
    }
}
