//! Everything unsafe: pinned memory, the two drivers' functions, and the calls of them.

mod commands;
mod cuda;
mod in_flight;
mod opencl;
mod pinned;

pub(crate) use cuda::open as open_cuda;
pub(crate) use opencl::open as open_opencl;
pub(crate) use pinned::{Block, Part, split};

/// What a driver's library offers, or why not.
pub(crate) struct Found {
    pub(crate) devices: Vec<Box<dyn crate::platform::Device>>,
    /// What is missing, where something is: what it is, and what would give it.
    pub(crate) missing: Option<String>,
}

impl Found {
    fn nothing(missing: impl Into<String>) -> Found {
        Found { devices: Vec::new(), missing: Some(missing.into()) }
    }
}
