//! What a lane does, and the lines of its log.
//!
//! `B NUMBER ACTION` is written before an action, `E NUMBER` when it has succeeded, and `X NUMBER`
//! when it failed because the mount was gone. A line without its end does not count.
//!
//! An `fsync` beside (`beside`) is no action, since others are done while it is under way:
//! `S NUMBER PATH` is written before it, `T NUMBER` when it has succeeded.

use std::path::Path;

use strongroom_harness::failure::{Context, Failure, Result};

/// What a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Nothing.
    No,
    /// `O_DSYNC`.
    Data,
    /// `O_SYNC`.
    All,
}

/// One system call, more or less. Paths are relative to the lane's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Create {
        path: String,
    },
    Write {
        path: String,
        offset: u64,
        len: u64,
        wait: Wait,
    },
    SetLen {
        path: String,
        len: u64,
    },
    Punch {
        path: String,
        offset: u64,
        len: u64,
    },
    Fsync {
        path: String,
    },
    Fdatasync {
        path: String,
    },
    /// The lane's last descriptor of the file.
    Close {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// `renameat2(2)` with `RENAME_EXCHANGE`.
    Exchange {
        one: String,
        other: String,
    },
    Link {
        from: String,
        to: String,
    },
    Symlink {
        path: String,
    },
    Unlink {
        path: String,
    },
    Mkdir {
        path: String,
    },
    Rmdir {
        path: String,
    },
    SyncDirectory {
        path: String,
    },
}

impl Action {
    /// What it names; the second is empty where there is but one.
    fn paths(&self) -> [&str; 2] {
        match self {
            Self::Rename { from, to } | Self::Link { from, to } => [from, to],
            Self::Exchange { one, other } => [one, other],
            Self::Create { path }
            | Self::Write { path, .. }
            | Self::SetLen { path, .. }
            | Self::Punch { path, .. }
            | Self::Fsync { path }
            | Self::Fdatasync { path }
            | Self::Close { path }
            | Self::Symlink { path }
            | Self::Unlink { path }
            | Self::Mkdir { path }
            | Self::Rmdir { path }
            | Self::SyncDirectory { path } => [path, ""],
        }
    }

    fn line(&self) -> String {
        match self {
            Self::Create { path } => format!("create {path}"),
            Self::Write { path, offset, len, wait } => {
                let wait = match wait {
                    Wait::No => "no",
                    Wait::Data => "data",
                    Wait::All => "all",
                };
                format!("write {path} {offset} {len} {wait}")
            }
            Self::SetLen { path, len } => format!("set-len {path} {len}"),
            Self::Punch { path, offset, len } => format!("punch {path} {offset} {len}"),
            Self::Fsync { path } => format!("fsync {path}"),
            Self::Fdatasync { path } => format!("fdatasync {path}"),
            Self::Close { path } => format!("close {path}"),
            Self::Rename { from, to } => format!("rename {from} {to}"),
            Self::Exchange { one, other } => format!("exchange {one} {other}"),
            Self::Link { from, to } => format!("link {from} {to}"),
            Self::Symlink { path } => format!("symlink {path}"),
            Self::Unlink { path } => format!("unlink {path}"),
            Self::Mkdir { path } => format!("mkdir {path}"),
            Self::Rmdir { path } => format!("rmdir {path}"),
            Self::SyncDirectory { path } => format!("sync-directory {path}"),
        }
    }

    fn parse(words: &[&str]) -> Option<Self> {
        let text = |at: usize| words.get(at).map(|word| (*word).to_owned());
        let number = |at: usize| words.get(at)?.parse().ok();
        Some(match *words.first()? {
            "create" => Self::Create { path: text(1)? },
            "write" => {
                let wait = match *words.get(4)? {
                    "no" => Wait::No,
                    "data" => Wait::Data,
                    "all" => Wait::All,
                    _ => return None,
                };
                Self::Write { path: text(1)?, offset: number(2)?, len: number(3)?, wait }
            }
            "set-len" => Self::SetLen { path: text(1)?, len: number(2)? },
            "punch" => Self::Punch { path: text(1)?, offset: number(2)?, len: number(3)? },
            "fsync" => Self::Fsync { path: text(1)? },
            "fdatasync" => Self::Fdatasync { path: text(1)? },
            "close" => Self::Close { path: text(1)? },
            "rename" => Self::Rename { from: text(1)?, to: text(2)? },
            "exchange" => Self::Exchange { one: text(1)?, other: text(2)? },
            "link" => Self::Link { from: text(1)?, to: text(2)? },
            "symlink" => Self::Symlink { path: text(1)? },
            "unlink" => Self::Unlink { path: text(1)? },
            "mkdir" => Self::Mkdir { path: text(1)? },
            "rmdir" => Self::Rmdir { path: text(1)? },
            "sync-directory" => Self::SyncDirectory { path: words.get(1).copied().unwrap_or("").to_owned() },
            _ => return None,
        })
    }
}

/// One line of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An action begins.
    Begin { number: u64, action: Action },
    /// It has succeeded.
    End { number: u64 },
    /// The mount was gone; whether it took effect is not known.
    Gone { number: u64 },
    /// An `fsync` beside begins.
    SyncBegun { number: u64, path: String },
    /// It has succeeded.
    SyncEnded { number: u64 },
}

impl Line {
    /// As it stands in the log, with its end.
    pub fn text(&self) -> String {
        match self {
            Self::Begin { number, action } => format!("B {number} {}\n", action.line()),
            Self::End { number } => format!("E {number}\n"),
            Self::Gone { number } => format!("X {number}\n"),
            Self::SyncBegun { number, path } => format!("S {number} {path}\n"),
            Self::SyncEnded { number } => format!("T {number}\n"),
        }
    }

    /// Whether a text tells of something that this line names, whatever its directory.
    pub fn is_told_in(&self, text: &str) -> bool {
        let paths = match self {
            Self::Begin { action, .. } => action.paths(),
            Self::SyncBegun { path, .. } => [path.as_str(), ""],
            Self::End { .. } | Self::Gone { .. } | Self::SyncEnded { .. } => ["", ""],
        };
        let names = paths.iter().filter_map(|path| path.rsplit('/').next());
        names.filter(|name| !name.is_empty()).any(|name| text.contains(name))
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = words.get(1)?.parse().ok()?;
        Some(match *words.first()? {
            "B" => Self::Begin { number, action: Action::parse(&words[2..])? },
            "E" => Self::End { number },
            "X" => Self::Gone { number },
            "S" => Self::SyncBegun { number, path: (*words.get(2)?).to_owned() },
            "T" => Self::SyncEnded { number },
            _ => return None,
        })
    }
}

/// A log: its whole lines, each with the position behind it.
pub fn read(file: &Path) -> Result<Vec<(u64, Line)>> {
    let text = std::fs::read_to_string(file).context(file.display())?;
    let mut lines = Vec::new();
    let mut position = 0;
    for piece in text.split_inclusive('\n') {
        let Some(line) = piece.strip_suffix('\n') else { break };
        position += piece.len() as u64;
        let parsed = Line::parse(line)
            .ok_or_else(|| Failure::new(format!("{}: not a line of a log: {line}", file.display())))?;
        lines.push((position, parsed));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_belongs_to_what_tells_of_its_names() {
        let write = Action::Write { path: "d/f7".into(), offset: 5, len: 7, wait: Wait::No };
        let line = Line::Begin { number: 9, action: write };
        assert!(line.is_told_in("e/f7 (made by 3): page 1") && !line.is_told_in("d/f8: page 5, 7"));
        assert!(!Line::End { number: 9 }.is_told_in("d/f9"));
    }

    #[test]
    fn lines_come_back_as_they_were_written() -> Result {
        let path = || "d/f".to_owned();
        let actions = [
            Action::Create { path: path() },
            Action::Write { path: path(), offset: 5, len: 7, wait: Wait::Data },
            Action::SetLen { path: path(), len: 3 },
            Action::Punch { path: path(), offset: 1, len: 2 },
            Action::Rename { from: path(), to: "e".into() },
            Action::Exchange { one: path(), other: "e".into() },
            Action::SyncDirectory { path: String::new() },
        ];
        let mut lines: Vec<Line> =
            actions.into_iter().map(|action| Line::Begin { number: 9, action }).collect();
        lines.push(Line::End { number: 9 });
        lines.push(Line::Gone { number: 10 });
        lines.push(Line::SyncBegun { number: 11, path: path() });
        lines.push(Line::SyncEnded { number: 11 });
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("log");
        let text: String = lines.iter().map(Line::text).collect();
        std::fs::write(&file, format!("{text}E 1"))?;
        let found = read(&file)?;
        assert_eq!(found.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>(), lines);
        assert_eq!(found.last().map(|(position, _)| *position), Some(text.len() as u64));
        Ok(())
    }
}
