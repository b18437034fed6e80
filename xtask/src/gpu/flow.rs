//! Whether an address or a branch depends on a secret, in code of registers that a compiler made.
//!
//! Every value that is loaded is secret, unless its address was made from public pointers alone. What is computed from
//! a secret is secret. A secret in an address, or in the condition of a branch, is a leak. The order of instructions is
//! not looked at, so that loops need no care: a register that is secret anywhere is secret everywhere.

use std::collections::{BTreeSet, HashMap};

/// What an instruction does with registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The address of a parameter: its number.
    Parameter(usize),
    /// Results are computed from all operands.
    Compute,
    /// Results come from memory at an address made from all operands.
    Load,
    /// The first so many operands are an address, the others go to memory.
    Store { address: usize },
    /// All operands decide what runs next.
    Branch,
}

/// An instruction, with its text for messages.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub(super) effect: Effect,
    pub(super) results: Vec<String>,
    pub(super) operands: Vec<String>,
    pub(super) text: String,
}

/// A function, and which of its parameters point to what is public.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) public: BTreeSet<usize>,
    pub(super) instructions: Vec<Instruction>,
}

/// What is known of a register.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Value {
    is_secret: bool,
    /// Parameters that went into it.
    from: BTreeSet<usize>,
}

/// What was looked at, and what is wrong.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    pub(super) loads: usize,
    pub(super) stores: usize,
    pub(super) branches: usize,
    pub(super) leaks: Vec<String>,
}

/// Looks at a function.
pub(super) fn examine(function: &Function) -> Findings {
    let values = fixed_point(function);
    let is_secret =
        |names: &[String]| names.iter().any(|name| values.get(name).is_some_and(|value| value.is_secret));
    let mut findings = Findings::default();
    for instruction in &function.instructions {
        let (count, decisive) = match instruction.effect {
            Effect::Load => (&mut findings.loads, &instruction.operands[..]),
            Effect::Store { address } => (&mut findings.stores, &instruction.operands[..address]),
            Effect::Branch => (&mut findings.branches, &instruction.operands[..]),
            Effect::Compute | Effect::Parameter(_) => continue,
        };
        *count += 1;
        if is_secret(decisive) {
            findings.leaks.push(format!("{}: a secret decides: {}", function.name, instruction.text));
        }
    }
    findings
}

fn fixed_point(function: &Function) -> HashMap<String, Value> {
    let mut values: HashMap<String, Value> = HashMap::new();
    loop {
        let mut has_changed = false;
        for instruction in &function.instructions {
            let mut made = Value::default();
            for operand in instruction.operands.iter().filter_map(|name| values.get(name)) {
                made.is_secret |= operand.is_secret;
                made.from.extend(&operand.from);
            }
            match &instruction.effect {
                Effect::Parameter(number) => drop(made.from.insert(*number)),
                Effect::Load => {
                    let is_public = !made.from.is_empty() && made.from.is_subset(&function.public);
                    made = Value { is_secret: made.is_secret || !is_public, from: BTreeSet::new() };
                }
                Effect::Compute => {}
                Effect::Store { .. } | Effect::Branch => continue,
            }
            for result in &instruction.results {
                let value = values.entry(result.clone()).or_default();
                let before = value.clone();
                value.is_secret |= made.is_secret;
                value.from.extend(&made.from);
                has_changed |= *value != before;
            }
        }
        if !has_changed {
            return values;
        }
    }
}
