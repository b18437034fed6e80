//! NVIDIA's run-time compiler, from PyPI: it needs no GPU and no driver.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::{command, packages, workspace};

/// Made the PTX that is shipped: its version of PTX (8.1) is one that drivers of 2023 know.
pub(super) const SHIPS: &str = "12.1.105";
/// Knows architectures from 7.5 to 12.0.
pub(super) const NEWEST: &str = "12.9.86";
/// The lowest architecture, for which the PTX that is shipped was made.
pub(super) const LOWEST: &str = "compute_75";

const INSTALL_LIMIT: Duration = Duration::from_secs(10 * 60);
const COMPILE_LIMIT: Duration = Duration::from_secs(5 * 60);
const SCRIPT: &str = "xtask/src/gpu/nvrtc.py";

/// A version, below `target/tools`.
pub(super) struct Nvrtc {
    libraries: PathBuf,
}

/// What it made of one source.
pub(super) struct Made {
    pub(super) ptx: String,
    /// Empty for an architecture that is not a real one.
    pub(super) cubin: Vec<u8>,
}

impl Nvrtc {
    /// Installs it unless it is there.
    pub(super) fn install(version: &str) -> Result<Nvrtc> {
        let directory = workspace::target()?.join("tools").join(format!("nvrtc-{version}"));
        let libraries = directory.join("nvidia/cuda_nvrtc/lib");
        if !libraries.join("libnvrtc.so.12").is_file() {
            println!("installing NVRTC {version}");
            let mut install = Command::new(packages::pip()?);
            install.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
            install.arg(&directory).arg(format!("nvidia-cuda-nvrtc-cu12=={version}"));
            command::output(&mut install, INSTALL_LIMIT).context("installing NVRTC from PyPI")?;
        }
        ensure!(libraries.join("libnvrtc.so.12").is_file(), "the package has no libnvrtc.so.12");
        Ok(Nvrtc { libraries })
    }

    /// Compiles sources, each with its name.
    pub(super) fn compile(
        &self,
        architecture: &str,
        options: &[&str],
        sources: &[(String, PathBuf)],
        output: &Path,
    ) -> Result<Vec<Made>> {
        let mut compile = Command::new("python3");
        compile.arg(workspace::root().join(SCRIPT)).arg(&self.libraries).arg(architecture).arg(output);
        compile.args(options.iter().map(|option| format!("--option={option}")));
        compile.args(sources.iter().map(|(name, path)| format!("{name}={}", path.display())));
        command::output(&mut compile, COMPILE_LIMIT)?;
        let made = |(name, _): &(String, PathBuf)| {
            let ptx = std::fs::read_to_string(output.join(format!("{name}.ptx")))?;
            let cubin = output.join(format!("{name}.cubin"));
            let cubin = if architecture.starts_with("sm_") { std::fs::read(cubin)? } else { Vec::new() };
            Ok(Made { ptx, cubin })
        };
        sources.iter().map(made).collect()
    }
}
