//! Verifying the contents and attributes of files, on many threads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

use strongroom_format::vault::FileId;
use strongroom_store::InodeId;
use strongroom_units::BlockSize;
use strongroom_vault::namespace::{Namespace, Opening};
use strongroom_vault::{Error, Recovered};

use super::findings::{Finding, Findings, Recovery};
use crate::progress::Progress;

/// A file to be verified. Whoever takes it gives its lookup back.
pub(super) struct Job {
    /// Node number, looked up once for this job.
    pub(super) number: u64,
    /// The stored inode.
    pub(super) inode: InodeId,
    /// Plain path.
    pub(super) path: Vec<u8>,
}

/// Shared by all threads that verify.
pub(super) struct Verifier<'a> {
    namespace: &'a Arc<Namespace>,
    findings: &'a Findings,
    progress: &'a Progress,
    block_size: BlockSize,
    /// Whether a session has crashed, so that recovery may have something to
    /// say of files.
    settling: bool,
    files: AtomicU64,
    bytes: AtomicU64,
    ids: Mutex<HashSet<FileId>>,
    paths: Mutex<HashMap<InodeId, Vec<u8>>>,
}

impl<'a> Verifier<'a> {
    pub(super) fn new(
        namespace: &'a Arc<Namespace>,
        findings: &'a Findings,
        progress: &'a Progress,
        block_size: BlockSize,
        settling: bool,
    ) -> Verifier<'a> {
        Verifier {
            namespace,
            findings,
            progress,
            block_size,
            settling,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            ids: Mutex::default(),
            paths: Mutex::default(),
        }
    }

    /// Verifies what comes until there is no more.
    pub(super) fn run(&self, waiting: &Mutex<Receiver<Job>>) {
        loop {
            let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match job {
                Ok(job) => self.verify(&job),
                Err(_) => return,
            }
        }
    }

    /// Verifies a file.
    pub(super) fn verify(&self, job: &Job) {
        self.files.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = self.content(job) {
            self.findings.add(Finding::new(&job.path, &error));
        } else {
            self.xattrs(job.number, &job.path);
        }
        self.findings.collect(self.namespace);
        self.namespace.forget(job.number, 1);
    }

    fn content(&self, job: &Job) -> Result<(), Error> {
        let content = self.namespace.open(job.number, Opening::default())?;
        if self.settling {
            self.paths.lock().unwrap_or_else(PoisonError::into_inner).insert(job.inode, job.path.clone());
        }
        if !self.ids.lock().unwrap_or_else(PoisonError::into_inner).insert(content.id()) {
            self.findings.add(Finding::duplicate(&job.path, "file"));
        }
        let verified = content.verify(&mut |bytes| self.progress.done(bytes));
        let len = content.plain_len();
        self.namespace.release(job.number);
        let verified = verified?;
        self.bytes.fetch_add(verified.bytes, Ordering::Relaxed);
        for (index, damage) in verified.damage.iter().enumerate() {
            let from = if index == 0 { verified.good_len } else { None };
            self.findings.add(Finding::content(&job.path, damage, from, self.block_size, len));
        }
        Ok(())
    }

    /// Opens every extended attribute of a node.
    pub(super) fn xattrs(&self, number: u64, path: &[u8]) {
        let names = match self.namespace.xattr_names(number) {
            Ok(names) => names,
            Err(error) if is_unsupported(&error) => return,
            Err(error) => return self.findings.add(Finding::new(path, &error)),
        };
        for name in names {
            // Other errors: it was removed meanwhile, or its class has none.
            if let Err(error @ Error::Damaged(_)) = self.namespace.xattr(number, &name) {
                self.findings.add(Finding::new(path, &error));
            }
        }
    }

    /// Files verified.
    pub(super) fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Plain bytes opened.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What recovery made of files, by path.
    pub(super) fn recovered(&self, recovered: &BTreeMap<InodeId, Recovered>) -> Vec<Recovery> {
        let paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list: Vec<Recovery> = recovered
            .iter()
            .map(|(inode, what)| Recovery {
                path: String::from_utf8_lossy(paths.get(inode).map_or(&b""[..], Vec::as_slice)).into_owned(),
                action: match what {
                    Recovered::Replayed => "replayed from the journal",
                    Recovered::Emptied => "never synced, and empty",
                    Recovered::Trimmed => "cut to what was synced",
                    Recovered::Moved => "bound to its new name",
                },
            })
            .collect();
        list.sort_by(|a, b| a.path.cmp(&b.path));
        list
    }
}

fn is_unsupported(error: &Error) -> bool {
    error.errno() == rustix::io::Errno::OPNOTSUPP.raw_os_error()
}
