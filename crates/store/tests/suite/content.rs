//! Contents of files.

use std::io::{IoSlice, IoSliceMut};

use rustix::io::Errno;
use strongroom_store::{Access, AllocateMode};

use super::{Subject, content, refused};

pub(crate) fn read_and_write(subject: &Subject) {
    let (_, file) = subject.root().create(b"file", 0o600).unwrap();
    assert!(file.is_empty().unwrap());
    assert_eq!(file.read_at(&mut [0; 10], 0).unwrap(), 0);
    let data: Vec<u8> = (0..100_000u32).map(|i| (i / 3) as u8).collect();
    file.write_at(&data, 0).unwrap();
    assert_eq!(content(&file), data);
    file.write_at(b"", 200_000).unwrap();
    assert_eq!(file.len().unwrap(), 100_000);
    // Across page borders, unaligned, over old content.
    let mut expected = data;
    for (offset, len) in [(1usize, 1usize), (4095, 2), (511, 5000), (99_990, 10)] {
        let patch = vec![offset as u8 ^ 0x5a; len];
        file.write_at(&patch, offset as u64).unwrap();
        expected[offset..offset + len].copy_from_slice(&patch);
    }
    assert_eq!(content(&file), expected);
    let mut part = [0; 50];
    assert_eq!(file.read_at(&mut part, 99_980).unwrap(), 20);
    assert_eq!(part[..20], expected[99_980..]);
    assert_eq!(file.read_at(&mut part, 1 << 40).unwrap(), 0);
}

pub(crate) fn vectors(subject: &Subject) {
    let (_, file) = subject.root().create(b"file", 0o600).unwrap();
    file.write_vectored_at(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cdefg")], 3).unwrap();
    assert_eq!(content(&file), b"\0\0\0abcdefg");
    file.write_vectored_at(&[], 0).unwrap();
    file.write_vectored_at(&[IoSlice::new(b"")], 100).unwrap();
    assert_eq!(file.len().unwrap(), 10);
    let (mut a, mut b, mut c) = ([0; 4], [0; 0], [9; 20]);
    let buffers = &mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b), IoSliceMut::new(&mut c)];
    assert_eq!(file.read_vectored_at(buffers, 2).unwrap(), 8);
    assert_eq!((&a, &c[..4], c[4]), (b"\0abc", &b"defg"[..], 9));
    assert_eq!(file.read_vectored_at(&mut [IoSliceMut::new(&mut a)], 50).unwrap(), 0);
    assert_eq!(file.read_vectored_at(&mut [], 0).unwrap(), 0);
}

pub(crate) fn many_vectors(subject: &Subject) {
    // More than one call to the system takes.
    let (_, file) = subject.root().create(b"file", 0o600).unwrap();
    let pieces: Vec<Vec<u8>> = (0..2500usize).map(|i| vec![i as u8; i % 7]).collect();
    let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    file.write_vectored_at(&slices, 11).unwrap();
    let whole = pieces.concat();
    assert_eq!(content(&file)[11..], whole);
    let mut read: Vec<Vec<u8>> = pieces.iter().map(|piece| vec![0; piece.len()]).collect();
    let mut buffers: Vec<IoSliceMut<'_>> = read.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
    assert_eq!(file.read_vectored_at(&mut buffers, 11).unwrap(), whole.len());
    assert_eq!(read, pieces);
}

pub(crate) fn copies(subject: &Subject) {
    let root = subject.root();
    let (_, from) = root.create(b"from", 0o600).unwrap();
    let (node, to) = root.create(b"to", 0o600).unwrap();
    let data: Vec<u8> = (0..3_000_000u32).map(|i| (i / 5) as u8 ^ (i >> 12) as u8).collect();
    from.write_at(&data, 0).unwrap();
    to.write_at(&[7; 100], 0).unwrap();
    let mut expected = vec![7; 100];
    // Short and long, at and between borders of pages, up to the end and past it.
    for (at, offset, len) in [
        (0usize, 50usize, 10usize),
        (4096, 4096, 1 << 20),
        (4097, 9, 2_500_000),
        (2_990_000, 12_345, 100_000),
        (0, 0, 3_000_000),
        (3_000_000, 0, 40_000),
    ] {
        let copied = len.min(data.len() - at);
        let found = to.copy_from(&*from, at as u64, offset as u64, len as u64).unwrap();
        assert_eq!(found, copied as u64);
        expected.resize(expected.len().max(offset + copied), 0);
        expected[offset..offset + copied].copy_from_slice(&data[at..at + copied]);
        assert!(content(&to) == expected, "{at} {offset} {len}");
    }
    // A copy that was refused leaves nothing to the next one.
    let unwritable = node.open(Access::Read).unwrap();
    assert!(unwritable.copy_from(&*from, 0, 0, 100_000).is_err());
    assert_eq!(to.copy_from(&*from, 200_000, 0, 100_000).unwrap(), 100_000);
    expected[..100_000].copy_from_slice(&data[200_000..300_000]);
    assert!(content(&to) == expected);
}

pub(crate) fn sparse(subject: &Subject) {
    let (_, file) = subject.root().create(b"file", 0o600).unwrap();
    file.write_at(b"end", 1 << 33).unwrap();
    assert_eq!(file.len().unwrap(), (1 << 33) + 3);
    assert!(file.attributes().unwrap().blocks < 1000);
    let mut bytes = [7; 100];
    assert_eq!(file.read_at(&mut bytes, 1 << 32).unwrap(), 100);
    assert_eq!(bytes, [0; 100]);
    assert_eq!(file.read_at(&mut bytes, (1 << 33) - 2).unwrap(), 5);
    assert_eq!(bytes[..5], *b"\0\0end");
}

pub(crate) fn lengths(subject: &Subject) {
    let (_, file) = subject.root().create(b"file", 0o600).unwrap();
    file.write_at(&[7; 10_000], 0).unwrap();
    file.set_len(5_000).unwrap();
    assert_eq!(content(&file), [7; 5_000]);
    file.set_len(10_000).unwrap();
    assert_eq!(content(&file), [&[7; 5_000][..], &[0; 5_000]].concat());
    file.set_len(1 << 40).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 40);
    file.set_len(0).unwrap();
    assert_eq!(file.len().unwrap(), 0);
    assert_eq!(file.attributes().unwrap().blocks, 0);
}

pub(crate) fn allocation(subject: &Subject) {
    let (_, file) = subject.root().create(b"file", 0o600).unwrap();
    file.allocate(AllocateMode::KeepLength, 0, 65_536).unwrap();
    assert_eq!(file.len().unwrap(), 0);
    assert!(file.attributes().unwrap().blocks >= 128);
    file.allocate(AllocateMode::Extend, 0, 20_000).unwrap();
    assert_eq!(content(&file), [0; 20_000]);
    file.write_at(&[3; 20_000], 0).unwrap();
    file.allocate(AllocateMode::Extend, 100, 300).unwrap();
    assert_eq!(content(&file), [3; 20_000]);
    file.allocate(AllocateMode::Punch, 4_000, 9_000).unwrap();
    assert_eq!(content(&file), [&[3; 4_000][..], &[0; 9_000], &[3; 7_000]].concat());
    file.allocate(AllocateMode::Punch, 19_000, 1 << 20).unwrap();
    assert_eq!(file.len().unwrap(), 20_000);
    assert_eq!(content(&file)[18_998..], [&[3; 2][..], &[0; 1_000]].concat());
    file.allocate(AllocateMode::Punch, 1 << 30, 4_096).unwrap();
    refused(file.allocate(AllocateMode::KeepLength, 0, 0), Errno::INVAL);
}

pub(crate) fn access(subject: &Subject) {
    let (node, _) = subject.root().create(b"file", 0o600).unwrap();
    let reader = node.open(Access::Read).unwrap();
    refused(reader.write_at(b"x", 0), Errno::BADF);
    refused(reader.write_vectored_at(&[IoSlice::new(b"x"), IoSlice::new(b"y")], 0), Errno::BADF);
    refused(reader.set_len(5), Errno::INVAL);
    refused(reader.allocate(AllocateMode::Extend, 0, 5), Errno::BADF);
    let writer = node.open(Access::ReadWrite).unwrap();
    writer.write_at(b"x", 0).unwrap();
    assert_eq!(content(&reader), b"x");
    refused(writer.write_at(b"x", i64::MAX as u64), Errno::INVAL);
    refused(writer.allocate(AllocateMode::Extend, i64::MAX as u64, 1), Errno::FBIG);
}

pub(crate) fn barriers(subject: &Subject) {
    let root = subject.root();
    let (_, file) = root.create(b"file", 0o600).unwrap();
    file.write_at(b"kept", 0).unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    root.sync().unwrap();
    subject.store.sync_all().unwrap();
    assert_eq!(content(&file), b"kept");
}
