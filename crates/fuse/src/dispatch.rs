//! From a decoded request to the file system's method and the encoded answer.

use crate::abi::directory::{DirectoryEntries, DirectoryEntriesPlus};
use crate::abi::reply::Body;
use crate::abi::request::{Operation, Request};
use crate::errno::Errno;
use crate::filesystem::{Context, CopyRange, Filesystem, Ioctl, NodeId, OpenFlags, Read, Release, Write};
use crate::forgets::Backlog;
use crate::node::{Entry, Opened};
use crate::pacing::prefetch::Touch;
use crate::statistics::Counters;
use strongroom_engine::{Buffer, Origin};

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing: the request has no reply.
    Silence,
    /// What is in the body.
    Body,
    /// This many bytes of the payload buffer.
    Payload(usize),
}

/// One request and what it is answered with.
pub(crate) struct Exchange<'a, F: ?Sized> {
    pub(crate) filesystem: &'a F,
    pub(crate) context: Context,
    pub(crate) node: NodeId,
    /// Bytes of payload received with it.
    pub(crate) payload_len: usize,
    pub(crate) payload: &'a mut Buffer,
    /// Empty at first.
    pub(crate) body: &'a mut Body,
    pub(crate) counters: &'a Counters,
    pub(crate) backlog: &'a Backlog,
    /// Nothing at first.
    pub(crate) touch: Touch,
}

const O_ACCMODE: u32 = 0o3;
const O_TRUNC: u32 = 0o1000;

type Answered = Result<Answer, Errno>;

impl<F: Filesystem + ?Sized> Exchange<'_, F> {
    /// Has the file system answer.
    pub(crate) fn answer(&mut self, request: &Request<'_>) -> Answered {
        match &request.operation {
            Operation::Forget { .. } | Operation::BatchForget(_) | Operation::Interrupt { .. } => {
                self.unasked(&request.operation)
            }
            Operation::Read(read) => self.read(read),
            Operation::Write(write) => self.write(write),
            Operation::ReadDir(read) => self.readdir(read),
            Operation::ReadDirPlus(read) => self.readdirplus(read),
            Operation::GetXattr { name, size } => self.getxattr(name, *size),
            Operation::ListXattr { size } => self.listxattr(*size),
            Operation::CopyFileRange { range, wide } => self.copy(range, *wide),
            Operation::Ioctl(ioctl) => self.ioctl(ioctl),
            operation => {
                self.on_name(operation).or_else(|| self.on_node(operation)).unwrap_or(Err(Errno::NOSYS))
            }
        }
    }

    /// Requests without a reply, or almost: the kernel waits for none to an
    /// interrupt, but two errors mean something to it.
    fn unasked(&mut self, operation: &Operation<'_>) -> Answered {
        match operation {
            Operation::Forget { lookups } => self.filesystem.forget(self.node, *lookups),
            Operation::BatchForget(forgets) => {
                self.backlog.forget(*forgets, |node, lookups| self.filesystem.forget(node, lookups));
            }
            Operation::Interrupt { unique } => match self.filesystem.interrupt(*unique) {
                Err(errno @ (Errno::NOSYS | Errno::AGAIN)) => return Err(errno),
                _ => return Ok(Answer::Silence),
            },
            _ => {}
        }
        Ok(Answer::Silence)
    }

    /// Requests that name something in a directory.
    fn on_name(&mut self, operation: &Operation<'_>) -> Option<Answered> {
        let (filesystem, context, node) = (self.filesystem, &self.context, self.node);
        let entry = match operation {
            Operation::Lookup { name } => filesystem.lookup(context, node, name),
            Operation::SymLink { name, target } => filesystem.symlink(context, node, name, target),
            Operation::MkNod { name, mode } => filesystem.mknod(context, node, name, mode),
            Operation::MkDir { name, mode } => filesystem.mkdir(context, node, name, mode),
            Operation::Link { node: target, new_name } => filesystem.link(context, *target, node, new_name),
            Operation::Create { name, mode, flags } => {
                let made = filesystem.create(context, node, name, mode, *flags);
                return Some(made.map(|made| self.made(made, *flags)));
            }
            Operation::TmpFile { mode, flags } => {
                let made = filesystem.tmpfile(context, node, mode, *flags);
                return Some(made.map(|made| self.made(made, *flags)));
            }
            Operation::Unlink { name } => return Some(done(filesystem.unlink(context, node, name))),
            Operation::RmDir { name } => return Some(done(filesystem.rmdir(context, node, name))),
            Operation::Rename(rename) => return Some(done(filesystem.rename(context, rename))),
            _ => return None,
        };
        Some(entry.map(|entry| {
            self.body.entry(&entry);
            Answer::Body
        }))
    }

    /// Requests on a node or an open file.
    fn on_node(&mut self, operation: &Operation<'_>) -> Option<Answered> {
        let (filesystem, context, node) = (self.filesystem, &self.context, self.node);
        let body = &mut *self.body;
        Some(match operation {
            Operation::GetAttr { handle } => {
                filesystem.getattr(context, node, *handle).map(|timed| body.attributes(&timed)).map(sent)
            }
            Operation::SetAttr(change) => {
                if change.size.is_some() {
                    self.touch = Touch::Resized(node);
                }
                filesystem.setattr(context, node, change).map(|timed| body.attributes(&timed)).map(sent)
            }
            Operation::Statx { handle } => {
                filesystem.statx(context, node, *handle).map(|statx| body.statx(&statx)).map(sent)
            }
            Operation::StatFs => filesystem.statfs(context, node).map(|space| body.space(&space)).map(sent),
            Operation::ReadLink => filesystem.readlink(context, node, body.raw()).map(sent),
            Operation::Open(flags) => {
                self.touch = opened(node, *flags);
                filesystem.open(context, node, *flags).map(|opened| body.opened(&opened)).map(sent)
            }
            Operation::OpenDir(flags) => {
                filesystem.opendir(context, node, *flags).map(|opened| body.opened(&opened)).map(sent)
            }
            Operation::Lseek(seek) => {
                filesystem.lseek(context, node, seek).map(|offset| body.offset(offset)).map(sent)
            }
            Operation::Flush { handle } => done(filesystem.flush(context, node, *handle)),
            Operation::Release(release) => {
                self.touch = closed(node, release);
                done(filesystem.release(context, node, release))
            }
            Operation::ReleaseDir(release) => done(filesystem.releasedir(context, node, release)),
            Operation::Fsync { handle, data_only } => {
                done(filesystem.fsync(context, node, *handle, *data_only))
            }
            Operation::FsyncDir { handle, data_only } => {
                done(filesystem.fsyncdir(context, node, *handle, *data_only))
            }
            Operation::SetXattr(attribute) => done(filesystem.setxattr(context, node, attribute)),
            Operation::RemoveXattr { name } => done(filesystem.removexattr(context, node, name)),
            Operation::Access { mask } => done(filesystem.access(context, node, *mask)),
            Operation::Fallocate(allocate) => done(filesystem.fallocate(context, node, allocate)),
            Operation::SyncFs => done(filesystem.syncfs(context, node)),
            Operation::Destroy => Ok(Answer::Body),
            _ => return None,
        })
    }

    fn made(&mut self, (entry, made): (Entry, Opened), flags: OpenFlags) -> Answer {
        self.touch = opened(entry.node, flags);
        self.body.entry(&entry);
        self.body.opened(&made);
        Answer::Body
    }

    fn read(&mut self, read: &Read) -> Answered {
        if read.size > self.payload.len() {
            return Err(Errno::INVAL);
        }
        Origin::serves(self.context.pid, read.size as u64);
        let len = self.filesystem.read(&self.context, self.node, read, self.payload)?;
        if len > read.size || len > self.payload.len() {
            return Err(Errno::IO);
        }
        self.counters.read(len);
        if len == read.size {
            self.touch = Touch::Read(self.node, *read);
        }
        Ok(Answer::Payload(len))
    }

    fn write(&mut self, write: &Write) -> Answered {
        if write.len != self.payload_len {
            return Err(Errno::INVAL);
        }
        let len = self.filesystem.write(&self.context, self.node, write, self.payload)?;
        if len > write.len {
            return Err(Errno::IO);
        }
        self.counters.written(len);
        // Not above `write.len`, which came in 32 bits.
        self.body.count(len as u32);
        Ok(Answer::Body)
    }

    fn readdir(&mut self, read: &Read) -> Answered {
        let room = self.payload.get_mut(..read.size).ok_or(Errno::INVAL)?;
        let mut entries = DirectoryEntries::new(room);
        self.filesystem.readdir(&self.context, self.node, read.handle, read.offset, &mut entries)?;
        Ok(Answer::Payload(entries.used()))
    }

    fn readdirplus(&mut self, read: &Read) -> Answered {
        let room = self.payload.get_mut(..read.size).ok_or(Errno::INVAL)?;
        let mut entries = DirectoryEntriesPlus::new(room);
        self.filesystem.readdirplus(&self.context, self.node, read.handle, read.offset, &mut entries)?;
        Ok(Answer::Payload(entries.used()))
    }

    fn getxattr(&mut self, name: &[u8], size: usize) -> Answered {
        self.filesystem.getxattr(&self.context, self.node, name, self.body.raw())?;
        self.sized(size)
    }

    fn listxattr(&mut self, size: usize) -> Answered {
        self.filesystem.listxattr(&self.context, self.node, self.body.raw())?;
        self.sized(size)
    }

    /// The body as it is when it fits `size`, or for a size of 0 its length.
    fn sized(&mut self, size: usize) -> Answered {
        let len = self.body.bytes().len();
        if size == 0 {
            self.body.clear();
            self.body.count(u32::try_from(len).map_err(|_| Errno::RANGE)?);
        } else if len > size {
            return Err(Errno::RANGE);
        }
        Ok(Answer::Body)
    }

    fn copy(&mut self, range: &CopyRange, wide: bool) -> Answered {
        let mut range = *range;
        if !wide {
            // The answer holds 32 bits, and a short copy is a good one.
            range.len = range.len.min(u64::from(u32::MAX) & !0xfff);
        }
        let copied = self.filesystem.copy_file_range(&self.context, self.node, &range)?.min(range.len);
        match u32::try_from(copied) {
            Ok(count) if !wide => self.body.count(count),
            _ => self.body.offset(copied),
        }
        Ok(Answer::Body)
    }

    fn ioctl(&mut self, ioctl: &Ioctl<'_>) -> Answered {
        self.body.ioctl_space();
        let before = self.body.bytes().len();
        let result = self.filesystem.ioctl(&self.context, self.node, ioctl, self.body.raw())?;
        if self.body.bytes().len() - before > ioctl.output_len as usize {
            return Err(Errno::OVERFLOW);
        }
        self.body.ioctl_result(result);
        Ok(Answer::Body)
    }
}

/// What opening a file does to it.
fn opened(node: NodeId, flags: OpenFlags) -> Touch {
    match flags.flags {
        flags if flags & O_ACCMODE != 0 => Touch::Opened(node),
        // Linux truncates for readers, too.
        flags if flags & O_TRUNC != 0 => Touch::Resized(node),
        _ => Touch::Nothing,
    }
}

/// What giving back a handle does to its file.
fn closed(node: NodeId, release: &Release) -> Touch {
    if release.flags & O_ACCMODE == 0 { Touch::Nothing } else { Touch::Closed(node) }
}

/// The answer of a method that has no more to say than that it succeeded.
fn done(result: Result<(), Errno>) -> Answered {
    result.map(sent)
}

fn sent((): ()) -> Answer {
    Answer::Body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::Handle;

    #[test]
    fn whoever_may_write_or_cuts_touches_what_is_cached() {
        let touch = |flags| opened(NodeId(7), OpenFlags { flags, kill_suid_sgid: false });
        assert_eq!(touch(0), Touch::Nothing);
        for flags in [0o1, 0o2, 0o3, 0o2001, 0o1002] {
            assert_eq!(touch(flags), Touch::Opened(NodeId(7)));
        }
        assert_eq!(touch(O_TRUNC), Touch::Resized(NodeId(7)));
        let released = |flags| closed(NodeId(7), &Release { handle: Handle(0), flags });
        assert_eq!((released(0), released(0o2)), (Touch::Nothing, Touch::Closed(NodeId(7))));
    }
}
