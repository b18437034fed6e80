//! Progress of long work, on standard error when that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often it is drawn.
const DRAWS_PER_SECOND: u8 = 8;

/// Progress of something that reads bytes of files. Cheap to call from many
/// threads.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Shows `label` and nothing that moves by itself, until the amount of
    /// work is known.
    pub(crate) fn begin(label: &'static str) -> Progress {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("{msg}: {pos} files {spinner}"));
        bar.set_message(label);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Counts one more of what is looked for before the work begins.
    pub(crate) fn found(&self) {
        self.0.inc(1);
    }

    /// Begins to count bytes, of which there are about `total`.
    pub(crate) fn begin_bytes(&self, total: u64, label: &'static str) {
        self.0.reset();
        self.0.set_length(total);
        self.0.set_style(style(
            "{msg} {bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {eta} left",
        ));
        self.0.set_message(label);
    }

    /// So many bytes are done.
    pub(crate) fn done(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Takes it from the screen.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        let progress = Progress::begin("listing");
        progress.found();
        progress.begin_bytes(10, "verifying");
        progress.done(10);
        progress.finish();
    }
}
