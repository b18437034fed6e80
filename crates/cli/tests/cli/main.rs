//! The command without mounts, as a user or a program drives it.

mod check;
mod disk;
mod engines;
mod file;
mod file_damage;
mod file_kill;
mod file_memory;
mod freshness;
mod generated;
mod header;
mod hostile;
mod init;
mod keys;
mod machine;
mod repair;
mod report;
mod rollback;
mod salvage;
mod schemas;
mod secrets;
mod simulate;
mod support;
mod sync;
mod trace;
