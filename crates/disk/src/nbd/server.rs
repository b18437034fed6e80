//! Connections: accepting them, their workers, and their end.

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::handshake;
use super::transmission::{Connection, Worker};
use crate::device::Device;

/// Most connections at a time.
const CONNECTIONS_MAX: usize = 64;
/// Most workers of a connection.
const WORKERS_MAX: usize = 8;
/// How long a client has for the handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);
/// Bytes that a socket shall hold, so that a large reply needs few waits.
const SOCKET_BUFFER: usize = 4 << 20;

/// A socket on which a device is served.
pub struct Server {
    listener: Arc<UnixListener>,
    path: PathBuf,
    /// Device and inode of the socket that was made.
    inode: Option<(u64, u64)>,
    device: Arc<dyn Device>,
    state: Arc<State>,
}

/// Ends a server from another thread, and tells of it.
#[derive(Clone)]
pub struct ServerHandle {
    listener: Arc<UnixListener>,
    state: Arc<State>,
}

#[derive(Default)]
struct State(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    stopped: bool,
    next: u64,
    open: BTreeMap<u64, UnixStream>,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Makes the socket, for this user alone. One that nobody serves any more
    /// is replaced.
    ///
    /// # Errors
    /// The system's; `AddrInUse` when somebody serves there, or it is no
    /// socket.
    pub fn bind(path: &Path, device: Arc<dyn Device>) -> io::Result<Server> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        let (listener, inode) = (Arc::new(listener), inode(path));
        Ok(Server { listener, path: path.to_owned(), inode, device, state: Arc::new(State::default()) })
    }

    /// For other threads.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { listener: Arc::clone(&self.listener), state: Arc::clone(&self.state) }
    }

    /// Serves until [`ServerHandle::stop`], and then leaves no thread and no
    /// socket behind. The device is not flushed.
    pub fn run(self) {
        let mut threads: Vec<thread::JoinHandle<()>> = Vec::new();
        for stream in self.listener.incoming() {
            if self.state.lock().stopped {
                break;
            }
            threads.retain(|thread| !thread.is_finished());
            let Ok(stream) = stream else {
                // Out of descriptors, perhaps: others may be closed meanwhile.
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let Some(id) = self.admit(&stream) else { continue };
            let (device, state) = (Arc::clone(&self.device), Arc::clone(&self.state));
            let serve = move || {
                // What a client does wrong ends its connection and no more.
                let _ = connection(&*device, &stream);
                let _ = stream.shutdown(Shutdown::Both);
                state.lock().open.remove(&id);
            };
            match thread::Builder::new().name("nbd".into()).spawn(serve) {
                Ok(thread) => threads.push(thread),
                Err(_) => drop(self.state.lock().open.remove(&id)),
            }
        }
        // Not the socket of another server, which has taken the name since this
        // one's was removed.
        if self.inode.is_some() && self.inode == inode(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn admit(&self, stream: &UnixStream) -> Option<u64> {
        let copy = stream.try_clone().ok()?;
        let mut connections = self.state.lock();
        if connections.open.len() >= CONNECTIONS_MAX || connections.stopped {
            return None;
        }
        connections.next += 1;
        let id = connections.next;
        connections.open.insert(id, copy);
        Some(id)
    }
}

impl ServerHandle {
    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.lock().open.len()
    }

    /// Ends the server and all connections. What is under way is carried out;
    /// its answer may not arrive.
    pub fn stop(&self) {
        let mut connections = self.state.lock();
        connections.stopped = true;
        for stream in connections.open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        drop(connections);
        // Wakes the thread that accepts, whatever has become of the socket's name.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
    }
}

/// Device and inode of what is at `path`.
fn inode(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// Whether a socket is there that nobody serves.
fn is_abandoned(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

fn connection(device: &dyn Device, stream: &UnixStream) -> io::Result<()> {
    // Without permission the system's default stays.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(stream, SOCKET_BUFFER);
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(stream, SOCKET_BUFFER);
    stream.set_read_timeout(Some(HANDSHAKE_LIMIT))?;
    stream.set_write_timeout(Some(HANDSHAKE_LIMIT))?;
    let mut speaking = stream;
    let Some(agreed) = handshake::run(&mut speaking, device)? else { return Ok(()) };
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    let connection = Connection::new(device, agreed, stream);
    let workers = thread::available_parallelism().map_or(2, |count| 2 * count.get()).clamp(2, WORKERS_MAX);
    thread::scope(|scope| {
        for _ in 1..workers {
            let spawned = thread::Builder::new()
                .name("nbd worker".into())
                .spawn_scoped(scope, || work(&connection, stream));
            if spawned.is_err() {
                break;
            }
        }
        work(&connection, stream);
    });
    Ok(())
}

/// One worker: when it fails, the connection is at its end for all.
fn work(connection: &Connection<'_>, stream: &UnixStream) {
    if connection.serve(&mut Worker::new(connection.device())).is_err() {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
