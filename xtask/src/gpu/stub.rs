//! A driver of CUDA that is not there: a library with the driver's functions, which runs the kernels on the CPU, compiled
//! from the same source by the C compiler. It shows that the engine calls the driver as it should, as far as that
//! can be shown without one. It knows nothing of PTX.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result};

const COMPILE_LIMIT: Duration = Duration::from_secs(120);
const DRIVER: &str = include_str!("stub.c");
/// The prelude of C: words as the two others define them.
const PRELUDE: &str = "\
typedef unsigned int u32;
#define KERNEL(name) static void name
#define GLOBAL
#define DEVICE static inline
#define GLOBAL_ID stub_global_id
#define ROTL(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define LOAD4(p, v) do { (v)[0] = (p)[0]; (v)[1] = (p)[1]; (v)[2] = (p)[2]; (v)[3] = (p)[3]; } while (0)
#define STORE4(p, v) do { (p)[0] = (v)[0]; (p)[1] = (v)[1]; (p)[2] = (v)[2]; (p)[3] = (v)[3]; } while (0)
#define UNROLL
#define ROLL
static _Thread_local u32 stub_global_id;
";

/// Makes `libcuda.so.1` in `directory`. `sources` are those of all ciphers, for CUDA, and `prelude` what they begin
/// with, which is replaced.
pub(super) fn make(directory: &Path, prelude: &str, sources: &[(String, PathBuf)]) -> Result<PathBuf> {
    let library = directory.join("libcuda.so.1");
    let mut objects = Vec::new();
    let mut table = String::new();
    for (cipher, path) in sources {
        let text = std::fs::read_to_string(path)?;
        let kernels = text.strip_prefix(prelude);
        let kernels = kernels.ok_or_else(|| Failure::new(format!("{cipher}: another prelude")))?;
        let mut source =
            format!("{PRELUDE}{kernels}\nvoid stub_set_id_{cipher}(u32 id) {{ stub_global_id = id; }}\n");
        for entry in ["expand", "encrypt", "decrypt"] {
            let name = format!("{cipher}_{entry}");
            if kernels.contains(&format!("({name}")) {
                let _ = writeln!(source, "const void *stub_{name} = (const void *)&{name};");
                let _ = writeln!(table, "KERNEL_ENTRY({cipher}, {name})");
            }
        }
        let (c, object) = (directory.join(format!("{cipher}.c")), directory.join(format!("{cipher}.o")));
        std::fs::write(&c, source)?;
        compile(&["-O2", "-fPIC", "-w", "-c"], &[c], &object)?;
        objects.push(object);
    }
    let driver = directory.join("driver.c");
    std::fs::write(&driver, DRIVER.replace("KERNEL_TABLE", &table))?;
    objects.insert(0, driver);
    compile(&["-O2", "-fPIC", "-shared", "-Wall", "-Werror", "-pthread"], &objects, &library)?;
    Ok(library)
}

fn compile(options: &[&str], inputs: &[PathBuf], output: &Path) -> Result {
    let mut compile = Command::new("gcc");
    compile.args(options).arg("-o").arg(output).args(inputs);
    command::output(&mut compile, COMPILE_LIMIT).map(drop)
}
