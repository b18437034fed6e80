//! Which settings of `aca` would have placed every batch of a run alike.
//!
//! `aca` compares three figures with a threshold each
//! ([`strongroom_sched::policy::aca`]). A run in which each comparison falls out
//! as before is the same run: so one of them tells of all thresholds between
//! the largest figure that was not above them and the smallest that was. What
//! is not compared does not narrow anything.

use strongroom_sched::Settings;
use strongroom_sched::policy::{CpuView, Request};

/// Thresholds that all figures so far were on the same side of.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: f64,
    below: f64,
}

impl Span {
    const ALL: Span = Span { from: 0.0, below: f64::INFINITY };

    /// Whether a figure is above a threshold, which stays in the span.
    fn is_above(&mut self, figure: f64, threshold: f64) -> bool {
        let is_above = figure > threshold;
        if is_above {
            self.below = self.below.min(figure);
        } else {
            self.from = self.from.max(figure);
        }
        is_above
    }

    fn has(&self, threshold: f64) -> bool {
        self.from <= threshold && threshold < self.below
    }
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    alpha: Span,
    beta_bytes: Span,
    idle_cpu_permille: Span,
}

impl Scope {
    /// Of a run that has not begun.
    pub(crate) const ALL: Scope =
        Scope { alpha: Span::ALL, beta_bytes: Span::ALL, idle_cpu_permille: Span::ALL };

    /// A request was placed under these settings.
    pub(crate) fn narrows(&mut self, settings: &Settings, request: &Request, cpu: &CpuView) {
        if request.is_read() || !self.alpha.is_above(f64::from(request.tasks), settings.alpha.into()) {
            return;
        }
        if self.beta_bytes.is_above(request.request_bytes as f64, settings.beta_bytes.into()) {
            self.idle_cpu_permille.is_above(cpu.idle * 1000.0, settings.idle_cpu_permille.into());
        }
    }

    /// Whether these settings place as those of the run did.
    pub(crate) fn has(&self, settings: &Settings) -> bool {
        self.alpha.has(settings.alpha.into())
            && self.beta_bytes.has(settings.beta_bytes.into())
            && self.idle_cpu_permille.has(settings.idle_cpu_permille.into())
    }
}
