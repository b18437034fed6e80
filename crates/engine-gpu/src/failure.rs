//! What can go wrong with a device.

use std::fmt;

/// Why a device did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A function of the driver failed.
    Call {
        /// Its name.
        call: &'static str,
        /// What it returned.
        code: i32,
    },
    /// The driver does not compile the kernels; what it says of them.
    Build(String),
    /// The launch had not ended at its deadline.
    Late,
    /// The device was lost before.
    Lost,
    /// The device computes something else than the published answers.
    WrongAnswers,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Call { call, code } => write!(f, "{call} failed with code {code}"),
            Failure::Build(log) => write!(f, "the driver does not compile the kernels: {log}"),
            Failure::Late => f.write_str("a launch did not end in time"),
            Failure::Lost => f.write_str("the device was lost"),
            Failure::WrongAnswers => f.write_str("the device fails its known-answer test"),
        }
    }
}

impl std::error::Error for Failure {}
