//! Bytes from one thread to another, as through a pipe, in pieces of as much as
//! is written at once, without the system's calls.

use std::io::{self, IoSlice, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::removal;

/// Pieces on their way.
const PIECES: usize = 2;

/// Both ends. The reader's end comes when the writer is dropped, and the writer
/// fails when the reader is.
pub(super) fn passage() -> (Entrance, Exit) {
    let (sender, receiver) = sync_channel(PIECES);
    // All that there are: one more with each side.
    let (spare, spares) = sync_channel(PIECES + 2);
    (Entrance { sender, spares }, Exit { receiver, spare, piece: Vec::new(), taken: 0 })
}

pub(super) struct Entrance {
    sender: SyncSender<Vec<u8>>,
    spares: Receiver<Vec<u8>>,
}

pub(super) struct Exit {
    receiver: Receiver<Vec<u8>>,
    spare: SyncSender<Vec<u8>>,
    piece: Vec<u8>,
    taken: usize,
}

impl Write for Entrance {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut piece = self.spares.try_recv().unwrap_or_default();
        piece.clear();
        slices.iter().for_each(|slice| piece.extend_from_slice(slice));
        let len = piece.len();
        // No piece is empty, for that is the end.
        if len > 0 {
            self.sender.send(piece).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Exit {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() {
            let next = self.receiver.recv();
            removal::pass();
            let Ok(next) = next else { return Ok(0) };
            // When the writer is gone nobody needs it.
            let _ = self.spare.try_send(std::mem::replace(&mut self.piece, next));
            self.taken = 0;
        }
        let rest = &self.piece[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_and_each_end_learns_of_the_others() {
        let (mut entrance, mut exit) = passage();
        let plain: Vec<u8> = (0..100_000u32).map(|at| (at % 253) as u8).collect();
        let given = plain.clone();
        let writer = std::thread::spawn(move || {
            for part in given.chunks(700) {
                let (one, two) = part.split_at(part.len() / 2);
                let written = entrance.write_vectored(&[IoSlice::new(one), IoSlice::new(two)]);
                assert_eq!(written.expect("read"), part.len());
            }
            assert_eq!(entrance.write(b"").expect("nothing"), 0);
        });
        let mut out = Vec::new();
        exit.read_to_end(&mut out).expect("read");
        writer.join().expect("written");
        assert!(out == plain);
        let (mut entrance, exit) = passage();
        drop(exit);
        assert_eq!(entrance.write(b"x").expect_err("nobody").kind(), io::ErrorKind::BrokenPipe);
    }
}
