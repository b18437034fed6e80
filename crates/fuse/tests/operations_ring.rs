//! Everything in `operations` once more, over io_uring.

#[path = "operations.rs"]
mod operations;
