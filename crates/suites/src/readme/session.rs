//! One user at one terminal, who types one line after the other.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::account::Account;
use super::lines::Line;
use super::screen::{Screen, squeezed};
use super::script::{self, Answer, Step};
use super::shell::{Ended, PROMPT_BEGIN, Seen, Shell};
use strongroom_harness::command;
use strongroom_harness::failure::{Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::tally::Tally;

/// For one line, or one question: passwords are slow to try, machines are busy.
const LIMIT: Duration = Duration::from_secs(240);

/// What stands in the README for something that a line before has shown.
const AGE_KEY: &str = "age1...";
const LOOP_DEVICE: &str = "/dev/loop0";

/// Groups of a recovery key.
const KEY_GROUPS: usize = 14;

pub(super) struct Session<'a> {
    account: &'a Account,
    shell: Shell,
    /// It shows nothing but ASCII.
    is_ascii: bool,
    until: Instant,
    show: bool,
    /// What was shown, by what stands for it in the README.
    learned: HashMap<&'static str, String>,
    /// A loop device that is still there.
    attached: Option<String>,
}

impl<'a> Session<'a> {
    /// Opens a terminal. Narrow ones have a locale that has nothing but ASCII.
    pub(super) fn start(account: &'a Account, columns: u16, until: Instant, show: bool) -> Result<Self> {
        let is_ascii = columns < 80;
        let locale = if is_ascii { "C" } else { "C.UTF-8" };
        let shell = Shell::start(&mut account.shell(locale), columns, LIMIT)?;
        Ok(Self { account, shell, is_ascii, until, show, learned: HashMap::new(), attached: None })
    }

    /// Types all lines, and counts what is right about each.
    pub(super) fn type_all(&mut self, lines: &[Line], tally: &mut Tally) {
        for line in lines {
            let Some(step) = script::STEPS.iter().find(|step| step.line == line.command) else { continue };
            if let Some(reason) = self.unfit(step.line) {
                println!("  {}: not typed: {} ({reason})", self.name(), step.line);
                tally.skipped += 1;
                continue;
            }
            if let Err(failure) = self.take(step, &line.typed, tally) {
                // Nobody knows what the next line would be typed into.
                tally.fail(format!("{}: {}: {failure}", self.name(), step.line));
                return;
            }
        }
    }

    fn name(&self) -> String {
        format!("{}, {}", self.account.name, self.shell.columns)
    }

    /// Why this user cannot type a line here.
    fn unfit(&self, line: &str) -> Option<&'static str> {
        match line.strip_prefix("sudo ") {
            None => None,
            Some(_) if !self.account.is_root() => Some("root's alone"),
            Some(line) if line.starts_with("losetup ") && !has_loop_devices() => {
                Some("this machine has no loop devices")
            }
            Some(_) => None,
        }
    }

    /// Types a line, answers, and judges what is seen; then what is typed besides.
    fn take(&mut self, step: &Step, typed: &str, tally: &mut Tally) -> Result {
        let typed = self.filled(typed)?;
        let ended = self.talk(step, &typed)?;
        let screen = Screen::of(&ended.prompt, &ended.written, self.shell.columns);
        if self.show {
            println!("{}: {typed}\n{}", self.name(), screen.text());
        }
        let name = format!("{}: {}", self.name(), step.line);
        let mut check = |what: &str, outcome: Result| {
            let outcome = outcome.map_err(|failure| Failure::new(format!("{failure}\n{}", screen.text())));
            tally.count(&format!("{name}: {what}"), outcome);
        };
        check("exit code", is_zero(&ended));
        check("lines", self.is_readable(&screen, &ended));
        for text in step.seen {
            let outcome = || -> Result {
                ensure!(screen.shows(text), "`{text}` is not on the screen");
                Ok(())
            };
            check("what is said", outcome());
        }
        if step.dialogue.iter().any(|(_, answer)| matches!(answer, Answer::Secret(_))) {
            check("passwords", is_silent(step, &ended));
        }
        self.learn(&typed, &screen);
        let mut then: Vec<String> = step.then.iter().map(|command| (*command).to_owned()).collect();
        if screen.shows("The recovery key, shown this once:") {
            match recovery_key(&screen) {
                Some(key) => then
                    .push(format!("echo {key} | strongroom info --recovery-file - ~/vault | grep -q suite")),
                None => check("recovery key", Err(Failure::new("it cannot be read"))),
            }
        }
        for command in then {
            self.shell.enter(&command)?;
            let ended = self.shell.ended(self.limit())?;
            let outcome = is_zero(&ended).map_err(|failure| {
                Failure::new(format!("{failure}: {}", String::from_utf8_lossy(&ended.written)))
            });
            tally.count(&format!("{name}, then {command}"), outcome);
        }
        step.besides.iter().try_for_each(|beside| self.take(beside, beside.line, tally))
    }

    /// What is typed: what stands for something is replaced by it, and root needs no sudo.
    fn filled(&self, typed: &str) -> Result<String> {
        let mut typed = typed.strip_prefix("sudo ").unwrap_or(typed).to_owned();
        for place in [AGE_KEY, LOOP_DEVICE] {
            if typed.contains(place) {
                let found = self.learned.get(place);
                let found = found.ok_or_else(|| Failure::new(format!("nothing was shown for {place}")))?;
                typed = typed.replacen(place, found, 1);
            }
        }
        Ok(typed)
    }

    /// Types a line, and answers what is asked.
    fn talk(&mut self, step: &Step, typed: &str) -> Result<Ended> {
        self.shell.enter(typed)?;
        for (question, answer) in step.dialogue {
            match self.shell.wait_for(question, self.limit())? {
                // What it says instead is judged.
                Seen::Ended(ended) => return Ok(ended),
                Seen::Text => self.shell.keys(&match answer {
                    Answer::Secret(text) => format!("{text}\n"),
                    Answer::Key(key) => (*key).to_owned(),
                })?,
            }
        }
        self.shell.ended(self.limit())
    }

    fn limit(&self) -> Duration {
        LIMIT.min(self.until.saturating_duration_since(Instant::now()))
    }

    /// No line was broken within a word, nothing is there that cannot be shown, and the prompt has a line of its own.
    fn is_readable(&self, screen: &Screen, ended: &Ended) -> Result {
        let known = |line: &&String| script::BROKEN.iter().any(|(begin, _)| line.starts_with(begin));
        let broken: Vec<_> = screen.broken().iter().filter(|line| !known(line)).collect();
        ensure!(broken.is_empty(), "broken by the terminal at {} columns: {broken:?}", self.shell.columns);
        ensure!(
            !self.is_ascii || ended.written.is_ascii(),
            "the locale has no such characters: {:?}",
            screen.lines(PROMPT_BEGIN).filter(|line| !line.is_ascii()).collect::<Vec<_>>()
        );
        let beside = screen.lines(PROMPT_BEGIN).find(|line| line.contains(PROMPT_BEGIN));
        ensure!(beside.is_none(), "the last line has no end: {beside:?}");
        Ok(())
    }

    /// Keeps what later lines name.
    fn learn(&mut self, typed: &str, screen: &Screen) {
        if let Some(key) = screen.word(|word| word.starts_with("age1") && word.len() > 50) {
            self.learned.insert(AGE_KEY, key.to_owned());
        }
        let is_device =
            |word: &str| word.strip_prefix("/dev/loop").is_some_and(|number| number.parse::<u32>().is_ok());
        if let Some(device) = screen.word(is_device).filter(|_| typed.starts_with("losetup --find")) {
            self.learned.insert(LOOP_DEVICE, device.to_owned());
            self.attached = Some(device.to_owned());
        }
        if typed.starts_with("losetup --detach") {
            self.attached = None;
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let Some(device) = self.attached.take() {
            let mut detach = Command::new(packages::find("losetup").unwrap_or_else(|| "losetup".into()));
            let _ = command::finish(detach.args(["--detach", &device]), Duration::from_secs(30));
        }
    }
}

fn has_loop_devices() -> bool {
    let is_free = |program: PathBuf| {
        command::output(Command::new(program).arg("--find"), Duration::from_secs(30)).is_ok()
    };
    Path::new("/dev/loop-control").exists() && packages::find("losetup").is_some_and(is_free)
}

fn is_zero(ended: &Ended) -> Result {
    ensure!(ended.code == 0, "it ends with {}", ended.code);
    Ok(())
}

/// Nothing of what must not be seen is.
fn is_silent(step: &Step, ended: &Ended) -> Result {
    let shown = String::from_utf8_lossy(&ended.written);
    for (question, answer) in step.dialogue {
        if let Answer::Secret(text) = answer {
            ensure!(squeezed(&shown).contains(&squeezed(question)), "`{question}` is not asked");
            ensure!(!shown.contains(text), "the answer to `{question}` is shown");
        }
    }
    Ok(())
}

/// The recovery key, put together of the lines that it was shown in.
fn recovery_key(screen: &Screen) -> Option<String> {
    let is_group = |group: &&str| group.len() == 4 && group.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let lines = screen.lines(PROMPT_BEGIN).skip_while(|line| !line.contains("shown this once"));
    let groups: Vec<&str> = lines
        .take_while(|line| !line.contains("It opens"))
        .filter(|line| line.contains('-'))
        .flat_map(|line| line.trim().split('-'))
        .filter(|group| !group.is_empty())
        .collect();
    (groups.len() == KEY_GROUPS && groups.iter().all(is_group)).then(|| groups.join("-"))
}
