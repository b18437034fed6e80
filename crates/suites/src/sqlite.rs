//! SQLite on the mount: several writers at once, killed again and again, in rollback and in WAL mode.
//!
//! Every writer is a `sqlite3` process that writes down each commit after the database acknowledged it,
//! outside the mount. After each kill the database has to be whole, and no acknowledged commit may be
//! missing. First the writers are killed, and the daemon lives; then the daemon is killed under them, now
//! and then once more while it recovers. The database syncs every commit (`synchronous=FULL`), so that
//! this may take nothing that was acknowledged.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::random::Random;
use strongroom_harness::subject::SubjectArgs;
use strongroom_harness::subject::mount::{Mount, MountOptions, crash_mounting};
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::tally::Tally;

const WRITERS: u64 = 4;
/// More transactions than a writer gets through before it is killed.
const TRANSACTIONS: u64 = 20_000;
const QUERY_LIMIT: Duration = Duration::from_secs(60);
/// Remounts after so many kills.
const REMOUNT_EVERY: u64 = 4;

/// A mount is ready within this, and recovering before, in milliseconds.
const RECOVERY_MAX: u64 = 120;

const MODES: [&str; 2] = ["DELETE", "WAL"];

#[derive(Args)]
pub struct SqliteArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Kills of the writers in each journal mode
    #[arg(long, default_value_t = 8)]
    kills: u64,
    /// Kills of the daemon under them in each journal mode
    #[arg(long, default_value_t = 4)]
    daemon_kills: u64,
}

impl SqliteArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(subject: &SubjectArgs, long: bool) -> Self {
        let (kills, daemon_kills) = if long { (100, 100) } else { (8, 4) };
        Self { subject: subject.clone(), kills, daemon_kills }
    }
}

/// Runs both journal modes.
pub fn run(arguments: &SqliteArgs) -> Result<Tally> {
    packages::need(&[("sqlite3", "sqlite3"), ("stdbuf", "coreutils")])?;
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("sqlite")?;
    let vault = Vault::create(&subject, scratch.path())?;
    let limit = Duration::from_secs(120 + 30 * (arguments.kills + arguments.daemon_kills));
    let options = MountOptions::new(limit * 2);
    let mut mount = vault.mount(options)?;
    let mut tally = Tally::default();
    let mut random = Random::new(5);
    for mode in MODES {
        let bench = Bench::create(mode, mount.path(), scratch.make(mode)?)?;
        let mut acknowledged = 0;
        for kill in 1..=arguments.kills {
            let outcome = bench.round(&mut random);
            if let Ok(commits) = outcome {
                acknowledged = commits;
            }
            tally.count(&format!("{mode}, kill {kill}"), outcome.map(drop));
            if kill % REMOUNT_EVERY == 0 {
                mount.remount()?;
                tally.count(&format!("{mode}, remount after kill {kill}"), bench.check().map(drop));
            }
        }
        // A bare directory has no daemon.
        let daemon_kills = mount.daemon().map_or(0, |_| arguments.daemon_kills);
        for kill in 1..=daemon_kills {
            mount = bench.kill_daemon(&mut random, mount)?;
            if random.below(2) == 0 {
                mount.crash()?;
                crash_mounting(&vault, options, Duration::from_millis(random.below(RECOVERY_MAX)))?;
                mount = vault.mount(options)?;
            }
            let outcome = bench.check();
            if let Ok(commits) = outcome {
                acknowledged = commits;
            }
            tally.count(&format!("{mode}, kill {kill} of the daemon"), outcome.map(drop));
        }
        println!(
            "  {mode}: {acknowledged} acknowledged commits of {WRITERS} writers, {} kills of them, {daemon_kills} \
             of the daemon",
            arguments.kills
        );
        if acknowledged == 0 {
            tally.fail(format!("{mode}: no writer committed anything"));
        }
    }
    mount.unmount()?;
    tally.count("the last check", vault.check(limit).map(drop));
    Ok(tally)
}

/// One database on the mount, and its writers' notes beside it.
struct Bench {
    database: PathBuf,
    notes: PathBuf,
}

impl Bench {
    fn create(mode: &str, plain: &Path, notes: PathBuf) -> Result<Self> {
        let bench = Self { database: plain.join(format!("{mode}.db")), notes };
        let mode_now = bench.query(&format!("PRAGMA journal_mode={mode};"))?;
        ensure!(mode_now.trim().eq_ignore_ascii_case(mode), "the journal mode is {mode_now}");
        let mut schema = String::from(
            "CREATE TABLE log(writer INTEGER, n INTEGER, payload BLOB, PRIMARY KEY(writer, n));\
             CREATE TABLE last(writer INTEGER PRIMARY KEY, n INTEGER);",
        );
        for writer in 0..WRITERS {
            schema.push_str(&format!("INSERT INTO last VALUES({writer}, 0);"));
            File::create(bench.note(writer))?;
        }
        bench.query(&schema)?;
        Ok(bench)
    }

    fn note(&self, writer: u64) -> PathBuf {
        self.notes.join(format!("acknowledged-{writer}"))
    }

    fn query(&self, statements: &str) -> Result<String> {
        let mut command = Command::new("sqlite3");
        command.args(["-bail", "-cmd", ".timeout 20000"]).arg(&self.database).arg(statements);
        command::output(&mut command, QUERY_LIMIT)
    }

    /// Starts the writers, kills them at random moments, and checks. Returns all acknowledged commits.
    fn round(&self, random: &mut Random) -> Result<u64> {
        let mut writers = self.work(random, 400)?;
        for child in &mut writers.0 {
            command::end(child);
            thread::sleep(Duration::from_millis(random.below(40)));
        }
        self.check()
    }

    /// Starts the writers, kills the daemon under them, and mounts again.
    fn kill_daemon(&self, random: &mut Random, mount: Mount) -> Result<Mount> {
        let writers = self.work(random, 200)?;
        let again = mount.crash_and_mount()?;
        // What they still do, they do on a mount that is gone.
        drop(writers);
        Ok(again)
    }

    /// Starts the writers and lets them work for a while, at least `least` milliseconds.
    fn work(&self, random: &mut Random, least: u64) -> Result<Writers> {
        let mut writers = Writers(Vec::new());
        for writer in 0..WRITERS {
            writers.0.push(self.start(writer)?);
        }
        thread::sleep(Duration::from_millis(least + random.below(600)));
        for (writer, child) in writers.0.iter_mut().enumerate() {
            if let Some(status) = child.try_wait()? {
                let error = fs::read_to_string(self.errors(writer as u64)).unwrap_or_default();
                return Err(Failure::new(format!("writer {writer} ended by itself ({status})\n{error}")));
            }
        }
        Ok(writers)
    }

    fn errors(&self, writer: u64) -> PathBuf {
        self.notes.join(format!("errors-{writer}"))
    }

    fn start(&self, writer: u64) -> Result<Child> {
        let first = last_number(&self.note(writer))?.max(self.stored(writer)?) + 1;
        let script = self.notes.join(format!("script-{writer}"));
        let mut text = std::io::BufWriter::new(File::create(&script)?);
        writeln!(text, "PRAGMA synchronous=FULL;")?;
        for n in first..first + TRANSACTIONS {
            writeln!(
                text,
                "BEGIN IMMEDIATE; INSERT INTO log VALUES({writer}, {n}, randomblob({})); \
                 UPDATE last SET n = {n} WHERE writer = {writer}; COMMIT; SELECT {n};",
                100 + n % 3000
            )?;
        }
        text.into_inner().map_err(|error| Failure::new(error.to_string()))?.sync_data()?;
        // Line buffering: a commit's note is written at once, not when a buffer is full.
        let mut command = Command::new("stdbuf");
        command.args(["-oL", "sqlite3", "-bail", "-cmd", ".timeout 20000"]).arg(&self.database);
        command.stdin(File::open(&script)?);
        command.stdout(Stdio::from(File::options().append(true).open(self.note(writer))?));
        command.stderr(Stdio::from(File::create(self.errors(writer))?));
        command::spawn(&mut command)
    }

    fn stored(&self, writer: u64) -> Result<u64> {
        let text = self.query(&format!("SELECT n FROM last WHERE writer = {writer};"))?;
        text.trim().parse().context(format_args!("writer {writer} has no number"))
    }

    /// The database is whole and has every acknowledged commit, each with both of its changes.
    fn check(&self) -> Result<u64> {
        let verdict = self.query("PRAGMA integrity_check;")?;
        ensure!(verdict.trim() == "ok", "integrity_check: {verdict}");
        let mut total = 0;
        for writer in 0..WRITERS {
            let noted = last_number(&self.note(writer))?;
            let row = self.query(&format!(
                "SELECT (SELECT count(*) FROM log WHERE writer = {writer}), \
                 (SELECT ifnull(max(n), 0) FROM log WHERE writer = {writer}), \
                 (SELECT n FROM last WHERE writer = {writer});"
            ))?;
            let found: Vec<u64> = row.trim().split('|').filter_map(|field| field.parse().ok()).collect();
            let [rows, highest, last] = found[..] else {
                return Err(Failure::new(format!("writer {writer}: unreadable row {row}")));
            };
            ensure!(
                rows == highest && highest == last,
                "writer {writer}: {rows} rows, highest {highest}, but {last} in the other table"
            );
            ensure!(
                last >= noted,
                "writer {writer}: commit {noted} was acknowledged, {last} is the last one there"
            );
            total += noted;
        }
        Ok(total)
    }
}

/// Ends its processes when a round stops early.
struct Writers(Vec<Child>);

impl Drop for Writers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if matches!(child.try_wait(), Ok(None)) {
                command::end(child);
            }
        }
    }
}

/// The last whole line's number, or 0.
pub(crate) fn last_number(file: &Path) -> Result<u64> {
    let text = fs::read_to_string(file).context(file.display())?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().last().map_or(Ok(0), |line| line.trim().parse().context(format_args!("a note: {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_written_notes_do_not_count() -> Result {
        let directory = tempfile::tempdir()?;
        let file = directory.path().join("notes");
        for (text, last) in [("", 0), ("1", 0), ("1\n", 1), ("1\n2\n30", 2), ("1\n2\n30\n", 30)] {
            fs::write(&file, text)?;
            assert_eq!(last_number(&file)?, last);
        }
        Ok(())
    }

    #[test]
    fn a_lost_commit_is_found() -> Result {
        if packages::find("sqlite3").is_none() {
            return Ok(());
        }
        let directory = tempfile::tempdir()?;
        let bench = Bench::create("DELETE", directory.path(), directory.path().to_path_buf())?;
        assert_eq!(bench.check()?, 0);
        fs::write(bench.note(1), "1\n")?;
        assert!(bench.check().is_err());
        bench.query("INSERT INTO log VALUES(1, 1, ''); UPDATE last SET n = 1 WHERE writer = 1;")?;
        assert_eq!(bench.check()?, 1);
        bench.query("DELETE FROM log WHERE writer = 1;")?;
        assert!(bench.check().is_err());
        Ok(())
    }
}
