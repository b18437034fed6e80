//! The strongroom command.
fn main() {}
