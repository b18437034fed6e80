//! A server of the NBD protocol on a unix socket.
//!
//! `docs/nbd.md` says which parts of it there are. [`protocol`] has its numbers
//! and messages, `handshake` what is agreed before, `transmission` what is
//! served, `server` connections and their end.

mod handshake;
pub mod protocol;
mod server;
mod transmission;

pub use server::{Server, ServerHandle};
