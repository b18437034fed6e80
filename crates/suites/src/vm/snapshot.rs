//! A machine that is saved while a vault is mounted in it, and loaded twice: what the two copies seal may not share a
//! nonce with each other, nor with what was sealed before (`docs/threat-model.md`, keys and passwords).
//!
//! Both copies go on from the same memory, with the same state of the kernel's generator and the same clock. Once with
//! a VM generation device, by which the kernel hears of each loading, has to seed its generator anew, and tells the
//! program if it is a kernel that does; and once without, where nobody is told and the clock alone may tell the copies
//! apart.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use super::guest::Others;
use super::kernel::Kernel;
use super::{find, guest};
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::subject::scratch::Scratch;
use strongroom_harness::tally::Tally;

/// How long a machine may take to start, to be saved, or to end.
const LIMIT: Duration = Duration::from_secs(10 * 60);
/// What a loaded machine is left to hear of its copying before anything is sealed.
const HEARING: Duration = Duration::from_secs(5);
/// Files that are sealed before the machine is saved, and by each copy.
const BEFORE: usize = 20;
const AFTER: usize = 60;
/// Bytes of a nonce that name its session, and those that a session keeps of the one before it.
const SESSION_LEN: usize = 12;
const KIN_LEN: usize = 4;
const NONCE_LEN: usize = 24;

/// A nonce stands at offset 32 of the header page that a stored file begins with.
const SCRIPT: &str = r#"
mkdir /tmp/mnt
echo -n 'a password' > /tmp/password
strongroom init /tmp/v --password-file /tmp/password --recovery-out none --kdf-memory 8MiB --kdf-time 1
strongroom mount /tmp/v /tmp/mnt --password-file /tmp/password --log /tmp/log
seal() { for n in $(seq $2); do echo "$1 $n $who" | dd of=/tmp/mnt/$1-$n conv=fsync 2>/dev/null; done; }
nonces() { for file in $(cat); do echo "NONCE $1 $(head -c 56 /tmp/v/$file | tail -c 24 | xxd -p -c 64)"; done; }
seal before @BEFORE@
ls /tmp/v > /tmp/before
echo "READY"
read who
echo "GENERATOR $(head -c 16 /dev/urandom | xxd -p)"
seal after @AFTER@
ls /tmp/v > /tmp/all
nonces before < /tmp/before
grep -v -x -F -f /tmp/before /tmp/all | nonces after
grep 'the machine was copied' /tmp/log | sed 's/^/TOLD /'
umount /tmp/mnt
"#;

/// Both kinds of machine.
pub(super) fn run(kernel: &Kernel, binary: &Path, scratch: &Scratch) -> Result<Tally> {
    let root = scratch.make("snapshot-root")?;
    let script = SCRIPT.replace("@BEFORE@", &BEFORE.to_string()).replace("@AFTER@", &AFTER.to_string());
    fs::write(root.join("script"), script)?;
    let initramfs = scratch.path().join("snapshot-initramfs");
    guest::initramfs(kernel, binary, &Others::default(), &root, &initramfs)?;
    let mut tally = Tally::default();
    for announces in [true, false] {
        let name = if announces { "announced" } else { "unannounced" };
        let lab = Lab { kernel, initramfs: &initramfs, directory: scratch.make(name)?, announces };
        tally.count(&format!("a machine that is copied, {name}"), lab.copied());
    }
    Ok(tally)
}

/// Where one machine is saved and loaded.
struct Lab<'a> {
    kernel: &'a Kernel,
    initramfs: &'a Path,
    directory: PathBuf,
    announces: bool,
}

impl Lab<'_> {
    fn copied(&self) -> Result {
        let mut create = Command::new(find("qemu-img"));
        create.args(["create", "-q", "-f", "qcow2"]).arg(self.state()).arg("4G");
        command::output(&mut create, LIMIT)?;
        let mut machine = Machine::start(self, None)?;
        machine.said("READY")?;
        machine.monitor("savevm copied", &self.socket())?;
        machine.end();
        let copy = |who: &str| -> Result<Copy> {
            let mut machine = Machine::start(self, Some("copied"))?;
            thread::sleep(HEARING);
            writeln!(machine.input, "{who}").context("telling the machine")?;
            let console = machine.said("VERDICT end passed")?;
            command::wait(&mut machine.child, LIMIT)?;
            Copy::from(&console)
        };
        let copies = [copy("one")?, copy("the other")?];
        judge(&copies, self.announces)?;
        let [one, other] = &copies;
        println!(
            "  {} nonces in each of two copies, none twice; the program was {}told; the sessions {}; the kernel's \
             generator {}",
            one.after.len(),
            if one.was_told { "" } else { "not " },
            if one.sessions() == other.sessions() { "are the same" } else { "differ" },
            if one.generator == other.generator { "repeated itself" } else { "did not repeat itself" },
        );
        Ok(())
    }

    fn state(&self) -> PathBuf {
        self.directory.join("state.qcow2")
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("monitor")
    }
}

/// What a copy said.
struct Copy {
    before: BTreeSet<Vec<u8>>,
    after: BTreeSet<Vec<u8>>,
    generator: String,
    was_told: bool,
}

impl Copy {
    fn from(console: &[String]) -> Result<Self> {
        let nonces = |when: &str| -> Result<BTreeSet<Vec<u8>>> {
            let prefix = format!("NONCE {when} ");
            let lines: Vec<&str> =
                console.iter().filter_map(|line| line.trim().strip_prefix(&prefix)).collect();
            let nonces: BTreeSet<_> = lines.iter().filter_map(|line| bytes(line)).collect();
            ensure!(nonces.len() == lines.len(), "one machine stored a nonce twice: {lines:?}");
            Ok(nonces)
        };
        let find = |prefix: &str| console.iter().find_map(|line| line.trim().strip_prefix(prefix));
        let generator = find("GENERATOR ").unwrap_or_default().to_owned();
        let (before, after) = (nonces("before")?, nonces("after")?);
        // What the vault keeps for itself besides is no file of this length.
        ensure!(before.len() == BEFORE && after.len() == AFTER, "{} and {} files", before.len(), after.len());
        Ok(Self { before, after, generator, was_told: find("TOLD ").is_some() })
    }

    fn sessions(&self) -> BTreeSet<&[u8]> {
        self.after.iter().map(|nonce| &nonce[..SESSION_LEN]).collect()
    }
}

/// The bytes of a nonce in hex.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let bytes: Option<Vec<u8>> = digits.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect();
    bytes.filter(|bytes| bytes.len() == NONCE_LEN)
}

fn judge(copies: &[Copy; 2], announced: bool) -> Result {
    let [one, other] = copies;
    ensure!(one.before == other.before, "the copies do not come from one machine");
    ensure!(one.after.is_disjoint(&other.after), "two copies sealed under one nonce");
    for copy in copies {
        ensure!(copy.after.is_disjoint(&copy.before), "a copy sealed under a nonce of before");
        ensure!(!copy.was_told || announced, "the program was told of what nobody knows");
    }
    ensure!(!announced || one.generator != other.generator, "the kernel's generator repeated itself");
    // Kernels that do not tell leave the session as it is.
    if !copies.iter().all(|copy| copy.was_told) {
        return Ok(());
    }
    let old: BTreeSet<&[u8]> = one.before.iter().map(|nonce| &nonce[..SESSION_LEN]).collect();
    ensure!(one.sessions().is_disjoint(&other.sessions()), "two copies that were told share a session");
    for session in copies.iter().flat_map(Copy::sessions) {
        ensure!(!old.contains(session), "a copy that was told goes on in the session of before");
        let kin = |old: &&[u8]| old[..KIN_LEN] == session[..KIN_LEN];
        ensure!(old.iter().any(kin), "a session is no kin of the one before");
    }
    Ok(())
}

/// A machine that runs, with its console.
struct Machine {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Machine {
    /// Starts it from nothing, or as it was saved under a name.
    fn start(lab: &Lab<'_>, saved: Option<&str>) -> Result<Self> {
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-machine", "q35,accel=tcg,kernel-irqchip=off", "-cpu", "max", "-m", "768"]);
        command.args(["-display", "none", "-vga", "none", "-no-reboot", "-nic", "none"]);
        command.args(["-serial", "stdio", "-append", "console=ttyS0 panic=-1 quiet rdinit=/init"]);
        command.arg("-monitor").arg(format!("unix:{},server=on,wait=off", lab.socket().display()));
        command.arg("-kernel").arg(&lab.kernel.image).arg("-initrd").arg(lab.initramfs);
        command.arg("-drive").arg(format!("if=none,id=state,format=qcow2,file={}", lab.state().display()));
        if lab.announces {
            // Another generation in each process.
            command.args(["-device", "vmgenid,guid=auto"]);
        }
        if let Some(saved) = saved {
            command.args(["-loadvm", saved]);
        }
        let errors = command::log_file(&lab.directory.join("errors"))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command::spawn(&mut command)?;
        let input = child.stdin.take().expect("its input is piped");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut lines = output.split(b'\n').map_while(std::result::Result::ok);
            lines.try_for_each(|line| sender.send(String::from_utf8_lossy(&line).into_owned()))
        });
        Ok(Self { child, input, lines })
    }

    /// What it says up to a line that ends with `last`.
    fn said(&mut self, last: &str) -> Result<Vec<String>> {
        let deadline = Instant::now() + LIMIT;
        let mut said: Vec<String> = Vec::new();
        while !said.last().is_some_and(|line| line.trim().ends_with(last)) {
            let left = deadline.saturating_duration_since(Instant::now());
            said.push(self.lines.recv_timeout(left).map_err(|_| {
                let tail: Vec<&str> = said.iter().rev().take(20).map(String::as_str).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                Failure::new(format!("the machine did not say `{last}`:\n{}", tail.join("\n")))
            })?);
        }
        Ok(said)
    }

    /// Carries out a command of QEMU's monitor.
    fn monitor(&self, order: &str, socket: &Path) -> Result {
        let mut stream = UnixStream::connect(socket).context("the monitor")?;
        stream.set_read_timeout(Some(LIMIT))?;
        prompt(&mut stream)?;
        writeln!(stream, "{order}")?;
        let answer = prompt(&mut stream)?;
        ensure!(!answer.contains("Error"), "the monitor said: {answer}");
        Ok(())
    }

    fn end(mut self) {
        command::end(&mut self.child);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            command::end(&mut self.child);
        }
    }
}

/// What the monitor says up to its prompt.
fn prompt(stream: &mut UnixStream) -> Result<String> {
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(b"(qemu) ") {
        stream.read_exact(&mut byte).context("the monitor")?;
        said.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(session: u8, drawn: u8, was_told: bool) -> Copy {
        let nonces = |session: u8, drawn: u8, count: usize| -> BTreeSet<Vec<u8>> {
            let nonce = |number: usize| {
                [vec![7; KIN_LEN], vec![session; SESSION_LEN - KIN_LEN], vec![drawn; 11], vec![number as u8]]
            };
            (0..count).map(|number| nonce(number).concat()).collect()
        };
        let (before, after) = (nonces(1, 1, BEFORE), nonces(session, drawn, AFTER));
        Copy { before, after, generator: format!("{session}{drawn}"), was_told }
    }

    #[test]
    fn copies_are_judged() {
        assert!(judge(&[copy(2, 2, true), copy(3, 2, true)], true).is_ok());
        for announced in [false, true] {
            assert!(judge(&[copy(1, 2, false), copy(1, 3, false)], announced).is_ok());
        }
        let mut repeated = [copy(1, 2, false), copy(1, 3, false)];
        repeated[1].generator = repeated[0].generator.clone();
        assert!(judge(&repeated, false).is_ok(), "nobody told the kernel");
        assert!(judge(&repeated, true).is_err());
        let wrong = [
            (copy(1, 2, false), copy(1, 2, false), false, "one nonce"),
            (copy(1, 1, false), copy(1, 3, false), false, "of before"),
            (copy(2, 2, false), copy(3, 3, true), false, "told"),
            (copy(2, 2, true), copy(2, 3, true), true, "share a session"),
            (copy(2, 2, true), copy(1, 3, true), true, "goes on"),
        ];
        for (one, other, announced, said) in wrong {
            let failure = judge(&[one, other], announced).unwrap_err().to_string();
            assert!(failure.contains(said), "{failure}");
        }
    }

    #[test]
    fn nonces_are_read_from_the_console() {
        let mut console = vec!["GENERATOR 00ff\r".to_owned(), "TOLD the machine was copied\r".to_owned()];
        for (when, count) in [("before", BEFORE), ("after", AFTER)] {
            console.extend((0..count).map(|number| format!("NONCE {when} {number:048x}\r")));
        }
        let copy = Copy::from(&console).unwrap();
        assert_eq!((copy.generator.as_str(), copy.was_told), ("00ff", true));
        assert_eq!(copy.sessions().len(), 1);
        console.push(console.last().unwrap().clone());
        assert!(Copy::from(&console).is_err());
        assert_eq!(bytes("00"), None);
        assert_eq!(bytes(&"zz".repeat(24)), None);
    }
}
