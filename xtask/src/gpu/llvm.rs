//! LLVM's intermediate code of OpenCL kernels, as text, as instructions on registers.

use std::collections::BTreeSet;

use super::flow::{Effect, Function, Instruction};
use strongroom_harness::failure::{Failure, Result, ensure};

/// The kernels of a module. Their parameter `pieces` is public.
///
/// # Errors
/// For what is not understood, or would be another way to memory.
pub(super) fn functions(text: &str) -> Result<Vec<Function>> {
    let mut functions = Vec::new();
    let mut current: Option<Function> = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with("define ") {
            ensure!(line.contains("spir_kernel"), "a function that is no kernel was not inlined: {line}");
            current = Some(function(line)?);
        } else if line == "}" {
            functions.extend(current.take());
        } else if let Some(function) = &mut current
            && let Some(instruction) = instruction(&function.name, line)?
        {
            function.instructions.push(instruction);
        }
    }
    ensure!(!functions.is_empty(), "there is no kernel");
    Ok(functions)
}

/// Names with `%` in front, but not those of blocks and types.
fn registers(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '%' | '_' | '.' | '-' | '$')));
    let mut found = Vec::new();
    let mut before = "";
    for word in words.filter(|word| !word.is_empty()) {
        if word.starts_with('%') && before != "label" {
            found.push(word.to_owned());
        }
        before = word;
    }
    found
}

fn function(head: &str) -> Result<Function> {
    let name = head.split('@').nth(1).and_then(|rest| rest.split('(').next());
    let name = name.ok_or_else(|| Failure::new(format!("a kernel without a name: {head}")))?.to_owned();
    let parameters = head.split_once('(').map_or("", |(_, rest)| rest);
    let parameters: Vec<&str> = parameters.split(", ").collect();
    let of_pointer = |text: &&str| text.contains('*').then(|| registers(text).into_iter().next()).flatten();
    // Numbers are public, and no place to load from.
    let parameters: Vec<String> = parameters.iter().filter_map(of_pointer).collect();
    let is_public = |(_, name): &(usize, &String)| *name == "%pieces";
    let public: BTreeSet<usize> = parameters.iter().enumerate().filter(is_public).map(|(at, _)| at).collect();
    ensure!(name.ends_with("_expand") || public.len() == 1, "{name}: no parameter `pieces`");
    let given = parameters.into_iter().enumerate().map(|(at, parameter)| Instruction {
        effect: Effect::Parameter(at),
        results: vec![parameter],
        operands: Vec::new(),
        text: String::new(),
    });
    Ok(Function { name, public, instructions: given.collect() })
}

fn instruction(function: &str, line: &str) -> Result<Option<Instruction>> {
    // Labels, what is said of the code, and the cases of a switch, which its first line stands for.
    let is_case = line == "]" || line.starts_with('i') && line.contains(", label %") && !line.contains('=');
    if is_case
        || line.is_empty()
        || line.starts_with(';')
        || line.split_whitespace().next().is_some_and(|w| w.ends_with(':'))
    {
        return Ok(None);
    }
    let code = line.split(", !").next().unwrap_or(line);
    let (result, code) = match code.split_once(" = ") {
        Some((result, code)) => (vec![result.to_owned()], code),
        None => (Vec::new(), code),
    };
    let word = code.trim_start_matches("tail ").split_whitespace().next().unwrap_or_default();
    let called = |name: &str| word == "call" && code.contains(name);
    let pointer_last = || {
        let pointers = code.rsplit_once('*').map_or("", |(_, rest)| rest);
        registers(pointers)
    };
    let (effect, operands) = match word {
        "load" => (Effect::Load, pointer_last()),
        "store" => {
            let address = pointer_last();
            let stored = registers(code.split_once(',').map_or("", |(stored, _)| stored));
            (Effect::Store { address: address.len() }, [address, stored].concat())
        }
        "br" | "switch" | "ret" => (Effect::Branch, registers(code)),
        _ if called("vload4") => (Effect::Load, registers(code)),
        _ if called("vstore4") => {
            let arguments = code.split_once('(').map_or("", |(_, arguments)| arguments);
            let (value, address) = arguments.split_once(',').unwrap_or((arguments, ""));
            let address = registers(address);
            (Effect::Store { address: address.len() }, [address, registers(value)].concat())
        }
        _ if called("@_Z13get_global_id") => (Effect::Compute, Vec::new()),
        _ if called("@_Z6rotate") || called("@llvm.fsh") || called("@llvm.bswap") => {
            (Effect::Compute, registers(code))
        }
        "call" => return Err(Failure::new(format!("{function}: not expected in these kernels: {line}"))),
        "alloca" | "atomicrmw" | "cmpxchg" | "indirectbr" | "invoke" => {
            return Err(Failure::new(format!("{function}: not expected in these kernels: {line}")));
        }
        _ if result.is_empty() => {
            return Err(Failure::new(format!("{function}: not understood: {line}")));
        }
        _ => (Effect::Compute, registers(code)),
    };
    Ok(Some(Instruction { effect, results: result, operands, text: line.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::super::flow::{Findings, examine};
    use super::*;

    fn found(body: &str) -> Findings {
        let head = "define dso_local spir_kernel void @k_encrypt(i32 addrspace(1)* nocapture noundef readonly %pieces, \
            i32 addrspace(1)* noundef %data, i32 noundef %total) local_unnamed_addr #0 {\nentry:\n";
        examine(&functions(&format!("{head}{body}\n}}\n")).expect("it is understood")[0])
    }

    const START: &str = "%call = tail call spir_func i64 @_Z13get_global_idj(i32 noundef 0) #4\n\
        %a = getelementptr inbounds i32, i32 addrspace(1)* %pieces, i64 %call\n\
        %n = load i32, i32 addrspace(1)* %a, align 4, !tbaa !10\n%w = zext i32 %n to i64\n\
        %b = getelementptr inbounds i32, i32 addrspace(1)* %data, i64 %w\n\
        %v = tail call spir_func <4 x i32> @_Z6vload4mPU3AS1Kj(i64 noundef 0, i32 addrspace(1)* noundef %b) #6\n\
        %s = extractelement <4 x i32> %v, i64 0\n";

    #[test]
    fn what_is_public_may_decide() {
        let rest = "%c = icmp eq i32 %n, %total\nbr i1 %c, label %then, label %else\nthen:\n\
            tail call spir_func void @_Z7vstore4Dv4_jmPU3AS1j(<4 x i32> noundef %v, i64 noundef 0, i32 addrspace(1)* noundef %b) #5\n\
            br label %else\nelse: ; preds = %then\n%x = phi i32 [ %s, %then ], [ 0, %entry ]\n\
            store i32 %x, i32 addrspace(1)* %b, align 4\nret void";
        let expected = Findings { loads: 2, stores: 2, branches: 3, leaks: Vec::new() };
        assert_eq!(found(&format!("{START}{rest}")), expected);
    }

    #[test]
    fn a_secret_that_decides_is_found() {
        for leak in [
            "%c = icmp eq i32 %s, 0\nbr i1 %c, label %then, label %else",
            "%e = zext i32 %s to i64\n%p = getelementptr inbounds i32, i32 addrspace(1)* %data, i64 %e\n\
                %l = load i32, i32 addrspace(1)* %p, align 4",
            "%e = zext i32 %s to i64\n%p = getelementptr inbounds i32, i32 addrspace(1)* %data, i64 %e\n\
                store i32 0, i32 addrspace(1)* %p, align 4",
            "switch i32 %s, label %d [\n",
        ] {
            assert_eq!(found(&format!("{START}{leak}")).leaks.len(), 1, "{leak}");
        }
    }

    #[test]
    fn other_ways_to_memory_are_refused() {
        for line in ["%x = alloca [16 x i32], align 4", "call void @f(i32 %s)", "indirectbr i8* %t, [ ]"] {
            let text = format!("define spir_kernel void @k(i32 addrspace(1)* %pieces) #0 {{\n{line}\n}}\n");
            assert!(functions(&text).is_err(), "{line}");
        }
        assert!(functions("define internal spir_func void @f(i32* %x) #0 {\nret void\n}\n").is_err());
    }
}
