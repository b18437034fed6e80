//! The work that is timed. Plain system calls in one thread, every block stamped with its place and every
//! read checked against it, so that a fast wrong answer does not count.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::random::Random;

/// Stamps stand at every multiple of this.
const BLOCK: usize = 4096;
const UNPACK_LIMIT: Duration = Duration::from_secs(600);

/// Writes a new file from front to back and syncs it. Timed: open, writes, fsync and close.
pub(super) fn write(path: &Path, length: u64, call: usize, data: &mut [u8]) -> Result<Duration> {
    let began = Instant::now();
    let file = File::create_new(path).context(path.display())?;
    let mut offset = 0;
    while offset < length {
        let piece = &mut data[..call];
        stamp(piece, offset);
        file.write_all_at(piece, offset)?;
        offset += call as u64;
    }
    file.sync_all()?;
    drop(file);
    Ok(began.elapsed())
}

/// Reads a file from front to back. Timed: open, reads and close.
pub(super) fn read(path: &Path, length: u64, call: usize, data: &mut [u8]) -> Result<Duration> {
    let began = Instant::now();
    let file = File::open(path).context(path.display())?;
    let mut offset = 0;
    while offset < length {
        let piece = &mut data[..call];
        file.read_exact_at(piece, offset)?;
        check(piece, offset)?;
        offset += call as u64;
    }
    drop(file);
    Ok(began.elapsed())
}

/// Reads blocks at random places. Timed: open, reads and close.
pub(super) fn read_random(path: &Path, length: u64, reads: u64, seed: u64) -> Result<Duration> {
    let mut random = Random::new(seed);
    let mut piece = [0; BLOCK];
    let began = Instant::now();
    let file = File::open(path).context(path.display())?;
    for _ in 0..reads {
        let offset = random.below(length / BLOCK as u64) * BLOCK as u64;
        file.read_exact_at(&mut piece, offset)?;
        check(&piece, offset)?;
    }
    drop(file);
    Ok(began.elapsed())
}

fn stamp(piece: &mut [u8], offset: u64) {
    for (index, block) in piece.chunks_exact_mut(BLOCK).enumerate() {
        block[..8].copy_from_slice(&(offset + (index * BLOCK) as u64).to_le_bytes());
    }
}

fn check(piece: &[u8], offset: u64) -> Result {
    for (index, block) in piece.chunks_exact(BLOCK).enumerate() {
        let place = offset + (index * BLOCK) as u64;
        ensure!(block[..8] == place.to_le_bytes(), "wrong contents at {place}");
    }
    Ok(())
}

/// An archive of small files to unpack, and what is in it.
pub(super) struct Archive {
    pub(super) file: PathBuf,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl Archive {
    /// Files of 1 to 16 KiB, twenty to a directory.
    pub(super) fn create(base: &Path, files: u64) -> Result<Self> {
        let tree = base.join("small");
        let mut random = Random::new(7);
        let mut bytes = 0;
        for index in 0..files {
            let directory = tree.join(format!("directory-{:03}", index / 20));
            if index % 20 == 0 {
                fs::create_dir_all(&directory)?;
            }
            let mut contents = vec![0; 1024 + random.below(15 * 1024 + 1) as usize];
            random.fill(&mut contents);
            bytes += contents.len() as u64;
            fs::write(directory.join(format!("file-{index:05}")), contents)?;
        }
        let file = base.join("small.tar");
        let mut command = Command::new("tar");
        command.arg("--create").arg("--file").arg(&file).arg("--directory").arg(base).arg("small");
        command::output(&mut command, UNPACK_LIMIT)?;
        fs::remove_dir_all(tree)?;
        Ok(Self { file, files, bytes })
    }

    /// Timed: the whole `tar` process, without a sync.
    pub(super) fn unpack(&self, directory: &Path) -> Result<Duration> {
        let mut command = Command::new("tar");
        command.arg("--extract").arg("--file").arg(&self.file).arg("--directory").arg(directory);
        let began = Instant::now();
        command::output(&mut command, UNPACK_LIMIT)?;
        Ok(began.elapsed())
    }

    /// Timed: listing the directories in order and reading every file whole.
    pub(super) fn read_back(&self, directory: &Path) -> Result<Duration> {
        let began = Instant::now();
        let (mut files, mut bytes) = (0, 0);
        for directory in sorted(&directory.join("small"))? {
            for file in sorted(&directory)? {
                bytes += fs::read(&file).context(file.display())?.len() as u64;
                files += 1;
            }
        }
        let took = began.elapsed();
        ensure!((files, bytes) == (self.files, self.bytes), "{files} files and {bytes} bytes came back");
        Ok(took)
    }
}

fn sorted(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut entries = fs::read_dir(directory)
        .context(directory.display())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_notice_a_block_in_the_wrong_place() -> Result {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("file");
        let mut data = vec![1; 4 * BLOCK];
        write(&path, 16 * BLOCK as u64, 4 * BLOCK, &mut data)?;
        read(&path, 16 * BLOCK as u64, BLOCK, &mut data)?;
        read_random(&path, 16 * BLOCK as u64, 50, 1)?;
        let mut block = vec![0; BLOCK];
        let file = File::options().read(true).write(true).open(&path)?;
        file.read_exact_at(&mut block, 0)?;
        file.write_all_at(&block, 5 * BLOCK as u64)?;
        assert!(read(&path, 16 * BLOCK as u64, BLOCK, &mut data).is_err());
        Ok(())
    }

    #[test]
    fn the_archive_holds_what_it_says() -> Result {
        let directory = tempfile::tempdir()?;
        let archive = Archive::create(directory.path(), 41)?;
        archive.unpack(directory.path())?;
        archive.read_back(directory.path())?;
        fs::remove_file(directory.path().join("small/directory-002/file-00040"))?;
        assert!(archive.read_back(directory.path()).is_err());
        Ok(())
    }
}
