//! Headers and volumes through the public interface.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use strongroom_disk::header::{CopyState, Version};
use strongroom_disk::{Backing, Bytes, Device, Error, Header, Volume, VolumeOptions};
use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine::{Buffer, Engine};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_format::luks::Hash;
use strongroom_sched::Scheduler;
use support::{Memory, cheap, engine, image, new_header};

fn open_with(memory: &Arc<Memory>, engine: &Arc<dyn Engine>, options: VolumeOptions) -> Volume {
    let header = Header::read(&**memory).unwrap();
    let key = header.unlock(&**memory, engine, b"secret", None).unwrap().key;
    let backing = Arc::clone(memory) as Arc<dyn Backing>;
    Volume::open(engine, backing, header.segment().unwrap(), &key, options).unwrap()
}

fn open(memory: &Arc<Memory>) -> Volume {
    open_with(memory, &engine(), VolumeOptions::default())
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

fn write(volume: &dyn Device, offset: u64, data: &[u8]) {
    let mut buffer = Buffer::copy_of(data);
    volume.write_one(offset, data.len(), &mut buffer).unwrap();
}

fn read(volume: &dyn Device, offset: u64, len: usize) -> Vec<u8> {
    let mut buffer = Buffer::new(len);
    volume.read_one(offset, len, &mut buffer).unwrap();
    buffer.to_vec()
}

#[test]
fn every_kind_of_volume_keeps_its_data() {
    let kinds = [
        (Version::Luks1, "aes-xts-plain64", 512, 512),
        (Version::Luks1, "serpent-cbc-plain64", 256, 512),
        (Version::Luks1, "aes-cbc-essiv:sha256", 128, 512),
        (Version::Luks2, "aes-xts-plain64", 256, 512),
        (Version::Luks2, "aes-xts-plain64", 512, 4096),
        (Version::Luks2, "twofish-xts-plain", 512, 4096),
        (Version::Luks2, "camellia-cbc-plain", 192, 512),
        (Version::Luks1, "aes-xts-essiv:sha256", 256, 512),
        (Version::Luks2, "aes-xts-essiv:sha256", 512, 4096),
        (Version::Luks2, "twofish-xts-essiv:sha256", 512, 512),
        (Version::Luks2, "serpent-xts-essiv:sha256", 256, 4096),
    ];
    for (version, cipher, bits, sector) in kinds {
        let (memory, _) = image(&new_header(version, cipher, bits, sector), 1 << 20);
        let volume = open(&memory);
        assert_eq!((volume.len(), volume.sector_len()), (1 << 20, sector));
        let data = pattern(600 << 10, 1);
        write(&volume, 4096, &data);
        drop(volume);
        let volume = open(&memory);
        assert_eq!(read(&volume, 4096, data.len()), data, "{cipher}");
        // Sector by sector as in one piece.
        for at in [0, 4096, 300 << 10, data.len() - 4096] {
            assert_eq!(read(&volume, 4096 + at as u64, 4096), data[at..at + 4096], "{cipher} at {at}");
        }
        let stored = memory.bytes();
        assert!(!stored.windows(32).any(|window| window == &data[..32]), "{cipher}: in clear");
    }
}

/// Both kinds of volume under one key, compared with sectors computed alone.
#[test]
fn sectors_of_4096_bytes_are_numbered_in_units_of_512() {
    use strongroom_engine::{Algorithm, Batch, Operation, SectorCipher, Segment};
    let (memory, header) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 4096), 1 << 16);
    let volume = open(&memory);
    write(&volume, 0, &pattern(1 << 16, 5));
    let key = header.unlock(&*memory, &engine(), b"secret", None).unwrap().key;
    let reference = ReferenceEngine;
    let session = reference.session(Algorithm::Sector(SectorCipher::AES_XTS_PLAIN64), key.expose()).unwrap();
    for sector in [0u64, 1, 15] {
        let at = (16 << 20) + sector as usize * 4096;
        let stored = Buffer::copy_of(&memory.bytes()[at..at + 4096]);
        let segment = Segment::sectors(0, 4096, sector * 8, 4096);
        let batch = Batch::new(Operation::DecryptSectors, stored, vec![segment]);
        let plain = reference.submit(&session, batch).ok().unwrap().wait().unwrap().batch.buffer;
        assert_eq!(plain[..], pattern(1 << 16, 5)[sector as usize * 4096..][..4096], "sector {sector}");
    }
}

#[test]
fn slots_are_added_changed_and_removed() {
    for version in [Version::Luks1, Version::Luks2] {
        let (memory, mut header) = image(&new_header(version, "aes-xts-plain64", 512, 512), 4096);
        let engine = engine();
        let key = header.unlock(&*memory, &engine, b"secret", None).unwrap();
        assert_eq!(key.slot, 0);
        let kdf = cheap(version);
        assert_eq!(header.add_slot(&*memory, &engine, &key.key, b"second", kdf, None).unwrap(), 1);
        assert_eq!(header.add_slot(&*memory, &engine, &key.key, b"fifth", kdf, Some(5)).unwrap(), 5);
        let in_use = header.add_slot(&*memory, &engine, &key.key, b"x", kdf, Some(5));
        assert!(matches!(in_use, Err(Error::SlotInUse(5))));
        let again = Header::read(&*memory).unwrap();
        let opens = |header: &Header, passphrase: &[u8], slot| {
            header.unlock(&*memory, &engine, passphrase, slot).map(|unlocked| unlocked.slot).ok()
        };
        assert_eq!(opens(&again, b"second", None), Some(1));
        assert_eq!(opens(&again, b"fifth", Some(5)), Some(5));
        assert_eq!(opens(&again, b"fifth", Some(1)), None);
        assert_eq!(opens(&again, b"wrong", None), None);
        let changed = header.change_slot(&*memory, &engine, &key.key, b"new", kdf, 1).unwrap();
        assert_eq!(changed == 1, version == Version::Luks2, "LUKS1 needs another slot");
        let again = Header::read(&*memory).unwrap();
        assert_eq!((opens(&again, b"second", None), opens(&again, b"new", None)), (None, Some(changed)));
        header.remove_slot(&*memory, 0, false).unwrap();
        header.remove_slot(&*memory, 5, false).unwrap();
        assert!(matches!(header.remove_slot(&*memory, changed, false), Err(Error::LastSlot)));
        assert!(matches!(header.remove_slot(&*memory, 0, false), Err(Error::NoSlot(0))));
        let again = Header::read(&*memory).unwrap();
        assert_eq!((opens(&again, b"secret", None), opens(&again, b"new", None)), (None, Some(changed)));
        header.erase(&*memory).unwrap();
        let again = Header::read(&*memory).unwrap();
        assert!(again.slots().is_empty() && opens(&again, b"new", None).is_none());
    }
}

#[test]
fn a_removed_slots_key_material_is_gone() {
    let (memory, mut header) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 512), 4096);
    let engine = engine();
    let key = header.unlock(&*memory, &engine, b"secret", None).unwrap().key;
    header.add_slot(&*memory, &engine, &key, b"second", cheap(Version::Luks2), None).unwrap();
    let before = memory.bytes();
    header.remove_slot(&*memory, 0, false).unwrap();
    let after = memory.bytes();
    let area = 32_768..32_768 + 258_048;
    let same = before[area.clone()].iter().zip(&after[area]).filter(|(a, b)| a == b).count();
    assert!(same < 258_048 / 64, "{same} bytes are as before");
}

#[test]
fn headers_can_be_detached() {
    for version in [Version::Luks1, Version::Luks2] {
        let new = strongroom_disk::header::NewHeader {
            detached: true,
            ..new_header(version, "aes-xts-plain64", 512, 512)
        };
        let (headers, data) = (Memory::new(new.header_len() as usize), Memory::new(1 << 16));
        let engine = engine();
        new.create(&*headers, &engine, b"secret", cheap(version)).unwrap();
        let header = Header::read(&*headers).unwrap();
        let segment = header.segment().unwrap();
        assert_eq!(segment.offset, 0);
        let key = header.unlock(&*headers, &engine, b"secret", None).unwrap().key;
        let backing = Arc::clone(&data) as Arc<dyn Backing>;
        let volume = Volume::open(&engine, backing, segment, &key, VolumeOptions::default()).unwrap();
        assert_eq!(volume.len(), 1 << 16);
        write(&volume, 512, &pattern(512, 2));
        assert_eq!(read(&volume, 512, 512), pattern(512, 2));
        assert!(matches!(Header::read(&*data), Err(Error::NotLuks)));
    }
}

#[test]
fn either_copy_of_a_header_is_enough() {
    let (memory, mut header) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 512), 4096);
    let whole = memory.bytes();
    let copies = |memory: &Memory| match Header::read(memory) {
        Ok(Header::V2(header)) => Ok(header.copies),
        Ok(Header::V1(_)) => panic!("LUKS2"),
        Err(error) => Err(error.to_string()),
    };
    use CopyState::{Current, Damaged, Older};
    assert_eq!(copies(&memory), Ok([Current, Current]));
    // Magic, sequence number, checksum, JSON text of each copy.
    for (at, expected) in [(0, [Damaged, Current]), (0x4000, [Current, Damaged])] {
        for field in [0, 16, 448, 4100, 0x3fff] {
            memory.set(whole.clone());
            memory.flip(at + field);
            assert_eq!(copies(&memory), Ok(expected), "byte {field} of the copy at {at}");
            assert!(Header::read(&*memory).unwrap().unlock(&*memory, &engine(), b"secret", None).is_ok());
        }
    }
    memory.set(whole.clone());
    memory.flip(450);
    memory.flip(0x4000 + 450);
    assert!(copies(&memory).is_err_and(|error| error.contains("checksum")));
    // A change makes the damaged copy whole; a cut between the copies leaves
    // the newer first one and the older second one.
    memory.set(whole);
    let key = header.unlock(&*memory, &engine(), b"secret", None).unwrap().key;
    memory.writes_left.store(2, Ordering::Relaxed);
    header.add_slot(&*memory, &engine(), &key, b"second", cheap(Version::Luks2), None).unwrap();
    assert_eq!(copies(&memory), Ok([Current, Older]));
    memory.writes_left.store(u64::MAX, Ordering::Relaxed);
    let mut header = Header::read(&*memory).unwrap();
    assert!(header.unlock(&*memory, &engine(), b"second", None).is_ok(), "the newer one counts");
    header.remove_slot(&*memory, 1, false).unwrap();
    assert_eq!(copies(&memory), Ok([Current, Current]));
}

/// Whatever write a power cut follows, the old or the new passphrase opens.
#[test]
fn a_cut_during_a_change_leaves_the_old_or_the_new() {
    let (memory, header) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 512), 4096);
    let (whole, engine) = (memory.bytes(), engine());
    let key = header.unlock(&*memory, &engine, b"secret", None).unwrap().key;
    let mut seen = [false; 2];
    for writes in 0..6 {
        memory.set(whole.clone());
        memory.writes_left.store(writes, Ordering::Relaxed);
        let mut changing = header.clone();
        changing.change_slot(&*memory, &engine, &key, b"new", cheap(Version::Luks2), 0).unwrap();
        memory.writes_left.store(u64::MAX, Ordering::Relaxed);
        let header = Header::read(&*memory).unwrap();
        let old = header.unlock(&*memory, &engine, b"secret", None).is_ok();
        let new = header.unlock(&*memory, &engine, b"new", None).is_ok();
        assert!(old != new, "after {writes} writes: old {old}, new {new}");
        seen[usize::from(new)] = true;
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn what_is_no_header_is_told_apart() {
    let engine = engine();
    for len in [0, 100, 592, 4096, 1 << 20] {
        assert!(matches!(Header::read(&*Memory::new(len)), Err(Error::NotLuks)), "{len} zeros");
    }
    let small = new_header(Version::Luks2, "aes-xts-plain64", 512, 4096);
    let refused = small.create(&*Memory::new(16 << 20), &engine, b"secret", cheap(Version::Luks2));
    assert!(matches!(refused, Err(Error::TooSmall { .. })));
    let unknown = new_header(Version::Luks2, "aes-adiantum-plain64", 256, 512);
    let refused = unknown.create(&*Memory::new(20 << 20), &engine, b"secret", cheap(Version::Luks2));
    assert!(matches!(refused, Err(Error::Cipher { .. })));
    let new = new_header(Version::Luks1, "aes-xts-plain64", 512, 512);
    let (memory, _) = image(&new, 4096);
    let mut bytes = memory.bytes();
    bytes[72..80].copy_from_slice(b"md5\0\0\0\0\0");
    memory.set(bytes);
    assert!(matches!(Header::read(&*memory), Err(Error::Header(error)) if error.is_unsupported()));
}

#[test]
fn other_hashes_serve_luks1() {
    for hash in Hash::ALL {
        let new = strongroom_disk::header::NewHeader {
            hash,
            ..new_header(Version::Luks1, "aes-xts-plain64", 256, 512)
        };
        let memory = Memory::new(new.data_offset() as usize + 512);
        let kdf = strongroom_format::luks::Kdf::pbkdf2(hash, 1000).unwrap();
        new.create(&*memory, &engine(), b"secret", kdf).unwrap();
        let header = Header::read(&*memory).unwrap();
        assert!(header.unlock(&*memory, &engine(), b"secret", None).is_ok(), "{hash}");
    }
}

#[test]
fn requests_outside_or_across_are_refused() {
    let (memory, _) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 4096), 1 << 16);
    let volume = open(&memory);
    let mut buffer = Buffer::new(8192);
    for (offset, len) in [(512, 4096), (0, 512), (1 << 16, 4096), (61_440, 8192), (u64::MAX - 4095, 4096)] {
        assert!(matches!(volume.read_one(offset, len, &mut buffer), Err(Error::Range)), "{offset} {len}");
        assert!(matches!(volume.write_one(offset, len, &mut buffer), Err(Error::Range)), "{offset} {len}");
        assert!(matches!(volume.discard(offset, len as u64), Err(Error::Range)), "{offset} {len}");
    }
    let read_only = open_with(&memory, &engine(), VolumeOptions { read_only: true, discard: true });
    assert!(matches!(read_only.write_one(0, 4096, &mut buffer), Err(Error::ReadOnly)));
    assert!(read_only.is_read_only() && !read_only.can_discard());
}

#[test]
fn faults_go_upward_and_pass() {
    let (memory, _) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 512), 1 << 16);
    let volume = open(&memory);
    write(&volume, 0, &pattern(1 << 16, 3));
    let mut buffer = Buffer::new(4096);
    memory.fail_reads.store(true, Ordering::Relaxed);
    assert_eq!(volume.read_one(0, 4096, &mut buffer).unwrap_err().errno(), 5);
    memory.fail_reads.store(false, Ordering::Relaxed);
    assert_eq!(read(&volume, 0, 1 << 16), pattern(1 << 16, 3));
    memory.fail_writes.store(true, Ordering::Relaxed);
    assert_eq!(volume.write_one(0, 4096, &mut buffer).unwrap_err().errno(), 5);
    memory.fail_writes.store(false, Ordering::Relaxed);
    assert_eq!(read(&volume, 0, 1 << 16), pattern(1 << 16, 3));
    volume.flush().unwrap();
    memory.fail_syncs.store(true, Ordering::Relaxed);
    assert!(volume.flush().is_err());
    memory.fail_syncs.store(false, Ordering::Relaxed);
    assert!(matches!(volume.flush(), Err(Error::FlushFailed)), "a failed flush is not forgotten");
    // An image that was cut: what is beyond is an error, the rest is there.
    let mut bytes = memory.bytes();
    bytes.truncate(bytes.len() - 512);
    memory.set(bytes);
    assert_eq!(volume.read_one((1 << 16) - 4096, 4096, &mut buffer).unwrap_err().errno(), 5);
    assert_eq!(read(&volume, 0, 4096), pattern(1 << 16, 3)[..4096]);
}

#[test]
fn an_engine_that_is_late_busy_and_lossy_changes_nothing() {
    let (memory, _) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 512), 1 << 20);
    let lossy = Arc::new(UnrulyEngine::new(Arc::new(CpuEngine::new()), 7, Faults::lossy()));
    let unruly: Arc<dyn Engine> = Arc::new(Scheduler::fixed(lossy, Arc::new(ReferenceEngine)));
    let volume = open_with(&memory, &unruly, VolumeOptions::default());
    for round in 0..8u64 {
        let data = pattern(64 << 10, round);
        write(&volume, round * (64 << 10), &data);
        assert_eq!(read(&volume, round * (64 << 10), data.len()), data);
    }
    let sound = open(&memory);
    assert_eq!(read(&sound, 3 * (64 << 10), 64 << 10), pattern(64 << 10, 3));
}

#[test]
fn bytes_across_sectors_are_changed_alone() {
    let (memory, _) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 4096), 1 << 18);
    let bytes = Arc::new(Bytes::new(Arc::new(open(&memory))));
    let mut model = pattern(1 << 18, 9);
    write(bytes.device(), 0, &model);
    for (offset, len) in [(1usize, 1usize), (4095, 2), (5000, 9000), (0, 100), ((1 << 18) - 1, 1)] {
        let data = pattern(len, offset as u64);
        bytes.write(offset as u64, len, &mut Buffer::copy_of(&data)).unwrap();
        model[offset..offset + len].copy_from_slice(&data);
    }
    bytes.write_zeroes(10_001, 20_000).unwrap();
    model[10_001..30_001].fill(0);
    assert_eq!(read(bytes.device(), 0, 1 << 18), model);
    let mut buffer = Buffer::new(300);
    bytes.read(4000, 300, &mut buffer).unwrap();
    assert_eq!(buffer[..], model[4000..4300]);
    assert!(matches!(bytes.read((1 << 18) - 1, 2, &mut buffer), Err(Error::Range)));
}

/// Two threads change different bytes of the same sectors; neither loses any.
#[test]
fn threads_in_one_sector_lose_nothing() {
    let (memory, _) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 4096), 1 << 16);
    let bytes = Bytes::new(Arc::new(open(&memory)));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let bytes = &bytes;
            scope.spawn(move || {
                for round in 0..200u64 {
                    let offset = (round % 16) * 4096 + thread * 1024;
                    bytes.write(offset, 1024, &mut Buffer::copy_of(&[thread as u8 + 1; 1024])).unwrap();
                }
            });
        }
    });
    for (at, byte) in read(bytes.device(), 0, 1 << 16).into_iter().enumerate() {
        assert_eq!(usize::from(byte), at % 4096 / 1024 + 1, "byte {at}");
    }
}

/// Adds slot 1 and a digest that is for no segment to the metadata, as
/// `cryptsetup luksAddKey --unbound` does: with the key material of slot 0.
fn with_unbound_slot(memory: &Memory, priority: u8) -> Header {
    let Header::V2(mut header) = Header::read(memory).unwrap() else { panic!("LUKS2") };
    let mut slot = header.metadata.keyslots()[&0].clone();
    let size = slot.area.size;
    let offset = header.metadata.free_area(header.binary.size, size).unwrap();
    let mut bytes = memory.bytes();
    bytes.copy_within(slot.area.offset as usize..(slot.area.offset + size) as usize, offset as usize);
    memory.set(bytes);
    slot.area.offset = offset;
    let mut digest = header.metadata.digests()[&0].clone();
    digest.keyslots.clear();
    digest.segments.clear();
    header.metadata.set_digest(1, &digest);
    header.metadata.set_keyslot(1, &strongroom_format::luks::Keyslot { priority, ..slot }, 1);
    Header::V2(header)
}

#[test]
fn an_unbound_slot_opens_nothing_and_does_not_count() {
    let (memory, _) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 512), 4096);
    let engine = engine();
    let mut header = with_unbound_slot(&memory, 2);
    let bound = |header: &Header| -> Vec<(u32, bool)> {
        header.slots().iter().map(|info| (info.slot, info.is_bound)).collect()
    };
    assert_eq!(bound(&header), [(0, true), (1, false)]);
    assert_eq!(header.unlock(&*memory, &engine, b"secret", None).ok().map(|unlocked| unlocked.slot), Some(0));
    let wrong = header.unlock(&*memory, &engine, b"other", None).err();
    assert!(matches!(wrong, Some(Error::WrongPassphrase)), "{wrong:?}");
    let named = header.unlock(&*memory, &engine, b"secret", Some(1)).err();
    assert!(matches!(named, Some(Error::Unbound(1))), "{named:?}");
    // It is no second key: the one that opens the data is still the last.
    assert!(matches!(header.remove_slot(&*memory, 0, false), Err(Error::LastSlot)));
    header.remove_slot(&*memory, 1, false).unwrap();
    let Header::V2(again) = Header::read(&*memory).unwrap() else { panic!("LUKS2") };
    assert_eq!(again.metadata.digests().len(), 1, "the digest of nothing is gone");
    assert!(Header::V2(again).unlock(&*memory, &engine, b"secret", None).is_ok());
}

#[test]
fn slots_to_be_named_are_not_tried_and_preferred_ones_come_first() {
    let (memory, mut header) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, 512), 4096);
    let engine = engine();
    let key = header.unlock(&*memory, &engine, b"secret", None).unwrap().key;
    header.add_slot(&*memory, &engine, &key, b"secret", cheap(Version::Luks2), None).unwrap();
    let Header::V2(mut inner) = header else { panic!("LUKS2") };
    let mut set = |slot: u32, priority: u8| {
        let keyslot = inner.metadata.keyslots()[&slot].clone();
        inner.metadata.set_keyslot(slot, &strongroom_format::luks::Keyslot { priority, ..keyslot }, 0);
        let header = Header::V2(inner.clone());
        let opened = header.unlock(&*memory, &engine, b"secret", None).map(|unlocked| unlocked.slot);
        (opened, header.unlock(&*memory, &engine, b"secret", Some(0)).map(|unlocked| unlocked.slot).ok())
    };
    assert!(matches!(set(1, 2), (Ok(1), Some(0))));
    assert!(matches!(set(1, 0), (Ok(0), Some(0))));
    assert!(matches!(set(0, 0), (Err(Error::NoUsableSlot), Some(0))));
}

#[test]
fn data_is_never_put_on_its_own_header() {
    use strongroom_disk::header::NewHeader;
    for version in [Version::Luks1, Version::Luks2] {
        let new = new_header(version, "aes-xts-plain64", 512, 512);
        let (_, attached) = image(&new, 4096);
        let end = attached.segment_beside(true).unwrap().offset;
        let (_, detached) = image(&NewHeader { detached: true, ..new }, 17 << 20);
        assert_eq!(detached.segment_beside(false).unwrap().offset, 0);
        let refused = detached.segment_beside(true);
        assert!(
            matches!(refused, Err(Error::Overlap { data: 0, header_end }) if header_end <= end),
            "{refused:?}"
        );
    }
}
