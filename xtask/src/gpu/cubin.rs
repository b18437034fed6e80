//! What a kernel takes of a GPU, read from the machine code that NVRTC makes (ELF with NVIDIA's `.nv.info`; the
//! attributes' numbers are those that `cuobjdump -elf` names).

use strongroom_harness::failure::{Failure, Result, ensure};

/// Of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) function: u32,
    pub(super) registers: u32,
    /// Bytes of local memory that a thread needs: what does not fit into registers.
    pub(super) stack: u32,
}

const EIATTR_FRAME_SIZE: u8 = 0x11;
const EIATTR_MIN_STACK_SIZE: u8 = 0x12;
const EIATTR_REGCOUNT: u8 = 0x2f;
/// An attribute's value has a length of its own.
const EIFMT_SVAL: u8 = 4;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<u64> {
    let found = bytes.get(at..at + N).ok_or_else(|| Failure::new("the machine code is cut short"))?;
    Ok(found.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// A section's name, bytes in memory, and content.
struct Section<'c> {
    name: String,
    size: u64,
    content: &'c [u8],
}

fn sections(cubin: &[u8]) -> Result<Vec<Section<'_>>> {
    ensure!(cubin.starts_with(b"\x7fELF\x02\x01"), "the machine code is no 64-bit ELF");
    let table = number::<8>(cubin, 40)? as usize;
    let (entry, count, names) = (
        number::<2>(cubin, 58)? as usize,
        number::<2>(cubin, 60)? as usize,
        number::<2>(cubin, 62)? as usize,
    );
    let header = |index: usize, field: usize| number::<8>(cubin, table + index * entry + field);
    let content = |index: usize| -> Result<&[u8]> {
        let (start, size) = (header(index, 24)? as usize, header(index, 32)? as usize);
        // SHT_NOBITS has no bytes in the file.
        let is_empty = number::<4>(cubin, table + index * entry + 4)? == 8;
        let range = if is_empty { 0..0 } else { start..start + size };
        cubin.get(range).ok_or_else(|| Failure::new("a section lies outside of the machine code"))
    };
    let names = content(names)?;
    let section = |index: usize| {
        let start = number::<4>(cubin, table + index * entry)? as usize;
        let name = names.get(start..).unwrap_or_default();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(Section {
            name: String::from_utf8_lossy(name).into_owned(),
            size: header(index, 32)?,
            content: content(index)?,
        })
    };
    (0..count).map(section).collect()
}

/// Of every function in it. Local memory that a function has by a section of its own counts as stack, too.
pub(super) fn resources(cubin: &[u8]) -> Result<Vec<Resources>> {
    let mut found: Vec<Resources> = Vec::new();
    let sections = sections(cubin)?;
    for section in &sections {
        if section.name.starts_with(".nv.local") && section.size > 0 {
            found.push(Resources { stack: section.size as u32, ..Resources::default() });
        }
    }
    let info = sections.iter().find(|section| section.name == ".nv.info");
    let info = info.ok_or_else(|| Failure::new("the machine code has no .nv.info"))?.content;
    let mut at = 0;
    while at < info.len() {
        let (format, attribute) = (number::<1>(info, at)? as u8, number::<1>(info, at + 1)? as u8);
        if format != EIFMT_SVAL {
            at += 4;
            continue;
        }
        let len = number::<2>(info, at + 2)? as usize;
        if [EIATTR_FRAME_SIZE, EIATTR_MIN_STACK_SIZE, EIATTR_REGCOUNT].contains(&attribute) {
            let (function, value) = (number::<4>(info, at + 4)? as u32, number::<4>(info, at + 8)? as u32);
            let place = found.iter().position(|resources| resources.function == function);
            let place = place.unwrap_or_else(|| {
                found.push(Resources { function, ..Resources::default() });
                found.len() - 1
            });
            match attribute {
                EIATTR_REGCOUNT => found[place].registers = value,
                _ => found[place].stack = found[place].stack.max(value),
            }
        }
        at += 4 + len;
    }
    ensure!(found.iter().any(|resources| resources.registers > 0), "the machine code names no registers");
    Ok(found)
}
