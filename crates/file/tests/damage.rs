//! Files that were cut or changed anywhere, read as a file and as a stream, in
//! order and by several threads: always an error, and never a byte out of a
//! chunk that does not verify.

mod support;

use std::fs::File;
use std::io::{Cursor, Read, Seek, Write};
use std::sync::{Arc, LazyLock};

use strongroom_engine::Engine;
use strongroom_engine_cpu::CpuEngine;
use strongroom_file::armor::Armor;
use strongroom_file::identities::{Identities, generate, recipients_of};
use strongroom_file::recipients::Recipients;
use strongroom_file::{Error, ExposeSecret, Input, Job, NoCallbacks, Output, Ranges, decrypt, encrypt};
use support::Kept;

const CHUNK: usize = 65_536;
const SEALED: usize = CHUNK + 16;

static ENGINE: LazyLock<Arc<dyn Engine>> = LazyLock::new(|| Arc::new(CpuEngine::new()));
static KEY: LazyLock<String> =
    LazyLock::new(|| generate(false).expect("entropy").0.expose_secret().to_owned());

fn job(threads: usize) -> Job<'static> {
    Job { engine: Arc::clone(&ENGINE), threads, progress: &|_| () }
}

fn identities() -> Identities {
    let mut identities = Identities::new();
    identities.push_file(&KEY, "key", NoCallbacks).expect("a key");
    identities
}

/// Bytes of which no chunk is like another, and none is zero.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 + 1).collect()
}

/// The file for these bytes, and where its first chunk begins.
fn sealed(plain: &[u8]) -> (Vec<u8>, usize) {
    let mut recipients = Recipients::new();
    recipients_of(&KEY, &mut recipients).expect("a key");
    let kept = Kept::default();
    let input = Input::Stream(Box::new(Cursor::new(plain.to_vec())));
    encrypt(&job(1), &recipients, input, Output::Stream(Box::new(kept.clone()))).expect("encrypted");
    let bytes = kept.bytes();
    let chunks = plain.len().div_ceil(CHUNK).max(1);
    let start = bytes.len() - plain.len() - 16 * chunks;
    (bytes, start)
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).and_then(|()| file.rewind()).expect("written");
    file
}

/// What becomes of `bytes` with these inputs and threads, into a stream and
/// into a file.
fn opened(bytes: &[u8], threads: usize, as_file: bool) -> [(Result<u64, Error>, Vec<u8>); 2] {
    let input = || match as_file {
        true => Input::File(file_of(bytes)),
        false => Input::Stream(Box::new(Cursor::new(bytes.to_vec()))),
    };
    let kept = Kept::default();
    let streamed = decrypt(&job(threads), &identities(), input(), Output::Stream(Box::new(kept.clone())));
    let file = tempfile::tempfile().expect("a file");
    let output = Output::File(file.try_clone().expect("open"));
    let filed = decrypt(&job(threads), &identities(), input(), output);
    let mut written = Vec::new();
    let mut file = file;
    file.rewind().and_then(|()| file.read_to_end(&mut written)).expect("read");
    [(streamed, kept.bytes()), (filed, written)]
}

/// However it is read, `bytes` is refused; to a stream come the first `whole`
/// bytes of the plain text, and to a file what verifies or nothing, chunk by
/// chunk.
#[track_caller]
fn refused(bytes: &[u8], plain: &[u8], whole: usize, what: &str) {
    for (threads, as_file) in [(1, true), (4, true), (1, false), (4, false)] {
        let how = format!("{what}, {threads} threads, as a file: {as_file}");
        let [(streamed, released), (filed, written)] = opened(bytes, threads, as_file);
        for result in [&streamed, &filed] {
            let is_told = matches!(
                result,
                Err(Error::Payload { .. }
                    | Error::Header(_)
                    | Error::HeaderForged
                    | Error::WrongKey
                    | Error::Armor(_))
            );
            assert!(is_told, "{how}: {result:?}");
        }
        assert!(released == plain[..whole], "{how}: {} bytes instead of {whole}", released.len());
        for (index, chunk) in written.chunks(CHUNK).enumerate() {
            let of_plain = plain.get(index * CHUNK..index * CHUNK + chunk.len());
            let is_hole = chunk.iter().all(|&byte| byte == 0);
            assert!(is_hole || of_plain == Some(chunk), "{how}: chunk {index} was not verified");
        }
    }
}

#[test]
fn a_small_file_is_refused_wherever_it_is_cut() {
    for plain in [content(0), content(100)] {
        let (whole, _) = sealed(&plain);
        for at in 0..whole.len() {
            refused(&whole[..at], &plain, 0, &format!("{} bytes, cut at {at}", plain.len()));
        }
        assert!(opened(&whole, 1, true)[0].0.is_ok(), "uncut it opens");
    }
}

#[test]
fn a_small_file_is_refused_wherever_a_bit_is_changed() {
    let plain = content(100);
    let (whole, _) = sealed(&plain);
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        refused(&changed, &plain, 0, &format!("changed at {at}"));
    }
}

#[test]
fn an_armored_file_is_refused_wherever_it_is_cut() {
    let plain = content(100);
    let mut armor = Armor::new(Vec::new()).expect("memory");
    armor.write_all(&sealed(&plain).0).expect("memory");
    let text = armor.finish().expect("memory");
    // The last newline may be missing.
    for at in 0..text.len() - 1 {
        for (result, released) in opened(&text[..at], 1, false) {
            assert!(result.is_err(), "cut at {at}");
            assert!(plain.starts_with(&released), "cut at {at}");
        }
    }
    assert!(opened(&text[..text.len() - 1], 1, false).iter().all(|(result, _)| result.is_ok()));
}

#[test]
fn a_file_of_several_chunks_is_refused_at_every_border_and_at_samples() {
    // More than a batch, the last chunk not full.
    let plain = content(10 * CHUNK + 777);
    let (whole, start) = sealed(&plain);
    let borders = (0..=10).flat_map(|chunk| {
        let border = start + chunk * SEALED;
        [border - 1, border, border + 1, border + 15, border + 16, border + 17]
    });
    // An odd step meets the chunks at ever other places.
    let samples = (start..whole.len()).step_by(31_337);
    for at in borders.chain(samples).chain([whole.len() - 1, whole.len() - 16]) {
        let verified = at.saturating_sub(start) / SEALED * CHUNK;
        refused(&whole[..at], &plain, verified, &format!("cut at {at}"));
    }
}

#[test]
fn a_file_that_ends_with_a_whole_chunk_is_refused_when_that_is_missing_or_more_follows() {
    let plain = content(9 * CHUNK);
    let (whole, start) = sealed(&plain);
    refused(&whole[..start + 8 * SEALED], &plain, 8 * CHUNK, "without its last chunk");
    let (empty, its_start) = sealed(b"");
    let with = |end: &[u8]| [&whole[..], end].concat();
    refused(&with(b"x"), &plain, 9 * CHUNK, "a byte more");
    refused(&with(&empty[its_start..]), &plain, 9 * CHUNK, "an empty chunk more");
    refused(&with(&[0; SEALED]), &plain, 9 * CHUNK, "a chunk of zeros more");
}

#[test]
fn chunks_are_refused_at_another_place_or_changed() {
    let plain = content(10 * CHUNK + 777);
    let (whole, start) = sealed(&plain);
    let at = |chunk: usize| start + chunk * SEALED;
    for (one, other) in [(0, 1), (0, 9), (3, 4), (7, 8)] {
        let mut swapped = whole.clone();
        swapped[at(one)..at(one) + SEALED].copy_from_slice(&whole[at(other)..at(other) + SEALED]);
        swapped[at(other)..at(other) + SEALED].copy_from_slice(&whole[at(one)..at(one) + SEALED]);
        refused(&swapped, &plain, one * CHUNK, &format!("{one} and {other} swapped"));
    }
    for chunk in 0..=10 {
        let len = if chunk == 10 { 777 + 16 } else { SEALED };
        for within in [0, len / 2, len - 17, len - 16, len - 1] {
            let mut changed = whole.clone();
            changed[at(chunk) + within] ^= 0x80;
            refused(&changed, &plain, chunk * CHUNK, &format!("chunk {chunk} changed at {within}"));
        }
    }
}

#[test]
fn parts_of_a_file_that_is_cut_are_not_shown() {
    let plain = content(2 * CHUNK + 100);
    let (whole, start) = sealed(&plain);
    let cuts = (start..whole.len()).step_by(997).chain([start + SEALED, start + 2 * SEALED, whole.len() - 1]);
    for at in (0..start).chain(cuts) {
        assert!(Ranges::open(file_of(&whole[..at]), &identities(), &ENGINE).is_err(), "cut at {at}");
    }
    assert_eq!(Ranges::open(file_of(&whole), &identities(), &ENGINE).expect("whole").len(), 131_172);
}
