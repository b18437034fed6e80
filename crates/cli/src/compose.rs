//! Which engines compute: the one place that names them.

use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_engine::unruly::{Faults, UnrulyEngine};
use strongroom_engine_cpu::{CpuEngine, ReferenceEngine};
use strongroom_sched::Fixed;

use crate::failure::{Failure, Result};

/// What `--engine` takes without being asked for anything else.
pub(crate) const DEFAULT: &str = "cpu";

/// Seed of the test engine's misbehaviour.
const SEED: u64 = 0x5eed;

/// The engines of this process under one scheduler, by the name of the one
/// that is asked first; the by-the-book engine takes what that cannot serve.
/// Some engines start threads: not before the process is what it will stay.
///
/// # Errors
/// Usage for a name that there is not.
pub(crate) fn compose(name: Option<&str>) -> Result<Arc<Fixed>> {
    let reference = || Arc::new(ReferenceEngine);
    let primary: Arc<dyn Engine> = match name.unwrap_or(DEFAULT) {
        "cpu" => Arc::new(CpuEngine::new()),
        "reference" => reference(),
        // For tests alone: busy, late, out of order, and it loses work.
        "unruly" => Arc::new(UnrulyEngine::new(Arc::new(CpuEngine::new()), SEED, Faults::lossy())),
        other => {
            return Err(Failure::usage(format!("there is no engine `{other}`"))
                .hint("Use cpu or reference; `strongroom doctor` tells what this machine has."));
        }
    };
    Ok(Arc::new(Fixed::new(primary, reference())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_names_and_others_are_refused() {
        let primary = |name| compose(name).map(|engines| engines.statistics().primary.engine);
        assert_eq!(primary(None), primary(Some("cpu")));
        assert_ne!(primary(None), primary(Some("reference")));
        assert!(primary(Some("unruly")).is_ok_and(|name| name.starts_with("unruly(")));
        assert!(primary(Some("gpu")).is_err());
    }
}
