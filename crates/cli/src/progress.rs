//! Progress of long work, on standard error when that is a terminal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::fit::Display;

/// Cells of a line where a terminal does not say how many it has.
const WIDTH: usize = 80;
/// Cells that stand beside the bar of [`Steps`].
const STEPS: usize = 20;
/// How often it is drawn.
const DRAWS_PER_SECOND: u8 = 8;

/// Progress of something that reads bytes of files. Cheap to call from many
/// threads.
pub(crate) struct Progress {
    bar: ProgressBar,
    found: AtomicU64,
    files: AtomicU64,
}

impl Progress {
    /// Shows `label` and nothing that moves by itself, until the amount of
    /// work is known.
    pub(crate) fn begin(label: &'static str) -> Progress {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("{msg}: {pos} files {spinner}"));
        bar.set_message(label);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, found: AtomicU64::new(0), files: AtomicU64::new(0) }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Counts one more of what is looked for before the work begins.
    pub(crate) fn found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
        self.bar.inc(1);
    }

    /// Begins to count bytes, of which there are about `total`.
    pub(crate) fn begin_bytes(&self, total: u64, label: &'static str) {
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_style(style(of_bytes(width())));
        self.bar.set_message(label);
        self.bar.set_prefix("0");
    }

    /// Begins to count bytes, of which nobody knows how many there are.
    pub(crate) fn begin_stream(&self, label: &'static str) {
        self.bar.reset();
        self.bar.set_style(style("{msg} {binary_bytes} {binary_bytes_per_sec} {spinner}"));
        self.bar.set_message(label);
    }

    /// Prints or asks something else, in its place.
    pub(crate) fn above<T>(&self, work: impl FnOnce() -> T) -> T {
        self.bar.suspend(work)
    }

    /// So many bytes are done.
    pub(crate) fn done(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// One file more has been begun.
    pub(crate) fn done_file(&self) {
        let files = self.files.fetch_add(1, Ordering::Relaxed) + 1;
        // Drawn eight times a second: not each file is worth a text.
        if self.is_shown() && (files < 1000 || files.is_multiple_of(64)) {
            self.bar.set_prefix(format!("{files} of {}", self.found.load(Ordering::Relaxed)));
        }
    }

    /// Takes it from the screen.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Progress of work in steps of about the same length.
pub(crate) struct Steps(ProgressBar);

impl Steps {
    /// So many.
    pub(crate) fn begin(count: u64) -> Steps {
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
        let bar = ProgressBar::with_draw_target(Some(count), target);
        bar.set_style(style(&of_steps(width())));
        Steps(bar)
    }

    /// The next one begins.
    pub(crate) fn next(&self, label: &str) {
        self.0.set_message(label.to_owned());
        self.0.inc(1);
    }

    /// Prints something else, above it.
    pub(crate) fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Takes it from the screen.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Cells of a line where it is drawn.
fn width() -> usize {
    Display::of(std::io::stderr()).width.unwrap_or(WIDTH)
}

/// Progress in bytes, as much of it as a line has room for.
fn of_bytes(width: usize) -> &'static str {
    match width {
        110.. => {
            "{msg} {bar:24} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}, {prefix} files, {eta} left"
        }
        60.. => "{msg} {wide_bar} {binary_bytes}/{binary_total_bytes}, {eta} left",
        _ => "{msg} {wide_bar} {percent:>3} %",
    }
}

/// Progress in steps. What the step is has a line of its own where it would be
/// cut beside the bar; the line before it must not be full, or it goes on in
/// the next.
fn of_steps(width: usize) -> String {
    match width {
        80.. => "{bar:24} {percent:>3} %, {eta} left: {wide_msg}".to_owned(),
        _ => format!(
            "{{bar:{}}} {{percent:>3}} %, {{eta}} left\n{{wide_msg}}",
            width.saturating_sub(STEPS).clamp(1, 24)
        ),
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is valid");
    match crate::fit::is_ascii() {
        true => style.progress_chars("#>-").tick_chars("-\\|/ "),
        false => style,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;

    #[test]
    fn what_is_drawn_fits_into_its_line() {
        for width in [20u16, 30, 40, 59, 60, 79, 80, 109, 110, 132] {
            for template in [of_bytes(width.into()).to_owned(), of_steps(width.into())] {
                let screen = InMemoryTerm::new(9, width);
                let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
                let bar = ProgressBar::with_draw_target(Some(1000 << 30), target);
                bar.set_style(style(&template));
                bar.set_message("Verifying");
                bar.set_prefix("123456 of 234567");
                bar.set_position(999 << 30);
                bar.tick();
                let lines = screen.contents().lines().count();
                assert_eq!(lines, template.lines().count(), "{width}: {}", screen.contents());
                bar.abandon();
            }
        }
    }

    #[test]
    fn the_templates_are_valid() {
        let progress = Progress::begin("listing");
        progress.found();
        progress.begin_bytes(10, "verifying");
        progress.done_file();
        progress.done(10);
        assert_eq!(progress.above(|| 7), 7);
        progress.finish();
        let steps = Steps::begin(2);
        steps.next("one");
        assert_eq!(steps.above(|| 7), 7);
        steps.finish();
    }
}
