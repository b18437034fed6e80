//! The only way from a host to a server: connections to a port of the host's own loopback are passed on to the
//! same port of this machine's. It can be cut, as a cable is.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rustix::net::Shutdown as Both;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use strongroom_harness::failure::{Context, Result};

const PIECE: usize = 256 << 10;

/// A port that is passed on for as long as this lives.
pub(super) struct Link {
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_cut: AtomicBool,
    has_ended: AtomicBool,
    /// Both ends of what goes through.
    open: Mutex<Vec<TcpStream>>,
}

impl Link {
    /// Passes on `port` of the network `namespace`.
    pub(super) fn start(namespace: File, port: u16) -> Result<Link> {
        // A socket belongs to the namespace in which it was made; the thread that made it is gone then.
        let bind = thread::spawn(move || -> Result<TcpListener> {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(TcpListener::bind(("127.0.0.1", port))?)
        });
        let listener = bind.join().expect("it does not panic").context("listening in a host")?;
        let (listener, shared) = (Arc::new(listener), Arc::new(Shared::default()));
        let (from, of) = (Arc::clone(&listener), Arc::clone(&shared));
        let accepting = Some(thread::spawn(move || of.accept(&from, port)));
        Ok(Link { shared, listener, accepting })
    }

    /// Cuts it: what goes through is broken off, and nothing new goes through.
    pub(super) fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::Release);
        self.shared.break_off();
    }

    /// Mends it.
    pub(super) fn mend(&self) {
        self.shared.is_cut.store(false, Ordering::Release);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        // Whoever accepts is woken with an error.
        let _ = rustix::net::shutdown(&*self.listener, Both::Both);
        self.shared.break_off();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Shared {
    fn accept(self: Arc<Self>, listener: &TcpListener, port: u16) {
        for accepted in listener.incoming() {
            if self.has_ended.load(Ordering::Acquire) {
                return;
            }
            let Ok(client) = accepted else { continue };
            if self.is_cut.load(Ordering::Acquire) {
                continue;
            }
            // Where nobody serves, the client's connection ends.
            if let Ok(server) = TcpStream::connect(("127.0.0.1", port)) {
                self.pass(client, server);
            }
        }
    }

    fn pass(&self, client: TcpStream, server: TcpStream) {
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|stream| stream.peer_addr().is_ok());
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
            thread::spawn(move || {
                let _ = copy(&mut from, &mut to);
                let _ = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
            });
        }
        open.extend([client, server]);
        if self.is_cut.load(Ordering::Acquire) {
            drop(open);
            self.break_off();
        }
    }

    fn break_off(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        for stream in open {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn copy(from: &mut TcpStream, to: &mut TcpStream) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(()),
            count => to.write_all(&piece[..count])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves one line to whoever comes, on a port of its own.
    fn server() -> (u16, JoinHandle<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let serve = move || {
            for accepted in listener.incoming().take(1) {
                let mut stream = accepted.expect("a client");
                let mut asked = [0; 4];
                stream.read_exact(&mut asked).expect("asked");
                stream.write_all(b"pong").expect("answered");
            }
        };
        (port, thread::spawn(serve))
    }

    #[test]
    #[ignore = "needs root, for a network of its own"]
    fn what_goes_through_comes_back_until_it_is_cut() {
        let (port, served) = server();
        let mut holder = std::process::Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 60"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a namespace");
        let mut up = [0; 3];
        holder.stdout.as_mut().expect("piped").read_exact(&mut up).expect("it is up");
        let namespace = || File::open(format!("/proc/{}/ns/net", holder.id())).expect("its network");
        let link = Link::start(namespace(), port).expect("a link");
        let ask = || -> std::io::Result<[u8; 4]> {
            let within = namespace();
            let asked = thread::spawn(move || {
                move_into_link_name_space(within.as_fd(), Some(LinkNameSpaceType::Network))?;
                let mut stream = TcpStream::connect(("127.0.0.1", port))?;
                stream.write_all(b"ping")?;
                let mut answer = [0; 4];
                stream.read_exact(&mut answer)?;
                Ok(answer)
            });
            asked.join().expect("it does not panic")
        };
        assert_eq!(&ask().expect("an answer"), b"pong");
        link.cut();
        assert!(ask().is_err());
        served.join().expect("it does not panic");
        drop(link);
        holder.kill().and_then(|()| holder.wait()).expect("it ends");
    }
}
