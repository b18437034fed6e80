//! `size`: one threshold, as the packet-size distribution mode of DPDK's
//! cryptodev scheduler has it.

use super::{Decision, Question, Reason, first_device, first_inline, whole};

/// A device from [`beta_bytes`](crate::Settings::beta_bytes) on, the CPU below.
#[must_use]
pub fn place(&Question { settings, request, engines, .. }: &Question<'_>) -> Option<Decision> {
    let large = request.bytes >= u64::from(settings.beta_bytes);
    let chosen = if large { first_device(engines) } else { None }.or_else(|| first_inline(engines));
    chosen.map(|engine| whole(engine, Reason::Threshold))
}
