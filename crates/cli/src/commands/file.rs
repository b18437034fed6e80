//! `strongroom file`: single files in the age format.

mod archive;
mod asking;
mod describe;
pub(crate) mod keys;
mod mount;
mod passage;
mod serve;
mod target;
mod temporary;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use serde::Serialize;
use strongroom_engine::Engine;
use strongroom_file::armor::Armor;
use strongroom_file::recipients::Recipients;
use strongroom_file::{Error, Input, Job, Output as Sink, Ranges};
use strongroom_format::age::CHUNK_LEN;

use crate::args::file::{FileCommand, FileDecryptArgs, FileEncryptArgs, FileOutputArgs};
use crate::failure::{Exit, Failure, Result};
use crate::progress::Progress;
use crate::report::Output;
use target::Target;

/// Runs one of the commands.
///
/// # Errors
/// As docs/exit-codes.md says.
pub(crate) fn run(command: &FileCommand, output: Output) -> Result<Exit> {
    match command {
        FileCommand::Encrypt(args) => encrypt(args, output),
        FileCommand::Decrypt(args) => decrypt(args, output),
        FileCommand::Mount(args) => mount::run(args),
        FileCommand::Inspect(args) => describe::run(args, output),
        FileCommand::Keygen(args) => keys::generate(args, output),
    }
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
    progress: Progress,
}

impl Setting {
    fn of(args: &FileOutputArgs, label: &'static str, files: &[PathBuf]) -> Result<Setting> {
        let threads = match args.threads {
            Some(threads) => usize::from(threads),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let engine: Arc<dyn Engine> = crate::compose::compose(args.engine.as_deref())?;
        let progress = Progress::begin(label);
        let lens = files.iter().map(|file| std::fs::metadata(file).ok().filter(|there| there.is_file()));
        match lens.map(|there| there.map(|there| there.len())).sum::<Option<u64>>() {
            Some(total) if total > 0 => progress.begin_bytes(total, label),
            _ => progress.begin_stream(label),
        }
        Ok(Setting { engine, threads, progress })
    }

    fn job<'a>(&self, done: &'a (dyn Fn(u64) + Sync)) -> Job<'a> {
        Job { engine: Arc::clone(&self.engine), threads: self.threads, progress: done }
    }
}

fn encrypt(args: &FileEncryptArgs, output: Output) -> Result<Exit> {
    let recipients = asking::recipients(args, output)?;
    let inputs = inputs_of(&args.files);
    let setting = Setting::of(&args.output, "encrypting", &args.files)?;
    let done = |bytes| setting.progress.done(bytes);
    let job = setting.job(&done);
    let work = |path: &Path, target: &Target| {
        let (input, packed) = match path.is_dir() {
            true => archive::packed(path, setting.threads).map(|(input, packed)| (input, Some(packed)))?,
            false => (input_of(path)?, None),
        };
        let sealed = sealed(&job, &recipients, input, target, args.armor)?;
        let plain = sealed.map_err(|error| failure(path, target.path(), error))?;
        packed.iter().for_each(|packed| archive::tell(packed, output));
        Ok(plain)
    };
    each(&inputs, &args.output, output, work, name_encrypted, args.armor)
        .inspect(|_| setting.progress.finish())
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
        armor.finish().map_err(|error| Failure::system(target.path(), &error))?;
    }
    Ok(sealed)
}

fn decrypt(args: &FileDecryptArgs, output: Output) -> Result<Exit> {
    let inputs = inputs_of(&args.files);
    let identities = asking::identities(&args.keys)?;
    let setting = Setting::of(&args.output, "decrypting", &args.files)?;
    let done = |bytes| setting.progress.done(bytes);
    let job = setting.job(&done);
    if let Some(to) = &args.extract {
        let [input] = &inputs[..] else { return Err(Failure::usage("--extract takes one file")) };
        let plain_bytes = archive::extract(&job, &identities, input, to, args.output.force, output)?;
        setting.progress.finish();
        return tell(output, vec![Done::of(input, to, plain_bytes)]);
    }
    each(
        &inputs,
        &args.output,
        output,
        |path, target| {
            let failed = |error| failure(path, target.path(), error);
            match args.range {
                None => strongroom_file::decrypt(&job, &identities, input_of(path)?, target.sink()?)
                    .map_err(failed),
                Some(range) => {
                    let file = File::open(path).map_err(|error| Failure::system(path, &error))?;
                    let ranges = Ranges::open(file, &identities, &setting.engine).map_err(failed)?;
                    copy_range(&ranges, range, target.writer()?).map_err(failed)
                }
            }
        },
        |path| match path.extension() {
            Some(extension) if extension == "age" => Ok(path.with_extension("")),
            _ => Err(Failure::usage("its name does not end in .age")
                .at(path)
                .hint("Say with -o where it shall go.")),
        },
        true,
    )
    .inspect(|_| setting.progress.finish())
}

/// `FILE.age`, or `DIR.tar.age`.
fn name_encrypted(path: &Path) -> Result<PathBuf> {
    let is_directory = path.is_dir();
    let mut name = path
        .file_name()
        .map(std::ffi::OsStr::to_owned)
        .ok_or_else(|| Failure::usage("it has no name").at(path).hint("Say with -o where it shall go."))?;
    name.push(if is_directory { ".tar.age" } else { ".age" });
    Ok(path.with_file_name(name))
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

fn inputs_of(files: &[PathBuf]) -> Vec<PathBuf> {
    if files.is_empty() { vec![PathBuf::from("-")] } else { files.to_vec() }
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

fn input_of(path: &Path) -> Result<Input> {
    if is_standard(path) {
        return Ok(Input::Stream(Box::new(std::io::stdin())));
    }
    let file = File::open(path).map_err(|error| Failure::system(path, &error))?;
    let metadata = file.metadata().map_err(|error| Failure::system(path, &error))?;
    if metadata.is_dir() {
        return Err(Failure::usage("it is a directory").at(path));
    }
    Ok(if metadata.is_file() { Input::File(file) } else { Input::Stream(Box::new(file)) })
}

/// Does `work` for each input, and brings its result under its final name.
fn each(
    inputs: &[PathBuf],
    args: &FileOutputArgs,
    output: Output,
    work: impl Fn(&Path, &Target) -> Result<u64>,
    named: impl Fn(&Path) -> Result<PathBuf>,
    is_text: bool,
) -> Result<Exit> {
    let mut files = Vec::new();
    for input in inputs {
        let mut path = place(input, inputs.len(), args, &named)?;
        if args.output.is_none() && inputs.len() == 1 {
            path = redirected(path, output);
        }
        if is_standard(&path) && !is_text && std::io::stdout().is_terminal() {
            return Err(Failure::usage("what is encrypted is nothing for a terminal")
                .hint("Name a file with -o, or armor it with -a; -o - writes it all the same into a pipe."));
        }
        let target = Target::new(&path, args.force)?;
        let plain_bytes = work(input, &target)?;
        target.keep()?;
        files.push(Done::of(input, &path, plain_bytes));
    }
    tell(output, files)
}

/// As age's users type, `... FILE > FILE.age`: what the shell has just made for
/// standard output is the file that is meant. Another one would stay empty.
fn redirected(path: PathBuf, output: Output) -> PathBuf {
    let standard = rustix::fs::fstat(rustix::stdio::stdout()).ok();
    let is_file = |stat: &rustix::fs::Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let Some(standard) = standard.filter(|stat| is_file(stat) && stat.st_size == 0) else {
        return path;
    };
    let there = std::fs::metadata(&path).ok();
    if there.is_some_and(|there| (there.dev(), there.ino()) == (standard.st_dev, standard.st_ino)) {
        return PathBuf::from("-");
    }
    if !is_standard(&path) && !output.json {
        let name = crate::report::shown(path.as_os_str().as_bytes());
        output
            .warn(&format!("the result is {name}, and not on standard output, to which -o - would write it"));
    }
    path
}

fn tell(output: Output, files: Vec<Done>) -> Result<Exit> {
    if output.json && !files.iter().any(|done| done.output == "-") {
        output.print(&Document { schema: "strongroom.file/1", files }, |_| String::new())?;
    }
    Ok(Exit::Done)
}

/// Where the result of an input goes.
fn place(
    input: &Path,
    inputs: usize,
    args: &FileOutputArgs,
    named: impl Fn(&Path) -> Result<PathBuf>,
) -> Result<PathBuf> {
    match &args.output {
        Some(given) if given.is_dir() => {
            if is_standard(input) {
                return Err(Failure::usage("standard input has no name: name a file with -o"));
            }
            let named = named(input)?;
            Ok(given.join(named.file_name().unwrap_or(named.as_os_str())))
        }
        Some(_) if inputs > 1 => Err(Failure::usage("several files need an existing directory after -o")),
        Some(given) => Ok(given.clone()),
        None if is_standard(input) => Ok(PathBuf::from("-")),
        None => named(input),
    }
}

type BoxedArmor = Armor<Box<dyn Write + Send>>;

/// An armor that is ended after the encryption has let go of it.
#[derive(Clone)]
struct SharedArmor(Arc<std::sync::Mutex<Option<BoxedArmor>>>);

fn armored(target: &Target) -> Result<SharedArmor> {
    let armor = Armor::new(target.writer()?).map_err(|error| Failure::system(target.path(), &error))?;
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
    let verified = if is_standard(output) {
        "What came out before is verified, and not all there was."
    } else {
        "Nothing was written."
    };
    match error {
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
        Error::Output(error) => Failure::system(output, &error),
        Error::Unsupported(_) | Error::Engine(_) => Failure::new(Exit::Unsupported, message).at(input),
        Error::Usage(_) => Failure::usage(message).at(input),
        _ => Failure::new(Exit::Other, message).at(input),
    }
}
