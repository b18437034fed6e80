//! Hides ARMv8's cryptography extension from programs. QEMU has no processor without it that is of AArch64; so a
//! library that is loaded first answers in the C library's place what the processor has. All who ask, ask there: the
//! standard library, RustCrypto, AWS-LC and libaegis.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result};

use super::machine::Machine;

const SOURCE: &str = "\
#define _GNU_SOURCE
#include <asm/hwcap.h>
#include <dlfcn.h>
#include <sys/auxv.h>
unsigned long getauxval(unsigned long type) {
    unsigned long (*asked)(unsigned long) = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, \"getauxval\");
    unsigned long hidden = HWCAP_AES | HWCAP_PMULL | HWCAP_SHA1 | HWCAP_SHA2 | HWCAP_SHA3 | HWCAP_SHA512;
    return type == AT_HWCAP ? asked(type) & ~hidden : asked(type);
}
";
const LIMIT: Duration = Duration::from_secs(60);

/// Compiles the library below `directory`.
pub(super) fn library(machine: &Machine, directory: &Path) -> Result<PathBuf> {
    let (source, library) = (directory.join("hidden.c"), directory.join("hidden.so"));
    std::fs::write(&source, SOURCE).context(source.display())?;
    let mut compile = Command::new(machine.compiler());
    compile.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    command::output(&mut compile, LIMIT)?;
    Ok(library)
}
