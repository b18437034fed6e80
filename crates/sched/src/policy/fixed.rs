//! `fixed`: always the same engine.

use super::{Decision, Question, Reason, first_inline, whole};

/// The engine that the settings name; where that cannot be used, the CPU.
#[must_use]
pub fn place(&Question { settings, engines, .. }: &Question<'_>) -> Option<Decision> {
    let named = usize::from(settings.engine);
    match engines.get(named) {
        Some(engine) if engine.usable => Some(whole(named, Reason::Forced)),
        _ => first_inline(engines).map(|engine| whole(engine, Reason::Spilled)),
    }
}
