//! Images in memory that can fail, engines, and cheap headers.

#![allow(dead_code)] // each test binary uses its own part

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use strongroom_disk::header::{NewHeader, Version};
use strongroom_disk::{Backing, Header};
use strongroom_engine::Engine;
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_format::luks::{CipherSpec, Hash, Kdf};
use strongroom_sched::Scheduler;

/// The engines as the program composes them.
pub(crate) fn engine() -> Arc<dyn Engine> {
    Arc::new(Scheduler::fixed(Arc::new(CpuEngine::new()), Arc::new(ReferenceEngine)))
}

/// Bytes in memory, with faults.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    bytes: Mutex<Vec<u8>>,
    pub(crate) fail_reads: AtomicBool,
    pub(crate) fail_writes: AtomicBool,
    pub(crate) fail_syncs: AtomicBool,
    /// Writes that are still carried out; those after are lost, as in a power
    /// cut.
    pub(crate) writes_left: AtomicU64,
    pub(crate) syncs: AtomicU64,
}

impl Memory {
    pub(crate) fn new(len: usize) -> Arc<Memory> {
        let writes_left = AtomicU64::new(u64::MAX);
        Arc::new(Memory { bytes: Mutex::new(vec![0; len]), writes_left, ..Memory::default() })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    pub(crate) fn set(&self, bytes: Vec<u8>) {
        *self.bytes.lock().unwrap() = bytes;
    }

    pub(crate) fn flip(&self, at: usize) {
        self.bytes.lock().unwrap()[at] ^= 0x40;
    }

    fn fault(fault: &AtomicBool) -> io::Result<()> {
        if fault.load(Ordering::Relaxed) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

impl Backing for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        Memory::fault(&self.fail_reads)?;
        let all = self.bytes.lock().unwrap();
        let there = all.get(offset as usize..).and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        Memory::fault(&self.fail_writes)?;
        let left = self.writes_left.load(Ordering::Relaxed);
        if left == 0 {
            return Ok(());
        }
        self.writes_left.store(left - 1, Ordering::Relaxed);
        self.bytes.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Memory::fault(&self.fail_syncs)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap()[offset as usize..][..len as usize].fill(0);
        Ok(())
    }

    fn allocated(&self, offset: u64, len: u64) -> io::Result<(u64, bool)> {
        let all = self.bytes.lock().unwrap();
        let sector = |at: u64| all[at as usize..][..512].iter().any(|&byte| byte != 0);
        let first = sector(offset);
        let alike = (0..len / 512).take_while(|index| sector(offset + index * 512) == first).count();
        Ok((alike as u64 * 512, first))
    }
}

/// The cheapest KDF for a version.
pub(crate) fn cheap(version: Version) -> Kdf {
    match version {
        Version::Luks1 => Kdf::pbkdf2(Hash::Sha256, 1000).unwrap(),
        Version::Luks2 => Kdf::argon2(strongroom_format::luks::kdf::Argon2Kind::Id, 4, 32, 1).unwrap(),
    }
}

pub(crate) fn new_header(version: Version, cipher: &str, key_bits: u32, sector_size: u32) -> NewHeader {
    NewHeader {
        version,
        cipher: CipherSpec::parse(cipher).unwrap(),
        key_len: key_bits / 8,
        sector_size,
        hash: Hash::Sha256,
        label: "test".to_owned(),
        uuid: None,
        detached: false,
    }
}

/// An image with `data` bytes behind a new header that opens with `secret`.
pub(crate) fn image(new: &NewHeader, data: usize) -> (Arc<Memory>, Header) {
    let memory = Memory::new(new.data_offset() as usize + data);
    let header = new.create(&*memory, &engine(), b"secret", cheap(new.version)).unwrap();
    (memory, header)
}
