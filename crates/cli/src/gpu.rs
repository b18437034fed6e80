//! GPUs by name: the devices that `--engine` takes, each beside the engines of the CPU, since a GPU makes keystream and
//! sectors and authenticates nothing.

use std::sync::Arc;

use strongroom_engine::Engine;
use strongroom_engine_gpu::{Found, Options, survey};

use crate::failure::{Exit, Failure, Result};

/// Whether this is a name for devices: `gpu` (the first GPU), `gpu-all`, or that of one.
pub(crate) fn is_name(name: &str) -> bool {
    name == "gpu" || name.starts_with("gpu-") || name.starts_with("opencl-cpu-")
}

/// The engines of the devices that a name means. They start threads.
///
/// # Errors
/// Unsupported where there is no such device.
pub(crate) fn engines(name: &str) -> Result<Vec<Arc<dyn Engine>>> {
    let survey = survey();
    let chosen: Vec<&Found> = match name {
        "gpu" => survey.gpus().take(1).collect(),
        "gpu-all" => survey.gpus().collect(),
        _ => survey.device(name).into_iter().collect(),
    };
    if chosen.is_empty() {
        return Err(Failure::new(Exit::Unsupported, format!("this machine has no {name}"))
            .hint(format!("`strongroom engines` lists what is here. {}", what_is_missing())));
    }
    let engine = |found: &Found| Arc::new(found.engine(Options::default())) as Arc<dyn Engine>;
    Ok(chosen.into_iter().map(engine).collect())
}

/// What is missing for a GPU, and what would give it.
pub(crate) fn what_is_missing() -> String {
    let missing = &survey().missing;
    if missing.is_empty() {
        return "The drivers that are here have no GPU.".to_owned();
    }
    let sentence = |text: &String| {
        let mut letters = text.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        format!("{}{}.", first.map(String::from).unwrap_or_default(), letters.as_str())
    };
    missing.iter().map(sentence).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_unsupported_and_says_what_would_give_it() {
        assert!(is_name("gpu") && is_name("gpu-7") && !is_name("cpu") && !is_name("gpus"));
        let failure = engines("gpu-999").err().expect("nobody has so many");
        assert_eq!(failure.exit(), Exit::Unsupported);
        assert!(!what_is_missing().is_empty());
    }
}
