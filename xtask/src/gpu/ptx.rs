//! PTX (NVIDIA, "Parallel Thread Execution ISA") as instructions on registers.

use std::collections::BTreeSet;

use super::flow::{Effect, Function, Instruction};
use strongroom_harness::failure::{Failure, Result, ensure};

/// The functions of a module. Of those that are no `*_expand`, which have secrets alone, the first parameter is public.
///
/// # Errors
/// For what is not understood, or would be another way to memory.
pub(super) fn functions(text: &str) -> Result<Vec<Function>> {
    let mut functions = Vec::new();
    let mut current: Option<Function> = None;
    for line in text.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix(".visible .entry ") {
            let name = head.trim_end_matches('(').to_owned();
            let public = if name.ends_with("_expand") { BTreeSet::new() } else { BTreeSet::from([0]) };
            current = Some(Function { name, public, instructions: Vec::new() });
        } else if line == "}" {
            functions.extend(current.take());
        } else if let (Some(function), Some(statement)) = (&mut current, line.strip_suffix(';')) {
            if !statement.starts_with('.') && !statement.starts_with("//") {
                function.instructions.push(instruction(&function.name, statement)?);
            } else {
                ensure!(!statement.contains(".local"), "{}: memory of a thread: {line}", function.name);
            }
        }
    }
    ensure!(!functions.is_empty(), "there is no function");
    Ok(functions)
}

/// Registers in a text, without those that say which thread this is.
fn registers(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '%' | '_' | '.')));
    let is_register = |word: &&str| {
        word.starts_with('%')
            && !["%tid", "%ntid", "%ctaid", "%nctaid"].iter().any(|name| word.starts_with(name))
    };
    words.filter(is_register).map(str::to_owned).collect()
}

fn instruction(function: &str, statement: &str) -> Result<Instruction> {
    let text = statement.to_owned();
    let (guard, statement) = match statement.strip_prefix('@') {
        Some(rest) => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        None => ("", statement),
    };
    let (name, operands) = statement.trim().split_once(char::is_whitespace).unwrap_or((statement.trim(), ""));
    let guard = registers(guard);
    let made = |effect, results, operands| Ok(Instruction { effect, results, operands, text: text.clone() });
    // Between brackets is an address.
    let address = operands.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let word = name.split('.').next().unwrap_or_default();
    match (word, address) {
        ("ld", Some((parameter, _))) if name.starts_with("ld.param") => {
            let number = parameter.rsplit_once("_param_").and_then(|(_, number)| number.parse().ok());
            let number =
                number.ok_or_else(|| Failure::new(format!("{function}: which parameter? {text}")))?;
            let results = registers(operands.split('[').next().unwrap_or_default());
            // Numbers are public, and no place to load from.
            let is_pointer = name.ends_with("64");
            made(if is_pointer { Effect::Parameter(number) } else { Effect::Compute }, results, guard)
        }
        ("ld", Some((address, _))) if name.starts_with("ld.global") => {
            let results = registers(operands.split('[').next().unwrap_or_default());
            made(Effect::Load, results, [registers(address), guard].concat())
        }
        ("st", Some((address, rest))) if name.starts_with("st.global") => {
            let decisive = [registers(address), guard].concat();
            let count = decisive.len();
            made(Effect::Store { address: count }, Vec::new(), [decisive, registers(rest)].concat())
        }
        ("bra" | "ret" | "exit" | "trap", _) => made(Effect::Branch, Vec::new(), guard),
        ("ld" | "st" | "ldu" | "atom" | "red" | "tex" | "call" | "brx" | "bar", _) => {
            Err(Failure::new(format!("{function}: not expected in these kernels: {text}")))
        }
        _ => {
            let mut all = registers(operands);
            ensure!(!all.is_empty(), "{function}: not understood: {text}");
            // Only comparisons have two results; they write `%p1|%p2`, which these compilers do not use.
            ensure!(!operands.contains('|'), "{function}: two results: {text}");
            let result = all.remove(0);
            // A guarded instruction may leave its result as it was.
            made(Effect::Compute, vec![result.clone()], [all, guard, vec![result]].concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::{Findings, examine};
    use super::*;

    fn found(body: &str) -> Findings {
        let text = format!(
            ".visible .entry k_encrypt(\n.param .u64 k_encrypt_param_0\n)\n{{\n.reg .b32 %r<9>;\n{body}\n}}\n"
        );
        examine(&functions(&text).expect("it is understood")[0])
    }

    const POINTERS: &str = "ld.param.u64 %rd1, [k_encrypt_param_0];\nld.param.u64 %rd2, [k_encrypt_param_1];\n\
        cvta.to.global.u64 %rd3, %rd1;\ncvta.to.global.u64 %rd4, %rd2;\nmov.u32 %r1, %tid.x;\n";

    #[test]
    fn what_is_public_may_decide() {
        let body = "mul.wide.u32 %rd5, %r1, 4;\nadd.s64 %rd6, %rd3, %rd5;\nld.global.u32 %r2, [%rd6+4];\n\
            mul.wide.u32 %rd7, %r2, 4;\nadd.s64 %rd8, %rd4, %rd7;\nld.global.v2.u32 {%r3, %r4}, [%rd8];\n\
            xor.b32 %r5, %r3, %r4;\nst.global.u32 [%rd8+8], %r5;\nsetp.eq.s32 %p1, %r2, 0;\n@%p1 bra $L__1;\nret;";
        let expected = Findings { loads: 2, stores: 1, branches: 2, leaks: Vec::new() };
        assert_eq!(found(&format!("{POINTERS}{body}")), expected);
    }

    #[test]
    fn a_secret_that_decides_is_found() {
        let secret = "ld.global.u32 %r2, [%rd4];\nxor.b32 %r3, %r2, %r1;\n";
        for leak in [
            "mul.wide.u32 %rd7, %r3, 4;\nadd.s64 %rd8, %rd4, %rd7;\nld.global.u32 %r4, [%rd8];",
            "mul.wide.u32 %rd7, %r3, 4;\nadd.s64 %rd8, %rd4, %rd7;\nst.global.u32 [%rd8], %r1;",
            "setp.eq.s32 %p1, %r3, 0;\n@%p1 bra $L__1;",
            "setp.eq.s32 %p1, %r3, 0;\n@%p1 ld.global.u32 %r4, [%rd4];",
            // A pointer that may be either is not public.
            "selp.b64 %rd9, %rd3, %rd4, %p9;\nld.global.u32 %r5, [%rd9];\nsetp.eq.s32 %p1, %r5, 0;\n@%p1 bra $L__1;",
        ] {
            assert_eq!(found(&format!("{POINTERS}{secret}{leak}")).leaks.len(), 1, "{leak}");
        }
    }

    #[test]
    fn other_ways_to_memory_are_refused() {
        for line in ["ld.local.u32 %r1, [%rd1];", "tex.1d.v4.u32.s32 {%r1}, [t, {%r2}];", "call f, (%r1);"] {
            let text = format!(".visible .entry k(\n)\n{{\n{line}\n}}\n");
            assert!(functions(&text).is_err(), "{line}");
        }
        assert!(
            functions(".visible .entry k(\n)\n{\n.local .align 4 .b8 __local_depot0[16];\nret;\n}\n")
                .is_err()
        );
    }
}
