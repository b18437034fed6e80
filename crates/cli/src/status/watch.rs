//! `status --watch`: mounts as they work, on the whole terminal.
//!
//! A frame is text made from two answers of the daemon; the terminal is put
//! back however the view ends.

use std::io::{self, IsTerminal, Write as _};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, SetAttribute};
use crossterm::{cursor, execute, queue, terminal};

use super::bottleneck::{self, Shares};
use crate::daemon::status::{EngineStatus, MountStatus};
use crate::failure::{Exit, Failure, Result};
use crate::report::{bytes, shown};

/// Cells of a bar.
const BAR: usize = 24;

/// An answer, and when it came.
pub(super) struct Moment {
    pub(super) at: Instant,
    pub(super) mounts: Vec<MountStatus>,
}

/// Shows what `ask` answers every `interval`, until q, Escape or Ctrl-C is
/// pressed or no mount is left.
///
/// # Errors
/// Usage without a terminal; what `ask` fails with.
pub(super) fn run(interval: Duration, mut ask: impl FnMut() -> Result<Vec<MountStatus>>) -> Result<()> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage("--watch needs a terminal")
            .hint("For programs there are --json and --prometheus."));
    }
    let mut before = Moment { at: Instant::now(), mounts: ask()? };
    let screen = Screen::open().map_err(failed)?;
    let ended = loop {
        screen.draw(&frame(None, &before)).map_err(failed)?;
        match turn(&screen, interval, &mut before, &mut ask) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    drop(screen);
    ended
}

/// Shows frames until the view ends; true to begin anew.
fn turn(
    screen: &Screen,
    interval: Duration,
    before: &mut Moment,
    ask: &mut impl FnMut() -> Result<Vec<MountStatus>>,
) -> Result<bool> {
    loop {
        let next = before.at + interval;
        while let Some(left) = next.checked_duration_since(Instant::now()) {
            if !event::poll(left).map_err(failed)? {
                break;
            }
            match event::read().map_err(failed)? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    let ends = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
                        || key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                    if ends {
                        return Ok(false);
                    }
                }
                Event::Resize(..) => screen.draw(&frame(None, before)).map_err(failed)?,
                _ => {}
            }
        }
        let now = Moment { at: Instant::now(), mounts: ask()? };
        screen.draw(&frame(Some(before), &now)).map_err(failed)?;
        *before = now;
    }
}

fn failed(error: io::Error) -> Failure {
    Failure::new(Exit::Other, format!("terminal: {error}"))
}

/// The terminal while it is ours.
struct Screen;

impl Screen {
    fn open() -> io::Result<Screen> {
        terminal::enable_raw_mode()?;
        // From here on it is put back.
        let screen = Screen;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Draws lines, cut to the size of the terminal. The first is a title.
    fn draw(&self, lines: &[String]) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let mut out = io::stdout().lock();
        queue!(out, terminal::BeginSynchronizedUpdate, terminal::Clear(terminal::ClearType::All))?;
        for (row, line) in lines.iter().take(usize::from(height)).enumerate() {
            let text: String = line.chars().take(usize::from(width)).collect();
            queue!(out, cursor::MoveTo(0, row as u16))?;
            if !text.starts_with(' ') {
                queue!(out, SetAttribute(Attribute::Bold))?;
            }
            out.write_all(text.as_bytes())?;
            queue!(out, SetAttribute(Attribute::Reset))?;
        }
        queue!(out, terminal::EndSynchronizedUpdate)?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// What is shown: titles begin in the first column. Without an earlier moment
/// there are no rates.
pub(super) fn frame(before: Option<&Moment>, now: &Moment) -> Vec<String> {
    let mut lines = vec![format!("strongroom {}   q ends", env!("CARGO_PKG_VERSION"))];
    if now.mounts.is_empty() {
        lines.push("  No vault is mounted.".to_owned());
    }
    for status in &now.mounts {
        let earlier = before.and_then(|before| {
            let same =
                |other: &&MountStatus| (other.pid, &other.mount_point) == (status.pid, &status.mount_point);
            Some((before.mounts.iter().find(same)?, (now.at - before.at).as_secs_f64().max(1e-3)))
        });
        mount(&mut lines, status, earlier);
    }
    lines
}

fn mount(lines: &mut Vec<String>, status: &MountStatus, earlier: Option<(&MountStatus, f64)>) {
    let per_second = |now: u64, value: fn(&MountStatus) -> u64| match earlier {
        Some((before, seconds)) => now.saturating_sub(value(before)) as f64 / seconds,
        None => 0.0,
    };
    let count = |status: &MountStatus| status.requests.iter().map(|request| request.count).sum::<u64>();
    lines.push(String::new());
    lines.push(format!(
        "{}   {} of {}",
        shown(status.mount_point.as_bytes()),
        status.suite,
        shown(status.vault.as_bytes())
    ));
    lines.push(format!(
        "  read {}, written {}, {:.0} requests/s, {} open, {} resident",
        rate(per_second(status.read_bytes, |status| status.read_bytes)),
        rate(per_second(status.written_bytes, |status| status.written_bytes)),
        per_second(count(status), |status| status.requests.iter().map(|request| request.count).sum()),
        status.open,
        bytes(status.memory.resident_bytes),
    ));
    let scheduler = &status.scheduler;
    let thresholds = match scheduler.policy.as_str() {
        "aca" | "size" => format!(
            ", alpha {}, beta {}, M {} %",
            scheduler.alpha,
            bytes(scheduler.beta_bytes),
            scheduler.idle_cpu_percent
        ),
        _ => String::new(),
    };
    lines.push(format!("  policy {}, objective {}{thresholds}", scheduler.policy, scheduler.objective));
    lines.push(format!(
        "  {:<18}{:>12}{:>10}{:>7}{:>11}  {}",
        "engine", "bytes/s", "ops/s", "queue", "latency", "why, and what was checked"
    ));
    for engine in status.engines.iter().filter(|engine| engine.operations > 0 || engine.quarantined) {
        let before = earlier.and_then(|(before, seconds)| {
            Some((before.engines.iter().find(|other| other.name == engine.name)?, seconds))
        });
        lines.push(format!("  {}", engine_line(engine, before)));
    }
    match earlier.and_then(|(before, seconds)| {
        bottleneck::shares(&before.time, &status.time, seconds, status.transport.workers)
    }) {
        Some(shares) => bottleneck_lines(lines, &shares),
        None => lines.push("  idle".to_owned()),
    }
    for damaged in &status.errors.damaged {
        let path = damaged.path.as_deref().unwrap_or("(no known name)");
        lines.push(format!("DAMAGED {}: {}", shown(path.as_bytes()), damaged.what));
    }
}

fn engine_line(engine: &EngineStatus, before: Option<(&EngineStatus, f64)>) -> String {
    let since = |now: u64, value: fn(&EngineStatus) -> u64| match before {
        Some((before, seconds)) => now.saturating_sub(value(before)) as f64 / seconds,
        None => 0.0,
    };
    let line = format!(
        "{:<18}{:>12}{:>10.0}{:>7}{:>11}  ",
        engine.name,
        rate(since(engine.bytes, |engine| engine.bytes)),
        since(engine.operations, |engine| engine.operations),
        engine.in_flight,
        match engine.latency_ns_mean {
            0 => "-".to_owned(),
            ns => format!("{:.1} µs", ns as f64 / 1e3),
        }
    );
    // Of what was placed since the last frame, or else since the mount.
    let placed = |reason: &String, count: u64| {
        let earlier = before.and_then(|(before, _)| before.placements.get(reason)).copied().unwrap_or(0);
        count.saturating_sub(earlier)
    };
    let mut reasons: Vec<(u64, &String)> =
        engine.placements.iter().map(|(reason, count)| (placed(reason, *count), reason)).collect();
    let total: u64 = reasons.iter().map(|(count, _)| count).sum();
    reasons.retain(|(count, _)| *count > 0);
    reasons.sort_by(|one, other| other.cmp(one));
    let words =
        reasons.iter().take(3).map(|(count, reason)| format!("{reason} {} %", count * 100 / total.max(1)));
    let mut parts: Vec<String> = Vec::from_iter((total > 0).then(|| words.collect::<Vec<_>>().join(", ")));
    parts.extend((engine.checked > 0).then(|| super::checked(engine)));
    parts.extend(engine.quarantined.then(|| "QUARANTINE".to_owned()));
    line + &parts.join("; ")
}

fn bottleneck_lines(lines: &mut Vec<String>, shares: &Shares) {
    lines.push(format!("  threads busy {:.0} %; held up by {}", shares.busy * 100.0, shares.verdict()));
    for (name, share) in
        [("FUSE and vault", shares.fuse), ("store", shares.store), ("cryptography", shares.cryptography)]
    {
        let full = ((share * BAR as f64).round() as usize).min(BAR);
        lines.push(format!(
            "  {name:<16}{}{} {:>3.0} %",
            "█".repeat(full),
            "·".repeat(BAR - full),
            share * 100.0
        ));
    }
}

/// Bytes in a second.
fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 1e9 => format!("{:.2} GB/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.1} MB/s", rate / 1e6),
        rate => format!("{:.1} kB/s", rate / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn a_frame_has_rates_reasons_queue_and_what_holds_up() {
        let at = Instant::now();
        let before = Moment { at, mounts: vec![sample()] };
        let mut status = sample();
        status.written_bytes += 10_000_000;
        status.engines[0].bytes += 10_000_000;
        status.engines[0].operations += 40;
        status.engines[0].placements.insert("only".to_owned(), 47);
        status.engines[0].in_flight = 3;
        status.time.requests_ns += 3_000_000_000;
        status.time.cryptography_ns += 2_000_000_000;
        let now = Moment { at: at + Duration::from_secs(2), mounts: vec![status] };
        let text = frame(Some(&before), &now).join("\n");
        for part in [
            "written 5.0 MB/s",
            "      20      3",
            "only 100 %",
            "held up by cryptography",
            "0 mismatches in 4 KiB checked",
            "67 %",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_first_frame_and_an_empty_one_are_whole() {
        let now = Moment { at: Instant::now(), mounts: vec![sample()] };
        let text = frame(None, &now).join("\n");
        assert!(text.contains("/m") && text.contains("idle"), "{text}");
        let none = Moment { at: Instant::now(), mounts: Vec::new() };
        assert!(frame(Some(&now), &none).join("\n").contains("No vault is mounted"));
    }
}
