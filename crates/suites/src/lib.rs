//! Suites that run on a mount, on a plain directory, or on other programs' mounts: one is one module, with
//! what it is told ([`clap::Args`]) and `run`, which tells what came of it.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the project's own tasks alone use it")]

pub mod age;
pub mod demo;
pub mod fsx;
pub mod git;
pub mod kill;
pub mod luks;
pub mod posix;
pub mod postgres;
pub mod powercut;
pub mod readme;
pub mod scale;
pub mod soak;
pub mod sparse;
pub mod sqlite;
pub mod stores;
pub mod stress;
pub mod vm;
