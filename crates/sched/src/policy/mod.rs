//! Policies, one module each.

pub(crate) mod fixed;
