//! Which transport a session takes, and why.

use super::ring::Rings;

/// What a session is told to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportChoice {
    /// What is best where it runs.
    #[default]
    Automatic,
    /// `/dev/fuse`.
    Device,
    /// FUSE over io_uring, or the session fails.
    Ring,
}

/// What a session took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportReport {
    /// `dev-fuse` or `io-uring`.
    pub name: &'static str,
    /// Why this one.
    pub reason: String,
    /// Threads that answer.
    pub workers: usize,
    /// Bytes of memory for requests and their answers, at most, of these
    /// threads; whoever stands in over io_uring has as much as one of them
    /// (`docs/pacing.md#prefetch-around-a-fault`).
    pub memory_bytes: usize,
}

/// What is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chosen {
    Device,
    Rings(Rings),
}

/// How root has the kernel offer rings. It is a matter of the whole system, so
/// this program never does it.
const SWITCH: &str = "root can switch it on with `echo Y > /sys/module/fuse/parameters/enable_uring`";

/// An entry without its memory cannot be given back, so that one result that a
/// device loses would end the connection (`docs/pacing.md#transports`).
const MAY_LOSE: &str = "FUSE over io_uring is offered, and is taken on request alone: an engine of this mount may keep the memory of a request";

const FASTER: &str =
    "the kernel offers FUSE over io_uring, where small requests are answered on the CPU that asked";

/// Decides. `offered` says whether the kernel offers rings, `buffers_return`
/// is as in [`SessionOptions`](crate::SessionOptions).
///
/// # Errors
/// Why rings that were asked for cannot be.
pub(crate) fn choose(
    choice: TransportChoice,
    offered: bool,
    buffers_return: bool,
    transfer_max: usize,
) -> Result<(Chosen, String), String> {
    if choice == TransportChoice::Device {
        return Ok((Chosen::Device, "asked for".to_owned()));
    }
    let rings = if offered {
        Rings::plan(transfer_max)
    } else {
        Err(format!("the kernel does not offer FUSE over io_uring ({SWITCH})"))
    };
    match (rings, choice) {
        (Ok(rings), TransportChoice::Ring) => Ok((Chosen::Rings(rings), "asked for".to_owned())),
        (Ok(_), _) if !buffers_return => Ok((Chosen::Device, MAY_LOSE.to_owned())),
        (Ok(rings), _) => Ok((Chosen::Rings(rings), FASTER.to_owned())),
        (Err(reason), TransportChoice::Ring) => Err(reason),
        (Err(reason), _) => Ok((Chosen::Device, reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_taken_only_where_they_are_offered() {
        let device =
            |choice, offered| choose(choice, offered, true, 4096).map(|(chosen, _)| chosen == Chosen::Device);
        assert_eq!(device(TransportChoice::Automatic, false), Ok(true));
        assert_eq!(device(TransportChoice::Device, true), Ok(true));
        assert_eq!(device(TransportChoice::Automatic, true), Ok(false));
        let refused = device(TransportChoice::Ring, false).unwrap_err();
        assert!(refused.contains("enable_uring"), "{refused}");
    }

    #[test]
    fn engines_that_may_lose_memory_get_rings_on_request_alone() {
        let device = |choice| choose(choice, true, false, 4096).map(|(chosen, _)| chosen == Chosen::Device);
        assert_eq!(device(TransportChoice::Automatic), Ok(true));
        assert_eq!(device(TransportChoice::Ring), Ok(false));
    }

    #[test]
    fn more_memory_than_is_bounded_is_refused() {
        assert!(choose(TransportChoice::Ring, true, true, 1 << 40).is_err());
        let (chosen, reason) = choose(TransportChoice::Automatic, true, true, 1 << 40).unwrap();
        assert_eq!(chosen, Chosen::Device);
        assert!(reason.contains("MiB"), "{reason}");
    }
}
