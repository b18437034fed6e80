//! PostgreSQL on the mount, killed again and again, and the daemon killed under it.
//!
//! Debian's package, the server under its own user (through `--allow-other`), data checksums on. While
//! pgbench keeps it busy, several clients insert rows and note each commit that was acknowledged, outside
//! the mount. After `kill -9` of the whole server, after a remount, and after `kill -9` of the daemon while
//! the server works, recovery has to bring back every acknowledged commit, and `pg_amcheck` and
//! `pg_checksums` have to find nothing.

mod server;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;

use self::server::Server;
use crate::sqlite::last_number;
use strongroom_harness::command;
use strongroom_harness::failure::{Context, Failure, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::subject::SubjectArgs;
use strongroom_harness::subject::mount::{Mount, MountOptions};
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::tally::Tally;

const CLIENTS: u64 = 4;
const TRANSACTIONS: u64 = 50_000;
const MOUNT_LIMIT: Duration = Duration::from_secs(30 * 60);

#[derive(Args)]
pub struct PostgresArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// How often the server is killed
    #[arg(long, default_value_t = 3)]
    kills: u64,
    /// How often the daemon is killed under the server
    #[arg(long, default_value_t = 2)]
    daemon_kills: u64,
    /// Seconds of work before each kill
    #[arg(long, default_value_t = 4)]
    seconds: u64,
}

impl PostgresArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(subject: &SubjectArgs, long: bool) -> Self {
        let (kills, daemon_kills) = if long { (20, 20) } else { (3, 1) };
        Self { subject: subject.clone(), kills, daemon_kills, seconds: 4 }
    }
}

/// Runs the server, kills it, counts.
pub fn run(arguments: &PostgresArgs) -> Result<Tally> {
    packages::need_root("postgres")?;
    server::install()?;
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("postgres")?;
    let vault = Vault::create(&subject, scratch.path())?;
    let mut mount = vault.mount(MountOptions::new(MOUNT_LIMIT).allow_other())?;
    let notes = scratch.make("notes")?;
    let mut server = Server::create(&mount.path().join("cluster"), scratch.make("server")?)?;
    println!("  {}", server.version()?);
    let bench = Bench { notes };
    let mut tally = Tally::default();
    server.start()?;
    bench.prepare(&server)?;
    for kill in 1..=arguments.kills {
        let outcome = bench.round(&mut server, Duration::from_secs(arguments.seconds));
        tally.count(&format!("kill {kill}"), outcome);
    }
    // A bare directory has no daemon.
    let daemon_kills = mount.daemon().map_or(0, |_| arguments.daemon_kills);
    for kill in 1..=daemon_kills {
        mount = bench.kill_daemon(&mut server, mount, Duration::from_secs(arguments.seconds))?;
        tally.count(&format!("kill {kill} of the daemon"), bench.recover(&mut server));
    }
    println!(
        "  {} acknowledged commits, {} kills of the server, {daemon_kills} of the daemon",
        bench.acknowledged()?,
        arguments.kills
    );
    ensure!(bench.acknowledged()? > 0, "no client committed anything");
    tally.count("kill before a remount", bench.kill_and_remount(&mut server, &mut mount));
    tally.count("pg_amcheck", server.amcheck());
    server.stop()?;
    tally.count("pg_checksums", server.checksums());
    mount.remount()?;
    server.start()?;
    tally.count("after a clean stop and a remount", bench.check(&server));
    server.stop()?;
    mount.unmount()?;
    Ok(tally)
}

/// The clients and what they noted.
struct Bench {
    notes: PathBuf,
}

impl Bench {
    fn note(&self, client: u64) -> PathBuf {
        self.notes.join(format!("acknowledged-{client}"))
    }

    fn acknowledged(&self) -> Result<u64> {
        (0..CLIENTS).map(|client| last_number(&self.note(client))).sum()
    }

    fn prepare(&self, server: &Server) -> Result {
        server.query("CREATE TABLE log(client int, n int, payload text, PRIMARY KEY (client, n))")?;
        for client in 0..CLIENTS {
            File::create(self.note(client))?;
        }
        let mut command = server.client("pgbench");
        command.args(["--initialize", "--quiet", "--scale", "2", "postgres"]);
        command::output(&mut command, Duration::from_secs(180)).map(drop)
    }

    /// Work, kill, recovery, check.
    fn round(&self, server: &mut Server, work: Duration) -> Result {
        self.work_and_kill(server, work)?;
        self.recover(server)
    }

    fn recover(&self, server: &mut Server) -> Result {
        server.start().context("recovery")?;
        self.check(server)
    }

    /// Kills the daemon while the server works, then what is left of the server, and mounts again.
    fn kill_daemon(&self, server: &mut Server, mount: Mount, work: Duration) -> Result<Mount> {
        let clients = self.work(server, work)?;
        let again = server.kill_behind(|| mount.crash_and_mount());
        drop(clients);
        again
    }

    fn kill_and_remount(&self, server: &mut Server, mount: &mut Mount) -> Result {
        self.work_and_kill(server, Duration::from_secs(2))?;
        mount.remount()?;
        self.recover(server)
    }

    fn work_and_kill(&self, server: &mut Server, work: Duration) -> Result {
        let _clients = self.work(server, work)?;
        server.kill()
    }

    /// Starts the clients and lets them work for a while.
    fn work(&self, server: &Server, work: Duration) -> Result<Clients> {
        let mut clients = Clients(Vec::new());
        for client in 0..CLIENTS {
            clients.0.push(self.client(server, client)?);
        }
        let mut pgbench = server.client("pgbench");
        pgbench.args(["--client", "4", "--jobs", "2", "--time", "600", "--no-vacuum", "postgres"]);
        pgbench
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(command::log_file(&self.notes.join("pgbench"))?);
        clients.0.push(command::spawn(&mut pgbench)?);
        thread::sleep(work);
        for child in &mut clients.0 {
            if let Some(status) = child.try_wait()? {
                let errors: String = ["errors", "pgbench"]
                    .iter()
                    .filter_map(|name| fs::read_to_string(self.notes.join(name)).ok())
                    .collect();
                return Err(Failure::new(format!("a client ended by itself ({status}): {errors}")));
            }
        }
        Ok(clients)
    }

    fn client(&self, server: &Server, client: u64) -> Result<Child> {
        let stored = server.query(&format!("SELECT coalesce(max(n), 0) FROM log WHERE client = {client}"))?;
        let stored: u64 = stored.trim().parse().context("the highest row")?;
        let first = stored.max(last_number(&self.note(client))?) + 1;
        let script = self.notes.join(format!("script-{client}"));
        let mut text = std::io::BufWriter::new(File::create(&script)?);
        for n in first..first + TRANSACTIONS {
            writeln!(text, "INSERT INTO log VALUES ({client}, {n}, repeat('x', {}));\n\\echo {n}", n % 500)?;
        }
        text.flush()?;
        // psql goes on to the echo only after the server acknowledged the commit.
        let mut command = Command::new("stdbuf");
        let psql = server.client("psql");
        command.arg("-oL").arg(psql.get_program()).args(psql.get_args());
        command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-f"]).arg(&script);
        command.stdin(Stdio::null());
        command.stdout(Stdio::from(File::options().append(true).open(self.note(client))?));
        command.stderr(command::log_file(&self.notes.join("errors"))?);
        command::spawn(&mut command)
    }

    /// Every acknowledged row is there, none is there twice or out of turn, and pgbench's sums agree.
    fn check(&self, server: &Server) -> Result {
        for client in 0..CLIENTS {
            let noted = last_number(&self.note(client))?;
            let row = server
                .query(&format!("SELECT count(*), coalesce(max(n), 0) FROM log WHERE client = {client}"))?;
            let found: Vec<u64> = row.trim().split('|').filter_map(|field| field.parse().ok()).collect();
            let [rows, highest] = found[..] else {
                return Err(Failure::new(format!("client {client}: unreadable row {row}")));
            };
            ensure!(rows == highest, "client {client}: {rows} rows, but the highest is {highest}");
            ensure!(
                (noted..=noted + 1).contains(&highest),
                "client {client}: commit {noted} was acknowledged, {highest} is the last one there"
            );
        }
        let sums = server.query(
            "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(tbalance) FROM pgbench_tellers), \
             (SELECT sum(bbalance) FROM pgbench_branches), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)",
        )?;
        let sums: Vec<&str> = sums.trim().split('|').collect();
        ensure!(
            sums.len() == 4 && sums.iter().all(|sum| *sum == sums[0]),
            "accounts, tellers, branches and history disagree: {sums:?}"
        );
        Ok(())
    }
}

/// Clients that end with the server, or with this value.
struct Clients(Vec<Child>);

impl Drop for Clients {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if command::wait(child, Duration::from_secs(5)).is_err() {
                command::end(child);
            }
        }
    }
}

/// The user that Debian's package makes for the server: its user and group id.
fn server_user(passwd: &Path) -> Result<(u32, u32)> {
    let text = fs::read_to_string(passwd)?;
    text.lines()
        .find_map(|line| {
            let mut fields = line.split(':');
            let is_it = fields.next() == Some("postgres");
            let ids = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            is_it.then_some(ids)
        })
        .ok_or_else(|| Failure::new("there is no user `postgres`"))
}
