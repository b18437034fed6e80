//! Tests of the inside: planted faults on a device that is not there, and the wiping on those that are.

mod fake;
mod faults;
mod lending;
mod wiping;
