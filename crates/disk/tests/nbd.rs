//! The NBD server as a client sees it, byte by byte.

mod support;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use strongroom_disk::header::Version;
use strongroom_disk::nbd::protocol::{command, flag, option, reply, transmission};
use strongroom_disk::nbd::{Server, ServerHandle};
use strongroom_disk::{Backing, Device, Header, Volume, VolumeOptions};
use support::{Memory, engine, image, new_header};

const LEN: u64 = 8 << 20;
/// No test waits longer for an answer.
const LIMIT: Duration = Duration::from_secs(30);

struct Served {
    memory: Arc<Memory>,
    handle: ServerHandle,
    server: Option<JoinHandle<()>>,
    directory: tempfile::TempDir,
}

impl Served {
    fn new(sector: u32, options: VolumeOptions) -> Served {
        let (memory, _) = image(&new_header(Version::Luks2, "aes-xts-plain64", 512, sector), LEN as usize);
        let header = Header::read(&*memory).unwrap();
        let engine = engine();
        let key = header.unlock(&*memory, &engine, b"secret", None).unwrap().key;
        let backing = Arc::clone(&memory) as Arc<dyn Backing>;
        let volume = Volume::open(&engine, backing, header.segment().unwrap(), &key, options).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let device = Arc::new(volume) as Arc<dyn Device>;
        let server = Server::bind(&directory.path().join("s"), device).unwrap();
        let handle = server.handle();
        let server = Some(std::thread::spawn(move || server.run()));
        Served { memory, handle, server, directory }
    }

    fn connect(&self) -> Client {
        let stream = UnixStream::connect(self.directory.path().join("s")).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut client = Client { stream, structured: false };
        assert_eq!(&client.take::<18>()[..16], b"NBDMAGICIHAVEOPT");
        client.send(&3u32.to_be_bytes());
        client
    }

    fn ready(&self, structured: bool) -> Client {
        let mut client = self.connect();
        if structured {
            assert_eq!(client.option(option::STRUCTURED_REPLY, &[])[0].0, reply::ACK);
            let context = [&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 15][..], b"base:allocation"].concat();
            let answers = client.option(option::SET_META_CONTEXT, &context);
            assert_eq!(answers[0], (reply::META_CONTEXT, [&[0, 0, 0, 1][..], b"base:allocation"].concat()));
            client.structured = true;
        }
        client.option(option::GO, &[0; 6]);
        client
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.stop();
        self.server.take().unwrap().join().unwrap();
        assert!(!self.directory.path().join("s").exists(), "the socket goes with its server");
    }
}

struct Client {
    stream: UnixStream,
    structured: bool,
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        self.bytes(N).try_into().unwrap()
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }

    /// Sends an option and gives its answers up to the last.
    fn option(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.send(&bytes);
        let mut answers = Vec::new();
        loop {
            assert_eq!((self.u64(), self.u32()), (0x0003_e889_0455_65a9, number));
            let (kind, len) = (self.u32(), self.u32());
            answers.push((kind, self.bytes(len as usize)));
            if kind == reply::ACK || kind >= 1 << 31 {
                return answers;
            }
        }
    }

    fn request(&mut self, flags: u16, command: u16, cookie: u64, offset: u64, len: u32, payload: &[u8]) {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(&flags.to_be_bytes());
        bytes.extend_from_slice(&command.to_be_bytes());
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(payload);
        self.send(&bytes);
    }

    /// One reply to a request without data: its cookie and error.
    fn plain(&mut self) -> (u64, u32) {
        if !self.structured {
            assert_eq!(self.u32(), 0x6744_6698);
            let error = self.u32();
            return (self.u64(), error);
        }
        let (kind, cookie, payload) = self.chunk();
        match kind {
            0 => (cookie, 0),
            0x8001 => (cookie, u32::from_be_bytes(payload[..4].try_into().unwrap())),
            other => panic!("chunk {other}"),
        }
    }

    /// One chunk: kind, cookie, payload.
    fn chunk(&mut self) -> (u16, u64, Vec<u8>) {
        assert_eq!(self.u32(), 0x668e_33ef);
        let head: [u8; 4] = self.take();
        let (cookie, len) = (self.u64(), self.u32());
        (u16::from_be_bytes([head[2], head[3]]), cookie, self.bytes(len as usize))
    }

    fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        self.request(0, command::READ, 7, offset, len, &[]);
        if !self.structured {
            return match self.plain() {
                (7, 0) => Ok(self.bytes(len as usize)),
                (_, error) => Err(error),
            };
        }
        let mut data = Vec::new();
        while data.len() < len as usize {
            match self.chunk() {
                (1, 7, payload) => {
                    assert_eq!(payload[..8], (offset + data.len() as u64).to_be_bytes());
                    data.extend_from_slice(&payload[8..]);
                }
                (0x8001, 7, payload) => return Err(u32::from_be_bytes(payload[..4].try_into().unwrap())),
                other => panic!("{other:?}"),
            }
        }
        Ok(data)
    }

    fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> u32 {
        self.request(flags, command::WRITE, 8, offset, data.len() as u32, data);
        self.plain().1
    }

    /// A request without data.
    fn other(&mut self, flags: u16, command: u16, offset: u64, len: u32) -> u32 {
        self.request(flags, command, 9, offset, len, &[]);
        self.plain().1
    }

    fn is_closed(&mut self) -> bool {
        !matches!(self.stream.read(&mut [0]), Ok(count) if count > 0)
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

const DISCARD: VolumeOptions = VolumeOptions { read_only: false, discard: true };

#[test]
fn options_are_answered() {
    let served = Served::new(4096, DISCARD);
    let mut client = served.connect();
    assert_eq!(client.option(option::LIST, &[])[0], (reply::SERVER, vec![0; 4]));
    assert_eq!(client.option(5, &[])[0].0, reply::ERR_UNSUP, "STARTTLS");
    assert_eq!(client.option(99, &[1, 2, 3])[0].0, reply::ERR_UNSUP);
    assert_eq!(client.option(option::SET_META_CONTEXT, &[0; 8])[0].0, reply::ERR_INVALID, "not structured");
    for malformed in [&[][..], &[0; 5], &[0, 0, 0, 9, 1, 0, 0], &[0, 0, 0, 0, 0, 2, 0, 1], &[255; 6]] {
        assert_eq!(client.option(option::INFO, malformed)[0].0, reply::ERR_INVALID, "{malformed:?}");
    }
    assert_eq!(client.option(option::GO, b"\0\0\0\x01x\0\0")[0].0, reply::ERR_UNKNOWN);
    let answers = client.option(option::INFO, &[0; 6]);
    let flags = u16::from_be_bytes([answers[0].1[10], answers[0].1[11]]);
    assert_eq!(answers[0].1[2..10], LEN.to_be_bytes());
    assert_eq!(flags & transmission::SEND_TRIM, transmission::SEND_TRIM);
    assert_eq!(flags & transmission::READ_ONLY, 0);
    assert_eq!(answers[1].1[2..6], 4096u32.to_be_bytes());
    client.option(option::ABORT, &[]);
    assert!(client.is_closed());
    // The old way to begin.
    let mut client = served.connect();
    client.send(&[&b"IHAVEOPT\0\0\0\x01\0\0\0\0"[..]].concat());
    assert_eq!(client.u64(), LEN);
    let _flags: [u8; 2] = client.take();
    assert_eq!(client.read(0, 4096).unwrap().len(), 4096);
}

#[test]
fn a_client_that_breaks_the_protocol_is_left_and_others_are_served() {
    let served = Served::new(512, VolumeOptions::default());
    let mut good = served.ready(false);
    let mut bad = served.connect();
    bad.send(b"GET / HTTP/1.1\r\n\r\n");
    assert!(bad.is_closed());
    let mut bad = served.connect();
    bad.send(b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff");
    assert!(bad.is_closed());
    let mut bad = served.ready(false);
    bad.send(&[0; 28]);
    assert!(bad.is_closed());
    let mut bad = served.ready(false);
    bad.request(0, command::READ, 1, 0, u32::MAX, &[]);
    assert!(bad.is_closed());
    let mut gone = served.ready(true);
    gone.request(0, command::WRITE, 1, 0, 4096, &[1; 100]);
    drop(gone);
    assert_eq!(good.write(0, 0, &pattern(512, 1)), 0);
    assert_eq!(good.read(0, 512), Ok(pattern(512, 1)));
}

#[test]
fn data_comes_back_in_every_size_and_both_ways() {
    for structured in [false, true] {
        let served = Served::new(4096, VolumeOptions::default());
        let (mut one, mut two) = (served.ready(structured), served.ready(!structured));
        for (round, len) in [4096usize, 8192, 1 << 20, (1 << 20) + 4096, 5 << 20].into_iter().enumerate() {
            let data = pattern(len, round as u8);
            assert_eq!(one.write(0, 4096, &data), 0, "{len}");
            assert!(two.read(4096, len as u32).as_ref() == Ok(&data), "{len}: on the other connection");
            assert!(one.read(4096, len as u32).as_ref() == Ok(&data), "{len}");
        }
        assert_eq!(one.read(0, 0).map(|data| data.len()), Ok(0));
    }
}

#[test]
fn many_requests_in_flight_are_all_answered() {
    let served = Served::new(512, VolumeOptions::default());
    let mut client = served.ready(false);
    for cookie in 0..200u64 {
        let data = pattern(4096, cookie as u8);
        client.request(0, command::WRITE, cookie, cookie * 4096, 4096, &data);
    }
    let mut seen: Vec<u64> =
        (0..200).map(|_| client.plain()).inspect(|r| assert_eq!(r.1, 0)).map(|r| r.0).collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..200));
    for cookie in 0..200u64 {
        client.request(0, command::READ, cookie, cookie * 4096, 4096, &[]);
    }
    for _ in 0..200 {
        let (cookie, error) = client.plain();
        assert_eq!(error, 0);
        assert_eq!(client.bytes(4096), pattern(4096, cookie as u8), "{cookie}");
    }
}

#[test]
fn zeros_trims_and_extents() {
    let served = Served::new(512, DISCARD);
    let mut client = served.ready(true);
    assert_eq!(client.write(0, 0, &pattern(1 << 20, 1)), 0);
    assert_eq!(client.other(0, command::WRITE_ZEROES, 512, 600 * 512), 0);
    assert!(client.read(512, 600 * 512).unwrap().iter().all(|&byte| byte == 0));
    assert_eq!(client.read(0, 512), Ok(pattern(1 << 20, 1)[..512].to_vec()));
    assert_ne!(client.other(1 << 4, command::WRITE_ZEROES, 0, 512), 0, "FAST_ZERO is not offered");
    assert_eq!(client.other(0, command::TRIM, 2 << 20, 4096), 0);
    assert_eq!(client.write(0, 4 << 20, &pattern(4096, 2)), 0);
    client.request(0, command::BLOCK_STATUS, 5, 0, LEN as u32, &[]);
    let (kind, cookie, payload) = client.chunk();
    let extents: Vec<(u32, u32)> = payload[4..]
        .chunks(8)
        .map(|pair| {
            let number = |at: usize| u32::from_be_bytes(pair[at..at + 4].try_into().unwrap());
            (number(0), number(4))
        })
        .collect();
    assert_eq!((kind, cookie), (5, 5));
    // Holes are holes and not zeros.
    let expected = [(1 << 20, 0), (3 << 20, 1), (4096, 0), ((4 << 20) - 4096, 1)];
    assert_eq!(extents, expected);
    client.request(flag::REQ_ONE, command::BLOCK_STATUS, 5, 0, LEN as u32, &[]);
    assert_eq!(client.chunk().2.len(), 12);
    assert_eq!(client.other(0, command::BLOCK_STATUS, 0, 0), 22);
    let mut without = served.ready(false);
    assert_eq!(without.other(0, command::BLOCK_STATUS, 0, 512), 22, "not negotiated");
}

#[test]
fn wrong_ranges_and_commands_are_errors() {
    for structured in [false, true] {
        let served = Served::new(4096, VolumeOptions::default());
        let mut client = served.ready(structured);
        for (offset, len) in [
            (LEN, 4096),
            (LEN - 4096, 8192),
            (1, 4096),
            (0, 100),
            (u64::MAX - 4095, 4096),
            (u64::MAX, 2 << 20),
        ] {
            assert_eq!(client.read(offset, len), Err(22), "{offset} {len}");
        }
        assert_eq!(client.write(0, 512, &[1; 4096]), 22);
        assert_eq!(client.write(0, LEN - 4096, &pattern(2 << 20, 0)), 22);
        assert_eq!(client.other(0, command::WRITE_ZEROES, LEN, 4096), 22);
        assert_eq!(client.other(0, 5, 0, 4096), 22, "CACHE");
        assert_eq!(client.other(0, 99, 0, 0), 22);
        assert_eq!(client.read(0, 4096).unwrap().len(), 4096, "it goes on");
    }
}

#[test]
fn a_reader_cannot_write() {
    let served = Served::new(512, VolumeOptions { read_only: true, discard: true });
    let before = served.memory.bytes();
    let mut client = served.ready(true);
    assert_eq!(client.write(0, 0, &[1; 512]), 1, "EPERM");
    assert_eq!(client.other(0, command::WRITE_ZEROES, 0, 512), 1);
    assert_eq!(client.other(0, command::TRIM, 0, 512), 1);
    assert_eq!(client.other(0, command::FLUSH, 0, 0), 0);
    assert!(served.memory.bytes() == before);
}

#[test]
fn flush_and_fua_sync_and_a_failed_one_is_not_forgotten() {
    let served = Served::new(512, VolumeOptions::default());
    let mut client = served.ready(true);
    let syncs = || served.memory.syncs.load(Ordering::Relaxed);
    let begin = syncs();
    assert_eq!(client.write(0, 0, &[1; 512]), 0);
    assert_eq!(syncs(), begin, "no sync without need");
    assert_eq!(client.write(flag::FUA, 0, &[1; 512]), 0);
    assert_eq!(syncs(), begin + 1);
    assert_eq!(client.other(0, command::FLUSH, 0, 0), 0);
    assert_eq!(syncs(), begin + 2);
    served.memory.fail_syncs.store(true, Ordering::Relaxed);
    assert_eq!(client.write(flag::FUA, 0, &pattern(2 << 20, 0)), 5, "a large write too");
    served.memory.fail_syncs.store(false, Ordering::Relaxed);
    assert_eq!(client.other(0, command::FLUSH, 0, 0), 5, "not forgotten");
    assert_eq!(client.write(flag::FUA, 0, &[1; 512]), 5);
    assert_eq!(client.write(0, 0, &[1; 512]), 0);
    assert_eq!(client.read(0, 512), Ok(vec![1; 512]));
}

#[test]
fn a_failing_image_is_an_error_and_the_server_lives() {
    for structured in [false, true] {
        let served = Served::new(512, VolumeOptions::default());
        let mut client = served.ready(structured);
        assert_eq!(client.write(0, 0, &pattern(4096, 3)), 0);
        served.memory.fail_reads.store(true, Ordering::Relaxed);
        assert_eq!(client.read(0, 4096), Err(5));
        served.memory.fail_reads.store(false, Ordering::Relaxed);
        served.memory.fail_writes.store(true, Ordering::Relaxed);
        assert_eq!(client.write(0, 0, &[9; 4096]), 5);
        served.memory.fail_writes.store(false, Ordering::Relaxed);
        assert_eq!(client.read(0, 4096), Ok(pattern(4096, 3)));
    }
}

#[test]
fn disconnecting_and_stopping_end_connections() {
    let served = Served::new(512, VolumeOptions::default());
    let mut client = served.ready(false);
    client.request(0, command::WRITE, 1, 0, 512, &[4; 512]);
    client.request(0, command::DISC, 2, 0, 0, &[]);
    assert_eq!(client.plain(), (1, 0), "what was under way is answered");
    assert!(client.is_closed());
    let mut other = served.ready(false);
    assert_eq!(other.read(0, 512), Ok(vec![4; 512]));
    let path = served.directory.path().join("s");
    let in_use = Server::bind(
        &path,
        Arc::new(
            strongroom_disk::PlainDevice::new(strongroom_disk::FileBacking::from_file(
                tempfile::tempfile().unwrap(),
            ))
            .unwrap(),
        ),
    );
    assert!(in_use.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse));
    served.handle.stop();
    assert!(other.is_closed());
}

/// A cleaner of temporary files takes the socket away, and another server may
/// have its name since.
#[test]
fn a_server_ends_though_its_socket_was_removed() {
    let mut served = Served::new(512, VolumeOptions::default());
    let path = served.directory.path().join("s");
    let mut client = served.ready(false);
    std::fs::remove_file(&path).unwrap();
    let another = std::os::unix::net::UnixListener::bind(&path).unwrap();
    served.handle.stop();
    let server = served.server.take().unwrap();
    let until = std::time::Instant::now() + LIMIT;
    while !server.is_finished() {
        assert!(std::time::Instant::now() < until, "the server waits for a connection for ever");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.join().unwrap();
    assert!(client.is_closed());
    assert!(path.exists(), "another server's socket stays");
    drop(another);
    std::fs::remove_file(&path).unwrap();
    served.server = Some(std::thread::spawn(|| ()));
}
