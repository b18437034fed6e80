//! What the suites and comparisons run on: programs with a limit of time ([`command`]), plain directories
//! and mounts of every kind ([`subject`]), numbers from a seed ([`random`]), and what a suite came to
//! ([`tally`]).
//!
//! Nothing of the product is linked in: what is tested is tested as a user sees it, through its command line
//! and its mounts, and a plain directory and other programs' mounts alike.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the project's own tasks alone use it")]

pub mod command;
pub mod failure;
pub mod packages;
pub mod random;
pub mod subject;
pub mod tally;
pub mod workspace;
