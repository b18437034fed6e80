//! The namespace of a vault through its public interface, on a store in
//! memory and on one of this machine.

mod attacks;
mod attributes;
mod crowds;
mod directories;
mod files;
mod lists;
mod names;
mod poor_stores;
mod renames;
mod support;
mod symlinks;
mod threads;
mod xattrs;
