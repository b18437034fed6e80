//! Mounting through `fusermount3`, for users who may not mount themselves.
//!
//! The program opens the device, mounts, and sends the descriptor over the
//! socket that `_FUSE_COMMFD` names. Here that is its standard input, so that
//! no descriptor has to survive `exec` by chance.

use super::UnmountMode;
use super::error::{MountError, MountErrorKind};
use super::options::MountOptions;
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub(super) const PROGRAM: &str = "fusermount3";

/// Mounts at `path` and answers the connection's descriptor.
pub(super) fn mount(path: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let system = |error: io::Error| MountError::with_detail(MountErrorKind::System, path, error.to_string());
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| system(error.into()))?;
    // The command, and with it their end, goes with this statement: when the
    // program ends without an answer, ours sees the end of the stream.
    let child = Command::new(PROGRAM)
        .arg("-o")
        .arg(words(options))
        .arg("--")
        .arg(path)
        .env("_FUSE_COMMFD", "0")
        .env("LC_ALL", "C")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| not_started(path, &error))?;
    let file = receive(&ours);
    let output = child.wait_with_output().map_err(system)?;
    match file {
        Ok(Some(file)) if output.status.success() => Ok(file),
        Err(error) if output.status.success() => Err(system(error)),
        _ => Err(refused(path, &output)),
    }
}

/// The options as the program takes them: commas separate, backslashes escape.
fn words(options: &MountOptions) -> String {
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let subtype = options.subtype.name();
    let mut words =
        format!("default_permissions,max_read={},fsname={source},subtype={subtype}", options.read_max);
    let switches = [
        (options.allow_other, "allow_other"),
        (options.read_only, "ro"),
        (!options.allow_suid, "nosuid"),
        (!options.allow_devices, "nodev"),
        (options.no_exec, "noexec"),
    ];
    for (_, word) in switches.iter().filter(|(on, _)| *on) {
        words.push(',');
        words.push_str(word);
    }
    words
}

/// The descriptor that comes over `socket`, or none when it is closed before.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok(file)
}

/// Unmounts what is at `path`.
pub(super) fn unmount(path: &Path, mode: UnmountMode) -> Result<(), MountError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u").env("LC_ALL", "C").stdin(Stdio::null());
    if mode == UnmountMode::Lazy {
        command.arg("-z");
    }
    let output = command.arg("--").arg(path).output().map_err(|error| not_started(path, &error))?;
    if output.status.success() { Ok(()) } else { Err(refused(path, &output)) }
}

fn not_started(path: &Path, error: &io::Error) -> MountError {
    match error.kind() {
        io::ErrorKind::NotFound => MountError::new(MountErrorKind::NoProgram, path),
        _ => MountError::with_detail(MountErrorKind::System, path, error.to_string()),
    }
}

fn refused(path: &Path, output: &Output) -> MountError {
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let kind = if text.contains("busy") { MountErrorKind::Busy } else { MountErrorKind::Refused };
    let detail = if text.is_empty() { output.status.to_string() } else { text };
    MountError::with_detail(kind, path, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_and_backslashes_of_the_source_are_escaped() {
        let options = MountOptions { source: "a,b\\c".to_owned(), read_only: true, ..Default::default() };
        assert_eq!(
            words(&options),
            "default_permissions,max_read=262144,fsname=a\\,b\\\\c,subtype=strongroom,ro,nosuid,nodev"
        );
    }
}
