//! `strongroom file`: single files in the age format.

mod archive;
mod asking;
mod describe;
mod descriptors;
pub(crate) mod keys;
mod mount;
mod passage;
mod plan;
mod removal;
mod serve;
mod target;
mod temporary;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use strongroom_engine::Engine;
use strongroom_file::armor::Armor;
use strongroom_file::recipients::Recipients;
use strongroom_file::{Error, Input, Job, Output as Sink, Ranges};
use strongroom_format::age::CHUNK_LEN;

use crate::args::file::{FileCommand, FileDecryptArgs, FileEncryptArgs, FileOutputArgs};
use crate::failure::{Exit, Failure, Result};
use crate::opening;
use crate::progress::Progress;
use crate::report::Output;
use asking::Terminal;
use descriptors::is_standard;
use plan::{Besides, Plan, Way, inputs_of};
use target::Target;

/// Runs one of the commands.
///
/// # Errors
/// As docs/exit-codes.md says.
pub(crate) fn run(command: &FileCommand, output: Output) -> Result<Exit> {
    if !crate::daemon::launch::is_daemon() {
        removal::watch()?;
    }
    let ended = match command {
        FileCommand::Encrypt(args) => encrypt(args, output),
        FileCommand::Decrypt(args) => decrypt(args, output),
        FileCommand::Mount(args) => mount::run(args, output),
        FileCommand::Inspect(args) => describe::run(args, output),
        FileCommand::Keygen(args) => keys::generate(args, output),
    };
    // What a signal brings about is no failure to tell of.
    removal::pass();
    ended
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    files: Vec<Done>,
}

#[derive(Serialize)]
struct Done {
    input: String,
    output: String,
    plain_bytes: u64,
}

impl Done {
    fn of(input: &Path, output: &Path, plain_bytes: u64) -> Done {
        Done { input: input.display().to_string(), output: output.display().to_string(), plain_bytes }
    }
}

/// What one call works with.
struct Setting {
    engine: Arc<dyn Engine>,
    threads: usize,
    progress: Arc<Progress>,
}

impl Setting {
    fn of(
        args: &FileOutputArgs,
        label: &'static str,
        terminal: &Terminal,
        len: Option<u64>,
    ) -> Result<Setting> {
        let threads = match args.threads {
            Some(threads) => usize::from(threads),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let engine: Arc<dyn Engine> = crate::compose::compose(args.engine.as_deref())?;
        let progress = Arc::new(Progress::begin(label));
        match len {
            Some(total) if total > 0 => progress.begin_bytes(total, label),
            _ => progress.begin_stream(label),
        }
        terminal.share(&progress);
        Ok(Setting { engine, threads, progress })
    }

    fn job<'a>(&self, done: &'a (dyn Fn(u64) + Sync)) -> Job<'a> {
        Job { engine: Arc::clone(&self.engine), threads: self.threads, progress: done }
    }
}

fn encrypt(args: &FileEncryptArgs, output: Output) -> Result<Exit> {
    let besides = Besides::new().with("-i", &args.identity).with("-R", &args.recipients_file);
    let way = Way::Encrypt { armored: args.armor };
    let plan =
        Plan::of(inputs_of(&args.files), &args.output, way, &besides.passphrase(&args.source), output)?;
    let terminal = Terminal::default();
    let recipients = asking::recipients(args, &terminal, output)?;
    let setting = Setting::of(&args.output, "encrypting", &terminal, plan.len)?;
    let done = |bytes| setting.progress.done(bytes);
    let job = setting.job(&done);
    let work = |path: &Path, target: &Target| {
        let (input, packed) = match !is_standard(path) && path.is_dir() {
            true => archive::packed(path, setting.threads).map(|(input, packed)| (input, Some(packed)))?,
            false => (input_of(path)?, None),
        };
        let sealed = sealed(&job, &recipients, input, target, args.armor)?;
        let plain = sealed.map_err(|error| terminal.explain(path, target.path(), error))?;
        packed.iter().for_each(|packed| archive::tell(packed, output));
        Ok(plain)
    };
    each(&plan, &args.output, output, work).inspect(|_| setting.progress.finish())
}

/// Encrypts one input to where it goes, and gives its plain bytes.
fn sealed(
    job: &Job<'_>,
    recipients: &Recipients,
    input: Input,
    target: &Target,
    armor: bool,
) -> Result<std::result::Result<u64, Error>> {
    if !armor {
        return Ok(strongroom_file::encrypt(job, recipients, input, target.sink()?));
    }
    let armor = armored(target)?;
    let sealed = strongroom_file::encrypt(job, recipients, input, Sink::Stream(Box::new(armor.clone())));
    if sealed.is_ok() {
        armor.finish().map_err(|error| Failure::system(target::called(target.path()), &error))?;
    }
    Ok(sealed)
}

fn decrypt(args: &FileDecryptArgs, output: Output) -> Result<Exit> {
    let (inputs, besides) = (inputs_of(&args.files), Besides::keys(&args.keys));
    let terminal = Terminal::default();
    if let Some(to) = &args.extract {
        let [input] = &inputs[..] else { return Err(Failure::usage("--extract takes one file")) };
        plan::check_extract(to, input, &besides)?;
        archive::check_free(to, args.output.force)?;
        let identities = asking::identities(&args.keys, &terminal, output)?;
        let len = std::fs::metadata(input).ok().filter(|there| there.is_file()).map(|there| there.len());
        let setting = Setting::of(&args.output, "unpacking", &terminal, len)?;
        let done = |bytes| setting.progress.done(bytes);
        let work = archive::Extraction { job: setting.job(&done), identities, terminal: &terminal, output };
        let plain_bytes = work.extract(input, to, args.output.force)?;
        setting.progress.finish();
        return tell(output, vec![Done::of(input, to, plain_bytes)]);
    }
    let plan = Plan::of(inputs, &args.output, Way::Decrypt, &besides, output)?;
    let identities = asking::identities(&args.keys, &terminal, output)?;
    let setting = Setting::of(&args.output, "decrypting", &terminal, plan.len)?;
    let done = |bytes| setting.progress.done(bytes);
    let job = setting.job(&done);
    let work = |path: &Path, target: &Target| {
        let failed = |error| terminal.explain(path, target.path(), error);
        match args.range {
            None => {
                strongroom_file::decrypt(&job, &identities, input_of(path)?, target.sink()?).map_err(failed)
            }
            Some(range) => {
                let ranges = Ranges::open(seekable(path)?, &identities, &setting.engine).map_err(failed)?;
                if range.0 > ranges.len() {
                    let text =
                        format!("it has {} plain bytes, and the range begins after them", ranges.len());
                    return Err(Failure::usage(text).at(path));
                }
                copy_range(&ranges, range, target.writer()?).map_err(failed)
            }
        }
    };
    each(&plan, &args.output, output, work).inspect(|_| setting.progress.finish())
}

/// A file of which a part can be read.
fn seekable(path: &Path) -> Result<File> {
    let refused = || {
        Failure::usage("a part can be had of a regular file alone")
            .at(path)
            .hint("Decrypt it whole, and cut that.")
    };
    let failed = |error| Failure::system(path, &error);
    // A pipe is not waited for.
    match !is_standard(path) && std::fs::metadata(path).map_err(failed)?.is_file() {
        true => File::open(path).map_err(failed),
        false => Err(refused()),
    }
}

fn copy_range(
    ranges: &Ranges,
    (start, end): (u64, u64),
    mut to: Box<dyn Write + Send>,
) -> std::result::Result<u64, Error> {
    let end = end.min(ranges.len());
    let mut at = start;
    let mut piece = vec![0; CHUNK_LEN];
    while at < end {
        let wanted = piece.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let read = ranges.read(at, &mut piece[..wanted])?;
        to.write_all(&piece[..read]).map_err(Error::Output)?;
        at += read as u64;
    }
    to.flush().map_err(Error::Output)?;
    Ok(at - start)
}

fn input_of(path: &Path) -> Result<Input> {
    let failed = |error| Failure::system(path, &error);
    if is_standard(path) {
        return Ok(Input::Stream(Box::new(std::io::stdin())));
    }
    // An open pipe or socket that is named as a descriptor is taken as it is.
    let file = match opening::descriptor(path) {
        Some(number) => opening::descriptor_copy(number)
            .and_then(|open| if open.metadata()?.is_file() { File::open(path) } else { Ok(open) }),
        None => File::open(path),
    };
    file.and_then(Input::of).map_err(failed)
}

/// Does `work` for each input, and brings its result under its final name. The
/// first that fails is the last.
fn each(
    plan: &Plan,
    args: &FileOutputArgs,
    output: Output,
    work: impl Fn(&Path, &Target) -> Result<u64>,
) -> Result<Exit> {
    let mut files = Vec::new();
    for (number, step) in plan.steps.iter().enumerate() {
        let one = || {
            let target = Target::new(&step.output, args.force)?;
            let plain_bytes = work(&step.input, &target)?;
            target.keep().map(|()| plain_bytes)
        };
        let plain_bytes = one().map_err(|failure| match plan.steps.len() {
            1 => failure,
            all => failure.further(&format!(
                "{number} of {all} files are done, and those after this one were not begun."
            )),
        })?;
        files.push(Done::of(&step.input, &step.output, plain_bytes));
    }
    tell(output, files)
}

fn tell(output: Output, files: Vec<Done>) -> Result<Exit> {
    if output.json && !files.iter().any(|done| done.output == "-") {
        output.print(&Document { schema: "strongroom.file/1", files }, |_| String::new())?;
    }
    Ok(Exit::Done)
}

type BoxedArmor = Armor<Box<dyn Write + Send>>;

/// An armor that is ended after the encryption has let go of it.
#[derive(Clone)]
struct SharedArmor(Arc<std::sync::Mutex<Option<BoxedArmor>>>);

fn armored(target: &Target) -> Result<SharedArmor> {
    let called = target::called(target.path());
    let armor = Armor::new(target.writer()?).map_err(|error| Failure::system(called, &error))?;
    Ok(SharedArmor(Arc::new(std::sync::Mutex::new(Some(armor)))))
}

impl SharedArmor {
    fn with<T>(&self, work: impl FnOnce(&mut Option<Armor<Box<dyn Write + Send>>>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn finish(&self) -> std::io::Result<()> {
        self.with(|armor| armor.take().map_or(Ok(()), |armor| armor.finish().map(drop)))
    }
}

impl Write for SharedArmor {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.with(|armor| armor.as_mut().map_or(Ok(0), |armor| armor.write(bytes)))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.with(|armor| armor.as_mut().map_or(Ok(()), Write::flush))
    }
}

/// What went wrong with `input`, or on the way to `output`.
fn failure(input: &Path, output: &Path, error: Error) -> Failure {
    let message = error.to_string();
    let input = if is_standard(input) { Path::new("standard input") } else { input };
    let verified = if is_standard(output) {
        "What came out before is verified, and not all there was."
    } else {
        "Nothing was written."
    };
    match error {
        Error::NoPassphrase => {
            Failure::new(Exit::WrongSecret, message).at(input).hint("Say -p, or name the passphrase.")
        }
        Error::NoKey => {
            Failure::new(Exit::WrongSecret, message).at(input).hint("Name a file of keys with -i.")
        }
        Error::WrongKey => Failure::new(Exit::WrongSecret, message)
            .at(input)
            .hint("`strongroom file inspect` tells for which kinds of keys it was encrypted."),
        Error::Header(_) | Error::HeaderForged | Error::Armor(_) => {
            Failure::new(Exit::Damage, message).at(input)
        }
        Error::Payload { .. } => Failure::new(Exit::Damage, message).at(input).hint(verified),
        Error::Input(error) => match archive::inside(&error) {
            Some(error) => archive::explain(error, input),
            None => Failure::system(input, &error),
        },
        Error::Output(error) => Failure::system(target::called(output), &error),
        Error::Unsupported(_) | Error::Engine(_) => Failure::new(Exit::Unsupported, message).at(input),
        Error::Usage(_) | Error::Unanswered(_) => Failure::usage(message).at(input),
        _ => Failure::new(Exit::Other, message).at(input),
    }
}
