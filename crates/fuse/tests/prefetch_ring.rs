//! Everything in `prefetch` once more, over io_uring.

#[path = "prefetch.rs"]
mod prefetch;
