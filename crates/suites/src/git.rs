//! Development inside the mount: cloning and checking a Git repository, and building and testing a crate.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use clap::Args;

use strongroom_harness::command;
use strongroom_harness::failure::{Context, Result, ensure};
use strongroom_harness::packages;
use strongroom_harness::random::Random;
use strongroom_harness::subject::SubjectArgs;
use strongroom_harness::subject::mount::MountOptions;
use strongroom_harness::subject::vault::Vault;
use strongroom_harness::tally::Tally;
use strongroom_harness::workspace;

const COMMITS: u64 = 60;
const STEP_LIMIT: Duration = Duration::from_secs(180);
const MOUNT_LIMIT: Duration = Duration::from_secs(20 * 60);

#[derive(Args)]
pub struct GitArgs {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Clone this repository instead of one that is made here
    #[arg(long, value_name = "DIR")]
    repository: Option<std::path::PathBuf>,
}

impl GitArgs {
    /// The suite as `cargo xtask test` runs it.
    pub fn on(subject: &SubjectArgs) -> Self {
        Self { subject: subject.clone(), repository: None }
    }
}

/// Runs the Git part and the Cargo part.
pub fn run(arguments: &GitArgs) -> Result<Tally> {
    packages::need(&[("git", "git")])?;
    let subject = arguments.subject.resolve()?;
    let scratch = arguments.subject.scratch("git")?;
    let repository = match &arguments.repository {
        Some(repository) => repository.canonicalize()?,
        None => {
            let made = scratch.make("repository")?;
            make_history(&made).context("making a repository")?;
            made
        }
    };
    let vault = Vault::create(&subject, scratch.path())?;
    let mut mount = vault.mount(MountOptions::new(MOUNT_LIMIT))?;
    let mut tally = Tally::default();
    let clone = mount.path().join("clone");
    tally.count("git clone", clone_and_check(&repository, &clone));
    let crate_directory = mount.path().join("crate");
    tally.count("cargo build", build(&crate_directory));
    mount.remount()?;
    tally.count("git fsck after a remount", git(&clone, &["fsck", "--full", "--strict"]).map(drop));
    tally.count("cargo test after a remount", cargo(&crate_directory, &["test", "--offline"]).map(drop));
    mount.unmount()?;
    Ok(tally)
}

fn git(directory: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.current_dir(directory).args(["-c", "user.name=Test", "-c", "user.email=test@example.invalid"]);
    command.args(["-c", "init.defaultBranch=main", "-c", "commit.gpgSign=false", "-c", "core.fsync=all"]);
    command.args(["-c", "safe.directory=*", "-c", "gc.auto=0"]).args(arguments);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0");
    command::output(&mut command, STEP_LIMIT)
}

/// A history with changes, renames, deletions, branches, merges and tags.
fn make_history(repository: &Path) -> Result {
    git(repository, &["init", "--quiet"])?;
    let mut random = Random::new(11);
    for commit in 0..COMMITS {
        for _ in 0..4 {
            let directory = repository.join(format!("part-{}", random.below(8)));
            fs::create_dir_all(&directory)?;
            let lines: String = (0..random.below(400)).map(|_| format!("{:x}\n", random.word())).collect();
            fs::write(directory.join(format!("file-{}.txt", random.below(40))), lines)?;
        }
        git(repository, &["add", "--all"])?;
        git(repository, &["commit", "--quiet", "--allow-empty", "--message", &format!("change {commit}")])?;
        if commit % 15 == 10 {
            let branch = format!("branch-{commit}");
            git(repository, &["checkout", "--quiet", "-b", &branch, "HEAD~2"])?;
            fs::write(repository.join(&branch), "on a branch\n")?;
            git(repository, &["add", "--all"])?;
            git(repository, &["commit", "--quiet", "--message", "on a branch"])?;
            git(repository, &["checkout", "--quiet", "main"])?;
            git(repository, &["merge", "--quiet", "--no-edit", &branch])?;
            git(repository, &["tag", "--annotate", "--message", "a tag", &format!("tag-{commit}")])?;
        }
    }
    Ok(())
}

fn clone_and_check(repository: &Path, clone: &Path) -> Result {
    let parent = clone.parent().expect("the clone has a parent");
    let (from, to) = (repository.to_string_lossy(), clone.to_string_lossy());
    git(parent, &["clone", "--quiet", "--no-local", &from, &to])?;
    git(clone, &["fsck", "--full", "--strict"])?;
    let same = git(repository, &["rev-parse", "HEAD"])? == git(clone, &["rev-parse", "HEAD"])?;
    ensure!(same, "the clone has another head");
    ensure!(git(clone, &["status", "--porcelain"])?.is_empty(), "the fresh clone is not clean");
    fs::write(clone.join("new file"), "new\n")?;
    git(clone, &["add", "--all"])?;
    git(clone, &["commit", "--quiet", "--message", "inside the mount"])?;
    git(clone, &["checkout", "--quiet", "HEAD~5"])?;
    git(clone, &["checkout", "--quiet", "-"])?;
    git(clone, &["gc", "--quiet", "--prune=now"])?;
    git(clone, &["fsck", "--full", "--strict"])?;
    ensure!(git(clone, &["status", "--porcelain"])?.is_empty(), "not clean after the commit");
    Ok(())
}

fn cargo(directory: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = workspace::cargo();
    command.current_dir(directory).args(arguments);
    // The build belongs into the mount, whole.
    command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_TARGET_DIR").env_remove("RUSTC_WRAPPER");
    command::output(&mut command, STEP_LIMIT)
}

fn build(directory: &Path) -> Result {
    for part in ["src", "tests"] {
        fs::create_dir_all(directory.join(part))?;
    }
    let files = [
        (
            "Cargo.toml",
            "[package]\nname = \"inside\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
        ),
        ("build.rs", "fn main() { println!(\"cargo:rustc-env=BUILT=by the build script\"); }\n"),
        ("src/lib.rs", "/// Adds.\npub fn add(a: u64, b: u64) -> u64 { a + b }\n"),
        ("src/main.rs", "fn main() { println!(\"{} {}\", inside::add(40, 2), env!(\"BUILT\")); }\n"),
        ("tests/adds.rs", "#[test]\nfn adds() { assert_eq!(inside::add(1, 2), 3); }\n"),
    ];
    for (name, text) in files {
        fs::write(directory.join(name), text)?;
    }
    cargo(directory, &["build", "--offline"])?;
    let mut program = Command::new(directory.join("target/debug/inside"));
    let printed = command::output(&mut program, STEP_LIMIT)?;
    ensure!(printed == "42 by the build script\n", "the program printed {printed:?}");
    fs::write(
        directory.join("src/lib.rs"),
        "/// Adds, and one more.\npub fn add(a: u64, b: u64) -> u64 { a + b }\n",
    )?;
    cargo(directory, &["build", "--offline", "--release"])?;
    cargo(directory, &["test", "--offline"]).map(drop)
}
