//! The programs that are compared: how they are made, and asked.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::{command, packages, workspace};

/// The source of the programs for other libraries.
const SOURCE: &str = "crates/compare/src/crypto_peers/peer.c";
/// OpenSSL's variable for what it shall not see: bits 57 and 33 of the first word are AES-NI and PCLMULQDQ,
/// bits 41 and 42 of the second VAES and VPCLMULQDQ (OPENSSL_ia32cap(3)).
const MASK: (&str, &str) = ("OPENSSL_ia32cap", "~0x200000200000000:~0x60000000000");

const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);

/// What one answer says.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) bytes_per_second: f64,
    pub(super) checksum: u64,
}

/// A running program.
pub(super) struct Peer {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) is_ours: bool,
    /// It computes without instructions for AES.
    pub(super) is_masked: bool,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        command::end(&mut self.child);
    }
}

/// Where everything is that was built.
pub(super) struct Programs {
    ours: PathBuf,
    others: Vec<(&'static str, PathBuf)>,
}

/// Makes sure that the libraries to compare with are here.
pub(super) fn need_libraries() -> Result {
    let packages = [
        ("/usr/include/openssl/evp.h", "libssl-dev"),
        ("/usr/include/gcrypt.h", "libgcrypt20-dev"),
        ("/usr/include/intel-ipsec-mb.h", "libipsec-mb-dev"),
    ];
    let missing: Vec<&str> =
        packages.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, package)| *package).collect();
    if missing.is_empty() { Ok(()) } else { packages::install(&missing) }
}

/// Builds our side with the AWS-LC that it uses, and the programs for the other libraries in `directory`.
pub(super) fn build(directory: &Path) -> Result<Programs> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "strongroom-engine-cpu", "--example", "peer"]);
    cargo.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let messages = command::output(&mut cargo, BUILD_LIMIT)?;
    let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let ours = messages.iter().rev().find_map(|message| message["executable"].as_str().map(PathBuf::from));
    let is_library = |message: &&Value| {
        message["reason"] == "build-script-executed"
            && message["package_id"].as_str().is_some_and(|id| id.contains("aws-lc-sys"))
    };
    let library = messages.iter().find(is_library).and_then(|message| message["out_dir"].as_str());
    let (Some(ours), Some(library)) = (ours, library) else {
        return Err(Failure::new("cargo does not tell what it has built"));
    };
    let aws_lc = aws_lc(Path::new(library))?;
    let plain = |library: &str| vec![library.to_owned()];
    let others = [
        ("aws-lc", "PEER_AWS_LC", aws_lc),
        ("ipsec-mb", "PEER_IPSEC_MB", plain("-lIPSec_MB")),
        ("libgcrypt", "PEER_GCRYPT", plain("-lgcrypt")),
        ("openssl", "PEER_OPENSSL", plain("-lcrypto")),
    ];
    let mut built = Vec::new();
    for (name, symbol, library) in others {
        let program = directory.join(name);
        let mut compiler = Command::new("gcc");
        compiler.args(["-O2", &format!("-D{symbol}")]).arg(workspace::root().join(SOURCE));
        compiler.args(library).arg("-o").arg(&program);
        command::output(&mut compiler, Duration::from_secs(120))?;
        built.push((name, program));
    }
    Ok(Programs { ours, others: built })
}

/// How to compile and link with the AWS-LC of our build, whose names have a prefix.
fn aws_lc(directory: &Path) -> Result<Vec<String>> {
    for entry in std::fs::read_dir(directory).context(directory.display())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(prefix) = name.strip_prefix("lib").and_then(|rest| rest.strip_suffix("_crypto.a")) {
            let include = format!("-I{}", directory.join("include").display());
            let library = directory.join(&name).display().to_string();
            return Ok(vec![
                include,
                format!("-DBORINGSSL_PREFIX={prefix}"),
                library,
                "-lpthread".to_owned(),
            ]);
        }
    }
    Err(Failure::new(format!("{}: there is no AWS-LC", directory.display())))
}

impl Programs {
    /// Starts all of them on one CPU: ours and theirs, and those without instructions for AES.
    pub(super) fn start(&self, cpu: usize) -> Result<Vec<Peer>> {
        let ours = |arguments: &[&str], masked| {
            let name = if masked { "ours, portable" } else { "ours" };
            Peer::start(name, &self.ours, arguments, cpu, true, masked)
        };
        let mut peers = vec![ours(&[], false)?];
        for (name, program) in self.others.iter().filter(|(name, _)| *name != "openssl") {
            peers.push(Peer::start(name, program, &[], cpu, false, false)?);
        }
        peers.push(ours(&["cpu-portable"], true)?);
        for (name, program) in self.others.iter().filter(|(name, _)| *name == "openssl") {
            peers.push(Peer::start(&format!("{name}, masked"), program, &[], cpu, false, true)?);
        }
        Ok(peers)
    }
}

impl Peer {
    fn start(
        name: &str,
        program: &Path,
        arguments: &[&str],
        cpu: usize,
        is_ours: bool,
        is_masked: bool,
    ) -> Result<Peer> {
        let mut command = Command::new("taskset");
        command.arg("--cpu-list").arg(cpu.to_string()).arg(program).args(arguments);
        if is_masked && !is_ours {
            command.env(MASK.0, MASK.1);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command::spawn(&mut command)?;
        let questions = child.stdin.take().expect("stdin is piped");
        let answers = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut peer = Peer {
            name: name.to_owned(),
            version: String::new(),
            is_ours,
            is_masked,
            child,
            questions,
            answers,
        };
        peer.version = peer.answer()?;
        Ok(peer)
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context(&self.name)?;
        ensure!(!line.is_empty(), "{} has ended", self.name);
        Ok(line.trim().to_owned())
    }

    /// Has it work for so long; none when it does not have this.
    pub(super) fn ask(
        &mut self,
        algorithm: &str,
        direction: &str,
        milliseconds: u32,
    ) -> Result<Option<Sample>> {
        writeln!(self.questions, "{algorithm} {direction} {milliseconds}").context(&self.name)?;
        self.questions.flush().context(&self.name)?;
        let line = self.answer()?;
        if line == "-" {
            return Ok(None);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let figures = match words[..] {
            [bytes, nanoseconds, checksum] => bytes
                .parse::<f64>()
                .ok()
                .zip(nanoseconds.parse::<f64>().ok())
                .zip(u64::from_str_radix(checksum, 16).ok()),
            _ => None,
        };
        let Some(((bytes, nanoseconds), checksum)) = figures else {
            return Err(Failure::new(format!("{} answers `{line}`", self.name)));
        };
        Ok(Some(Sample { bytes_per_second: bytes / nanoseconds * 1e9, checksum }))
    }
}
