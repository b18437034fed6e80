//! Names that stand for what is open already: `-`, `/dev/stdout`, `/dev/fd/7`.

use std::path::Path;

use crate::opening;

pub(super) fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// The number of the descriptor that the path of a result stands for.
pub(super) fn descriptor_to_write(path: &Path) -> Option<i32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        _ => opening::descriptor(path).filter(|_| !is_standard(path) && path != Path::new("/dev/stdin")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_results_are_known_by_their_names() {
        for (path, number) in [
            ("/dev/stdout", Some(1)),
            ("/dev/stderr", Some(2)),
            ("/dev/fd/1", Some(1)),
            ("/proc/self/fd/7", Some(7)),
            ("-", None),
            ("/dev/stdin", None),
            ("/dev/null", None),
            ("./-", None),
        ] {
            assert_eq!(descriptor_to_write(Path::new(path)), number, "{path}");
        }
    }
}
