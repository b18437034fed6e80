//! A file's bytes, block by block and shared between versions: blocks of
//! zeros are left out, so that a far sparse file costs what was written.

use std::collections::BTreeMap;
use std::sync::Arc;

use strongroom_engine::Buffer;
use strongroom_vault::Error;
use strongroom_vault::content::Content;

/// "No such data", which seeking past the last data gives.
const ENXIO: i32 = 6;

/// Bytes read at once.
const READ: usize = 1 << 20;

/// Content of a file. Two are equal when their bytes are: each block is as
/// long as the file lets it be, and none is all zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bytes {
    pub(crate) len: u64,
    size: u64,
    blocks: BTreeMap<u64, Arc<[u8]>>,
}

impl Bytes {
    /// An empty file in blocks of `size` bytes.
    pub(crate) fn empty(size: u64) -> Bytes {
        Bytes { len: 0, size, blocks: BTreeMap::new() }
    }

    fn len_of(&self, block: u64) -> usize {
        self.len.saturating_sub(block * self.size).min(self.size) as usize
    }

    fn put(&mut self, block: u64, bytes: Vec<u8>) {
        if bytes.iter().all(|&byte| byte == 0) {
            self.blocks.remove(&block);
        } else {
            self.blocks.insert(block, bytes.into());
        }
    }

    /// A block as it is, at its length.
    fn block(&self, block: u64) -> Vec<u8> {
        self.blocks.get(&block).map_or_else(|| vec![0; self.len_of(block)], |bytes| bytes.to_vec())
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        let old = self.len;
        self.len = len;
        self.blocks.split_off(&len.div_ceil(self.size));
        for edge in [old / self.size, len / self.size] {
            if let Some(bytes) = self.blocks.get(&edge) {
                let mut bytes = bytes.to_vec();
                bytes.resize(self.len_of(edge), 0);
                self.put(edge, bytes);
            }
        }
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        if offset + data.len() as u64 > self.len {
            self.set_len(offset + data.len() as u64);
        }
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let within = (at % self.size) as usize;
            let count = (self.size as usize - within).min(data.len() - done);
            let mut bytes = self.block(at / self.size);
            bytes[within..within + count].copy_from_slice(&data[done..done + count]);
            self.put(at / self.size, bytes);
            done += count;
        }
    }

    /// Makes a range zero, as far as the file goes.
    pub(crate) fn clear(&mut self, offset: u64, len: u64) {
        let end = (offset + len).min(self.len);
        for block in self.blocks.keys().copied().collect::<Vec<_>>() {
            let start = block * self.size;
            let (from, to) = (offset.max(start), end.min(start + self.size));
            if from < to {
                let mut bytes = self.block(block);
                bytes[(from - start) as usize..(to - start) as usize].fill(0);
                self.put(block, bytes);
            }
        }
    }

    /// Whether this is what stands from the first byte of a block on.
    pub(crate) fn is_at(&self, offset: u64, found: &[u8]) -> bool {
        let blocks = found.chunks(self.size as usize).zip(offset / self.size..);
        blocks.into_iter().all(|(bytes, block)| self.block(block) == bytes)
    }

    /// Reads a file: all its data, and the edges of its holes.
    pub(crate) fn read(content: &Content, size: u64) -> Result<Bytes, String> {
        let mut found = Bytes { len: content.plain_len(), size, blocks: BTreeMap::new() };
        let mut buffer = Buffer::new(READ.min(found.len as usize).max(1));
        let mut at = 0;
        while at < found.len {
            let data = match content.seek_data(at) {
                Err(Error::Refused(ENXIO)) => found.len,
                other => other.map_err(|error| format!("seeking data: {error}"))?,
            };
            for edge in [at, data.saturating_sub(1)].into_iter().filter(|edge| (at..data).contains(edge)) {
                let read = content.read_at(edge, 1, &mut buffer).map_err(|error| format!("hole: {error}"))?;
                if read != 1 || buffer[0] != 0 {
                    return Err(format!("a hole at {edge} reads as something"));
                }
            }
            at = data;
            let hole = if data < found.len { content.seek_hole(data) } else { Ok(data) };
            let hole = hole.map_err(|error| format!("seeking a hole: {error}"))?;
            while at < hole {
                let wanted = ((hole - at) as usize).min(READ);
                let read =
                    content.read_at(at, wanted, &mut buffer).map_err(|error| format!("read: {error}"))?;
                if read != wanted {
                    return Err(format!("{read} bytes of {wanted} at {at}"));
                }
                for (index, bytes) in buffer[..read].chunks(size as usize).enumerate() {
                    found.put(at / size + index as u64, bytes.to_vec());
                }
                at += read as u64;
            }
        }
        Ok(found)
    }
}
