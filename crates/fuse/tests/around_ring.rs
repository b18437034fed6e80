//! Everything in `around` once more, over io_uring.

#[path = "around.rs"]
mod around;
