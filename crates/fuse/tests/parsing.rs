//! Decoding of requests, by the offsets of the protocol and under any bytes.

use proptest::prelude::*;
use strongroom_fuse::abi::request::{Operation, ParseError, Request, parse};
use strongroom_fuse::abi::{Opcode, REQUEST_HEADER_LEN};
use strongroom_fuse::{
    Allocate, Context, CopyRange, CreateMode, Handle, Ioctl, NodeId, OpenFlags, Read, Release, Rename, Seek,
    SetAttributes, SetTime, SetXattr, Timestamp, Write,
};

const NODE: NodeId = NodeId(0x0102_0304_0506_0708);
const CONTEXT: Context = Context { unique: 77, uid: 1000, gid: 100, pid: 4242 };

/// Fields of a message, one after the other.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u32(mut self, value: u32) -> Fields {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Fields {
        self.0.extend_from_slice(&value.to_ne_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> Fields {
        self.0.extend_from_slice(bytes);
        self
    }
}

fn fields() -> Fields {
    Fields::default()
}

fn message(opcode: Opcode, arguments: &Fields) -> Vec<u8> {
    let header = fields()
        .u32((REQUEST_HEADER_LEN + arguments.0.len()) as u32)
        .u32(opcode.raw())
        .u64(CONTEXT.unique)
        .u64(NODE.0)
        .u32(CONTEXT.uid)
        .u32(CONTEXT.gid)
        .u32(CONTEXT.pid)
        .u32(0);
    [header.0, arguments.0.clone()].concat()
}

/// Parses to `expected`, and every shorter message is an error.
fn check(opcode: Opcode, arguments: &Fields, expected: &Operation<'_>) {
    let bytes = message(opcode, arguments);
    let Request { header, operation } = parse(&bytes).unwrap();
    assert_eq!((header.node, header.context), (NODE, CONTEXT));
    assert_eq!(operation, *expected, "{}", opcode.name());
    for len in 0..bytes.len().min(80) {
        assert!(parse(&bytes[..len]).is_err(), "{} cut to {len}", opcode.name());
    }
}

#[test]
fn names() {
    check(Opcode::Lookup, &fields().bytes(b"a\0"), &Operation::Lookup { name: b"a" });
    check(Opcode::Unlink, &fields().bytes(b"a\0"), &Operation::Unlink { name: b"a" });
    check(Opcode::RmDir, &fields().bytes(b"a\0"), &Operation::RmDir { name: b"a" });
    let target = Operation::SymLink { name: b"a", target: b"../b" };
    check(Opcode::SymLink, &fields().bytes(b"a\0../b\0"), &target);
    let link = Operation::Link { node: NodeId(9), new_name: b"a" };
    check(Opcode::Link, &fields().u64(9).bytes(b"a\0"), &link);
    let rename = Rename { parent: NODE, name: b"a", new_parent: NodeId(9), new_name: b"bc", flags: 0 };
    check(Opcode::Rename, &fields().u64(9).bytes(b"a\0bc\0"), &Operation::Rename(rename));
    let rename = Rename { flags: 2, ..rename };
    check(Opcode::Rename2, &fields().u64(9).u32(2).u32(0).bytes(b"a\0bc\0"), &Operation::Rename(rename));
    for (name, error) in
        [(&b"a/b\0"[..], ParseError::Name), (b"\0", ParseError::Name), (b"abc", ParseError::Unterminated)]
    {
        assert_eq!(parse(&message(Opcode::Lookup, &fields().bytes(name))), Err(error));
    }
}

#[test]
fn new_nodes() {
    let mode = CreateMode { mode: 0o20_666, umask: 0o22, rdev: 0x103 };
    let mknod = fields().u32(0o20_666).u32(0x103).u32(0o22).u32(0).bytes(b"n\0");
    check(Opcode::MkNod, &mknod, &Operation::MkNod { name: b"n", mode });
    let mode = CreateMode { mode: 0o040_755, umask: 0o22, rdev: 0 };
    let mkdir = fields().u32(0o755).u32(0o22).bytes(b"n\0");
    check(Opcode::MkDir, &mkdir, &Operation::MkDir { name: b"n", mode });
    let mode = CreateMode { mode: 0o100_644, umask: 0o22, rdev: 0 };
    let flags = OpenFlags { flags: 0o102, kill_suid_sgid: true };
    let create = fields().u32(0o102).u32(0o100_644).u32(0o22).u32(1).bytes(b"n\0");
    check(Opcode::Create, &create, &Operation::Create { name: b"n", mode, flags });
    let tmpfile = fields().u32(0o102).u32(0o100_644).u32(0o22).u32(1);
    check(Opcode::TmpFile, &tmpfile, &Operation::TmpFile { mode, flags });
}

#[test]
fn open_files() {
    let flags = OpenFlags { flags: 0o2, kill_suid_sgid: false };
    check(Opcode::Open, &fields().u32(0o2).u32(0), &Operation::Open(flags));
    check(Opcode::OpenDir, &fields().u32(0o2).u32(0), &Operation::OpenDir(flags));
    let read = Read { handle: Handle(5), offset: 4096, size: 8192, flags: 0o2 };
    let arguments = fields().u64(5).u64(4096).u32(8192).u32(2).u64(6).u32(0o2).u32(0);
    for (opcode, operation) in [
        (Opcode::Read, Operation::Read(read)),
        (Opcode::ReadDir, Operation::ReadDir(read)),
        (Opcode::ReadDirPlus, Operation::ReadDirPlus(read)),
    ] {
        let bytes = message(opcode, &arguments);
        assert_eq!(parse(&bytes).unwrap().operation, operation);
    }
    let release = Release { handle: Handle(5), flags: 0o2 };
    let arguments = fields().u64(5).u32(0o2).u32(0).u64(0);
    assert_eq!(parse(&message(Opcode::Release, &arguments)).unwrap().operation, Operation::Release(release));
    let fsync = Operation::Fsync { handle: Handle(5), data_only: true };
    assert_eq!(parse(&message(Opcode::Fsync, &fields().u64(5).u32(1).u32(0))).unwrap().operation, fsync);
    let seek = Seek { handle: Handle(5), offset: 6, whence: 4 };
    let arguments = fields().u64(5).u64(6).u32(4).u32(0);
    assert_eq!(parse(&message(Opcode::Lseek, &arguments)).unwrap().operation, Operation::Lseek(seek));
    let allocate = Allocate { handle: Handle(5), offset: 6, len: 7, mode: 3 };
    let arguments = fields().u64(5).u64(6).u64(7).u32(3).u32(0);
    let bytes = message(Opcode::Fallocate, &arguments);
    assert_eq!(parse(&bytes).unwrap().operation, Operation::Fallocate(allocate));
    let range = CopyRange {
        handle: Handle(1),
        offset: 2,
        to_node: NodeId(3),
        to_handle: Handle(4),
        to_offset: 5,
        len: 6,
    };
    let arguments = fields().u64(1).u64(2).u64(3).u64(4).u64(5).u64(6).u64(0);
    for (opcode, wide) in [(Opcode::CopyFileRange, false), (Opcode::CopyFileRange64, true)] {
        let bytes = message(opcode, &arguments);
        assert_eq!(parse(&bytes).unwrap().operation, Operation::CopyFileRange { range, wide });
    }
}

#[test]
fn a_write_is_known_by_its_first_eighty_bytes() {
    let arguments = fields().u64(5).u64(4096).u32(3).u32(0b101).u64(6).u32(0o2).u32(0).bytes(b"abc");
    let bytes = message(Opcode::Write, &arguments);
    let write =
        Write { handle: Handle(5), offset: 4096, len: 3, flags: 0o2, cached: true, kill_suid_sgid: true };
    for len in [80, 83] {
        assert_eq!(parse(&bytes[..len]).unwrap().operation, Operation::Write(write));
    }
    check(Opcode::Write, &arguments, &Operation::Write(write));
    let mut promises_more = bytes.clone();
    promises_more[56..60].copy_from_slice(&4u32.to_ne_bytes());
    assert_eq!(parse(&promises_more), Err(ParseError::Length));
}

#[test]
fn attributes() {
    let setattr = |valid: u32| {
        fields()
            .u32(valid)
            .u32(0)
            .u64(5)
            .u64(1000)
            .u64(6)
            .u64(-2i64 as u64)
            .u64(3)
            .u64(4)
            .u32(20)
            .u32(30)
            .u32(40)
            .u32(0o100_600)
            .u32(0)
            .u32(50)
            .u32(60)
            .u32(0)
    };
    let bytes = message(Opcode::SetAttr, &setattr(1 << 9));
    assert_eq!(parse(&bytes).unwrap().operation, Operation::SetAttr(SetAttributes::default()));
    let all = SetAttributes {
        handle: Some(Handle(5)),
        mode: Some(0o100_600),
        uid: Some(50),
        gid: Some(60),
        size: Some(1000),
        atime: Some(SetTime::At(Timestamp { seconds: -2, nanoseconds: 20 })),
        mtime: Some(SetTime::Now),
        ctime: Some(Timestamp { seconds: 4, nanoseconds: 40 }),
        kill_suid_sgid: true,
    };
    let bytes = message(Opcode::SetAttr, &setattr(0b1101_0111_1111 | 1 << 8));
    assert_eq!(parse(&bytes).unwrap().operation, Operation::SetAttr(all));
    let getattr = fields().u32(1).u32(0).u64(5);
    check(Opcode::GetAttr, &getattr, &Operation::GetAttr { handle: Some(Handle(5)) });
    let statx = fields().u32(0).u32(0).u64(5).u32(0).u32(0xfff);
    let bytes = message(Opcode::Statx, &statx);
    assert_eq!(parse(&bytes).unwrap().operation, Operation::Statx { handle: None });
}

#[test]
fn extended_attributes_and_controls() {
    let attribute = SetXattr { name: b"user.a", value: b"vw", flags: 2, acl_kill_sgid: true };
    let arguments = fields().u32(2).u32(2).u32(1).u32(0).bytes(b"user.a\0vw");
    check(Opcode::SetXattr, &arguments, &Operation::SetXattr(attribute));
    let promises_more = fields().u32(3).u32(2).u32(1).u32(0).bytes(b"user.a\0vw");
    assert_eq!(parse(&message(Opcode::SetXattr, &promises_more)), Err(ParseError::Truncated));
    let getxattr = fields().u32(100).u32(0).bytes(b"user.a\0");
    check(Opcode::GetXattr, &getxattr, &Operation::GetXattr { name: b"user.a", size: 100 });
    let ioctl = Ioctl {
        handle: Handle(5),
        flags: 1,
        command: 0x8008_6601,
        argument: 99,
        input: b"in",
        output_len: 8,
    };
    let arguments = fields().u64(5).u32(1).u32(0x8008_6601).u64(99).u32(2).u32(8).bytes(b"in");
    check(Opcode::Ioctl, &arguments, &Operation::Ioctl(ioctl));
}

#[test]
fn forgets_are_as_many_as_there_are() {
    let arguments = fields().u32(2).u32(0).u64(10).u64(1).u64(20).u64(2);
    let bytes = message(Opcode::BatchForget, &arguments);
    let Operation::BatchForget(forgets) = parse(&bytes).unwrap().operation else { panic!() };
    assert_eq!(forgets.len(), 2);
    assert_eq!(forgets.collect::<Vec<_>>(), [(NodeId(10), 1), (NodeId(20), 2)]);
    let promises_more = fields().u32(3).u32(0).u64(10).u64(1).u64(20).u64(2);
    assert_eq!(parse(&message(Opcode::BatchForget, &promises_more)), Err(ParseError::Length));
}

#[test]
fn extensions_behind_the_arguments_are_left_out() {
    let mut bytes = message(Opcode::Lookup, &fields().bytes(b"a\0......").u64(1));
    bytes[36..38].copy_from_slice(&1u16.to_ne_bytes());
    assert_eq!(parse(&bytes).unwrap().operation, Operation::Lookup { name: b"a" });
    bytes[36..38].copy_from_slice(&100u16.to_ne_bytes());
    assert!(parse(&bytes).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_an_error(
        opcode in 0u32..60,
        honest in any::<bool>(),
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        if let Some(field) = bytes.get_mut(4..8) {
            field.copy_from_slice(&opcode.to_ne_bytes());
        }
        let len = bytes.len() as u32;
        if let Some(field) = bytes.get_mut(..4).filter(|_| honest) {
            field.copy_from_slice(&len.to_ne_bytes());
        }
        if let Some(field) = bytes.get_mut(36..38).filter(|_| honest) {
            field.fill(0);
        }
        if let Ok(Request { operation: Operation::BatchForget(forgets), .. }) = parse(&bytes) {
            prop_assert!(16 * forgets.count() <= bytes.len());
        }
    }
}
