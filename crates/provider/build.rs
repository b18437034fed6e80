//! Keeps the library mapped once OpenSSL has loaded it: OpenSSL unloads providers while the process ends,
//! and threads of it may still run destructors of ours.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
