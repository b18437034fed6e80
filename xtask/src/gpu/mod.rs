//! The engine for GPUs, without a GPU: its tests on OpenCL drivers that compute on the CPU and under a driver of CUDA
//! that is not there, its kernels compiled for NVIDIA's architectures, and a look at what compilers made of them.
//!
//! - `tests`: the crate's tests under PoCL, under rusticl, under the stub of CUDA's driver, and with no driver at all;
//! - `ptx`: the PTX that is shipped is what NVRTC makes of the source;
//! - `spills`: machine code for five architectures keeps everything in registers;
//! - `flow`: in the PTX that is shipped and in LLVM's code for OpenCL no address and no branch depends on a secret.

mod cubin;
mod flow;
mod llvm;
mod nvrtc;
mod ptx;
mod stub;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;

use crate::programs;
use nvrtc::Nvrtc;
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::tally::Tally;
use strongroom_harness::{command, packages, workspace};

const PACKAGE: &str = "strongroom-engine-gpu";
const CIPHERS: [&str; 5] = ["aes", "serpent", "twofish", "camellia", "chacha20"];
const ARCHITECTURES: [&str; 5] = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"];
const TEST_LIMIT: Duration = Duration::from_secs(10 * 60);
const COMPILE_LIMIT: Duration = Duration::from_secs(3 * 60);
/// Whose code is looked at; its form of LLVM's code is the one that `llvm` reads.
const CLANG: &str = "clang-14";
const VENDORS: &str = "/etc/OpenCL/vendors";

#[derive(Args)]
pub(crate) struct GpuArgs {
    /// Only these parts: tests, ptx, spills, flow
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Make the PTX that is shipped anew, instead of comparing it
    #[arg(long)]
    write_ptx: bool,
}

impl GpuArgs {
    /// The suite as `cargo xtask test` runs it.
    pub(crate) fn all() -> Self {
        Self { only: Vec::new(), write_ptx: false }
    }
}

const PARTS: [&str; 4] = ["tests", "ptx", "spills", "flow"];

/// Where something is made.
struct Work {
    directory: PathBuf,
    /// The example that prints sources.
    printer: PathBuf,
}

impl Work {
    fn new() -> Result<Work> {
        let mut build = workspace::cargo();
        build.args(["build", "--quiet", "--package", PACKAGE, "--example", "source"]);
        command::show(&mut build, TEST_LIMIT)?;
        let target = workspace::target()?;
        let directory = target.join("gpu");
        std::fs::create_dir_all(&directory)?;
        Ok(Work { directory, printer: target.join("debug/examples/source") })
    }

    fn below(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// The sources of all ciphers in a dialect, as files.
    fn sources(&self, dialect: &str) -> Result<Vec<(String, PathBuf)>> {
        let directory = self.below(dialect)?;
        let source = |cipher: &&str| {
            let mut print = Command::new(&self.printer);
            let text = command::output(print.args([dialect, cipher]), COMPILE_LIMIT)?;
            let path = directory.join(format!("{cipher}.{dialect}"));
            std::fs::write(&path, text)?;
            Ok(((*cipher).to_owned(), path))
        };
        CIPHERS.iter().map(source).collect()
    }
}

/// Runs the parts, all of them, whatever fails.
pub(crate) fn run(arguments: &GpuArgs) -> Result<Tally> {
    if let Some(unknown) = arguments.only.iter().find(|name| !PARTS.contains(&&***name)) {
        return Err(Failure::new(format!("there is no part `{unknown}`")));
    }
    let work = Work::new()?;
    let mut tally = Tally::default();
    let chosen = |part: &str| arguments.only.is_empty() || arguments.only.iter().any(|name| name == part);
    if chosen("tests") {
        tests(&work, &mut tally);
    }
    if chosen("ptx") {
        tally.count("the PTX that is shipped", shipped(&work, arguments.write_ptx));
    }
    if chosen("spills") {
        spills(&work, &mut tally);
    }
    if chosen("flow") {
        tally.count("no secret decides in PTX", flow_of_ptx());
        tally.count("no secret decides in OpenCL", flow_of_opencl(&work));
    }
    println!("no GPU was used: what a real one computes, and how fast, is not part of this");
    Ok(tally)
}

/// A way to run the crate's tests.
struct Setting {
    name: &'static str,
    environment: Vec<(&'static str, String)>,
    /// All tests, or those on devices alone.
    all: bool,
}

fn tests(work: &Work, tally: &mut Tally) {
    let installed = packages::install_missing(&["ocl-icd-libopencl1", "pocl-opencl-icd", "mesa-opencl-icd"]);
    if let Err(reason) = &installed {
        println!("  not run under PoCL and rusticl: {reason}");
        tally.skipped += 2;
    }
    let vendor = |file: &str| ("OCL_ICD_VENDORS", format!("{VENDORS}/{file}"));
    let required = || ("STRONGROOM_GPU_REQUIRED", "1".to_owned());
    let none = || ("OCL_ICD_VENDORS", work.directory.join("none").display().to_string());
    let mut settings = vec![Setting { name: "no driver", environment: vec![none()], all: false }];
    if installed.is_ok() {
        let cache = ("POCL_CACHE_DIR", work.directory.join("pocl").display().to_string());
        let pocl = vec![vendor("pocl.icd"), cache, required()];
        settings.push(Setting { name: "PoCL", environment: pocl, all: true });
        let rusticl = vec![vendor("rusticl.icd"), ("RUSTICL_ENABLE", "llvmpipe".to_owned()), required()];
        settings.push(Setting { name: "rusticl", environment: rusticl, all: true });
    }
    match stub_of_cuda(work) {
        Ok(directory) => {
            let path = ("LD_LIBRARY_PATH", directory.display().to_string());
            let environment = vec![path, none(), required()];
            settings.push(Setting { name: "a stub of CUDA's driver", environment, all: true });
        }
        Err(reason) => tally.fail(format!("the stub of CUDA's driver: {reason}")),
    }
    for setting in settings {
        tested(&setting, tally);
    }
}

fn tested(setting: &Setting, tally: &mut Tally) {
    let mut command = workspace::cargo();
    command.args(["test", "--package", PACKAGE]).args(if setting.all {
        &[][..]
    } else {
        &["--test", "devices"]
    });
    command.envs(setting.environment.iter().map(|(name, value)| (name, value)));
    match command::finish(&mut command, TEST_LIMIT) {
        Ok(finished) => {
            let found = programs::judge(&finished);
            println!("  {}: {}", setting.name, found.summary());
            tally.passed += found.passed;
            tally.skipped += found.skipped;
            found.failures.into_iter().for_each(|name| tally.fail(format!("{}: {name}", setting.name)));
        }
        Err(failure) => tally.fail(format!("{}: {failure}", setting.name)),
    }
}

fn stub_of_cuda(work: &Work) -> Result<PathBuf> {
    packages::need(&[("gcc", "gcc")])?;
    let directory = work.below("stub")?;
    let prelude = std::fs::read_to_string(kernels().join("prelude.cu"))?;
    stub::make(&directory, &prelude, &work.sources("cuda")?)?;
    Ok(directory)
}

fn crate_directory() -> PathBuf {
    workspace::root().join("crates/engine-gpu")
}

fn kernels() -> PathBuf {
    crate_directory().join("kernels")
}

fn shipped_ptx(cipher: &str) -> PathBuf {
    crate_directory().join("ptx").join(format!("{cipher}.ptx"))
}

/// The PTX that is shipped is what the source makes; or it is written.
fn shipped(work: &Work, write: bool) -> Result {
    let sources = work.sources("cuda")?;
    let output = work.below(nvrtc::LOWEST)?;
    let made = Nvrtc::install(nvrtc::SHIPS)?.compile(nvrtc::LOWEST, &[], &sources, &output)?;
    for ((cipher, _), made) in sources.iter().zip(made) {
        let path = shipped_ptx(cipher);
        if write {
            std::fs::write(&path, &made.ptx)?;
            continue;
        }
        let is_same = std::fs::read_to_string(&path).is_ok_and(|text| text == made.ptx);
        ensure!(
            is_same,
            "{cipher}: another PTX than NVRTC {} makes; --write-ptx makes it anew",
            nvrtc::SHIPS
        );
    }
    Ok(())
}

fn spills(work: &Work, tally: &mut Tally) {
    let nvrtc = match Nvrtc::install(nvrtc::NEWEST) {
        Ok(nvrtc) => nvrtc,
        Err(reason) => return tally.fail(format!("NVRTC: {reason}")),
    };
    for architecture in ARCHITECTURES {
        tally.count(architecture, without_spills(work, &nvrtc, architecture, &[]));
    }
    // That one would be seen: with few registers Camellia does not fit.
    let starved = without_spills(work, &nvrtc, "sm_90", &["--maxrregcount=24"]);
    let noticed = match starved {
        Err(failure) if failure.to_string().contains("bytes of local memory") => Ok(()),
        Err(failure) => Err(failure),
        Ok(()) => Err(Failure::new("kernels with 24 registers do not spill")),
    };
    tally.count("a spill is noticed", noticed);
}

fn without_spills(work: &Work, nvrtc: &Nvrtc, architecture: &str, options: &[&str]) -> Result {
    let sources = work.sources("cuda")?;
    let output = work.below(architecture)?;
    let made = nvrtc.compile(architecture, options, &sources, &output)?;
    let mut most = Vec::new();
    for ((cipher, _), made) in sources.iter().zip(made) {
        let resources = cubin::resources(&made.cubin)?;
        if let Some(spills) = resources.iter().find(|resources| resources.stack > 0) {
            return Err(Failure::new(format!("{cipher}: {} bytes of local memory", spills.stack)));
        }
        let registers = resources.iter().map(|resources| resources.registers).max().unwrap_or(0);
        most.push(format!("{cipher} {registers}"));
    }
    println!("  {architecture}: most registers of a kernel: {}", most.join(", "));
    Ok(())
}

fn report(what: &str, functions: &[flow::Function]) -> Result {
    let mut sum = flow::Findings::default();
    for function in functions {
        let flow::Findings { loads, stores, branches, leaks } = flow::examine(function);
        ensure!(loads > 0 && stores > 0, "{what}: {} neither loads nor stores", function.name);
        (sum.loads, sum.stores, sum.branches) =
            (sum.loads + loads, sum.stores + stores, sum.branches + branches);
        sum.leaks.extend(leaks);
    }
    ensure!(sum.leaks.is_empty(), "{what}: {}", sum.leaks.join("\n"));
    let kernels = functions.len();
    println!(
        "  {what}: {kernels} kernels, {} loads, {} stores, {} branches: no secret decides",
        sum.loads, sum.stores, sum.branches
    );
    Ok(())
}

/// Kernels of a cipher: those of ChaCha20 have no schedule, and only encrypt.
fn ensure_all(cipher: &str, functions: &[flow::Function]) -> Result {
    let expected = if cipher == "chacha20" { 1 } else { 3 };
    ensure!(functions.len() == expected, "{cipher}: {} kernels where {expected} are", functions.len());
    Ok(())
}

fn flow_of_ptx() -> Result {
    let mut all = Vec::new();
    for cipher in CIPHERS {
        let functions = ptx::functions(&std::fs::read_to_string(shipped_ptx(cipher))?)?;
        ensure_all(cipher, &functions)?;
        all.extend(functions);
    }
    report("PTX", &all)
}

fn flow_of_opencl(work: &Work) -> Result {
    packages::need(&[(CLANG, CLANG)])?;
    let mut all = Vec::new();
    for (cipher, source) in work.sources("opencl")? {
        let functions = llvm::functions(&compiled_for_opencl(&source)?)?;
        ensure_all(&cipher, &functions)?;
        all.extend(functions);
    }
    report("OpenCL, LLVM's code", &all)
}

fn compiled_for_opencl(source: &Path) -> Result<String> {
    let mut compile = Command::new(CLANG);
    compile.args(["-x", "cl", "-cl-std=CL1.2", "-O2", "-fno-slp-vectorize", "-S", "-emit-llvm"]);
    compile.args(["-Xclang", "-finclude-default-header", "-target", "spir64-unknown-unknown"]);
    compile.args(["-fno-discard-value-names", "-o", "-"]).arg(source);
    command::output(&mut compile, COMPILE_LIMIT)
}
