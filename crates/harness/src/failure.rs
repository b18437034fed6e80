//! The one error type of the tasks: a message for a person, with the chain of causes in it.
//!
//! Tasks report and stop; nothing here is matched on, so there are no kinds.

use std::fmt;

/// What a task returns.
pub type Result<T = ()> = std::result::Result<T, Failure>;

/// Why a task stopped.
pub struct Failure(String);

impl Failure {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Puts "what was being done" before "what went wrong".
pub trait Context<T> {
    fn context<S: fmt::Display>(self, doing: S) -> Result<T>;
}

impl<T, E: Into<Failure>> Context<T> for std::result::Result<T, E> {
    fn context<S: fmt::Display>(self, doing: S) -> Result<T> {
        self.map_err(|error| Failure(format!("{doing}: {}", error.into())))
    }
}

/// Ends the task with a formatted message unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::failure::Failure::new(format!($($message)+)));
        }
    };
}
pub use crate::ensure;
