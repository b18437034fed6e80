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
use crate::fit::{self, Display};
use crate::report::{bytes, shown, shown_place};

/// Cells of a bar, where there is room.
const BAR: usize = 24;
/// Cells of the columns of engines. Narrower terminals have sentences.
const TABLE: usize = 76;

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
        screen.draw(None, &before).map_err(failed)?;
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
                Event::Resize(..) => screen.draw(None, before).map_err(failed)?,
                _ => {}
            }
        }
        let now = Moment { at: Instant::now(), mounts: ask()? };
        screen.draw(Some(before), &now).map_err(failed)?;
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

    /// Draws a frame, cut to the height of the terminal. A line that begins in
    /// the first column is a title.
    fn draw(&self, before: Option<&Moment>, now: &Moment) -> io::Result<()> {
        let (width, height) = terminal::size()?;
        let display = Display { width: Some(usize::from(width).max(1)), ascii: fit::is_ascii() };
        let text = frame(before, now, usize::from(width)).join("\n");
        let text = display.fit(&text);
        let mut out = io::stdout().lock();
        queue!(out, terminal::BeginSynchronizedUpdate, terminal::Clear(terminal::ClearType::All))?;
        for (row, line) in text.lines().take(usize::from(height)).enumerate() {
            let line: String = line.chars().take(usize::from(width)).collect();
            queue!(out, cursor::MoveTo(0, row as u16))?;
            if !line.starts_with(' ') {
                queue!(out, SetAttribute(Attribute::Bold))?;
            }
            out.write_all(line.as_bytes())?;
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

/// What is shown in `width` cells: titles begin in the first column. Without
/// an earlier moment there are no rates.
pub(super) fn frame(before: Option<&Moment>, now: &Moment, width: usize) -> Vec<String> {
    let mut lines = vec![format!("strongroom {}   q ends", env!("CARGO_PKG_VERSION"))];
    if now.mounts.is_empty() {
        lines.push("  No vault is mounted.".to_owned());
    }
    for status in &now.mounts {
        let earlier = before.and_then(|before| {
            let same =
                |other: &&MountStatus| (other.pid, &other.mount_point) == (status.pid, &status.mount_point);
            let seconds = (now.at - before.at).as_secs_f64().max(1e-3);
            Some(Earlier { status: before.mounts.iter().find(same)?, seconds })
        });
        mount(&mut lines, status, earlier, width);
    }
    lines
}

/// The moment that rates are taken since.
#[derive(Clone, Copy)]
struct Earlier<'m> {
    status: &'m MountStatus,
    seconds: f64,
}

fn mount(lines: &mut Vec<String>, status: &MountStatus, earlier: Option<Earlier<'_>>, width: usize) {
    let per_second = |value: fn(&MountStatus) -> u64| {
        earlier
            .map_or(0.0, |before| value(status).saturating_sub(value(before.status)) as f64 / before.seconds)
    };
    lines.push(String::new());
    lines.push(format!(
        "{}   {} of {}",
        shown(status.mount_point.as_bytes()),
        status.suite,
        shown(status.vault.as_bytes())
    ));
    lines.push(format!(
        "  read {}, written {}, {:.0} requests/s, {} open, {} resident",
        rate(per_second(|status| status.read_bytes)),
        rate(per_second(|status| status.written_bytes)),
        per_second(|status| status.requests.iter().map(|request| request.count).sum()),
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
    engines(lines, status, earlier, width);
    let shares = earlier.and_then(|before| {
        bottleneck::shares(&before.status.time, &status.time, before.seconds, status.transport.workers)
    });
    match shares {
        Some(shares) => bottleneck_lines(lines, &shares, width),
        None => lines.push("  idle".to_owned()),
    }
    if let Some(waits) = super::store_text(&status.store) {
        lines.push(format!("  {waits}"));
    }
    for damaged in &status.errors.damaged {
        let path = damaged.path.as_deref().map(str::as_bytes);
        lines.push(format!("DAMAGED {}: {}", shown_place(path), damaged.what));
    }
}

/// A line for each engine, with the number that `set use=` knows it by.
fn engines(lines: &mut Vec<String>, status: &MountStatus, earlier: Option<Earlier<'_>>, width: usize) {
    if width >= TABLE {
        lines.push(format!(
            "  {:>2} {:<18}{:>12}{:>10}{:>7}{:>11}  {}",
            "", "engine", "bytes/s", "ops/s", "queue", "latency", "why, and what was checked"
        ));
    }
    for (number, engine) in status.engines.iter().enumerate() {
        if engine.operations == 0 && !engine.quarantined {
            continue;
        }
        let before = earlier.and_then(|before| {
            let same = |other: &&EngineStatus| other.name == engine.name;
            Some((before.status.engines.iter().find(same)?, before.seconds))
        });
        lines.push(engine_line(number, engine, before, width));
    }
}

fn engine_line(
    number: usize,
    engine: &EngineStatus,
    before: Option<(&EngineStatus, f64)>,
    width: usize,
) -> String {
    let since = |value: fn(&EngineStatus) -> u64| {
        value(engine).saturating_sub(before.map_or(0, |(before, _)| value(before)))
    };
    // Nothing is known of a rate at the first look.
    let per_second =
        |value: fn(&EngineStatus) -> u64| before.map_or(0.0, |(_, seconds)| since(value) as f64 / seconds);
    // Of the batches that the rates are of.
    let latency = match since(|engine| engine.latencies) {
        0 => "-".to_owned(),
        count => format!("{:.1} µs", since(|engine| engine.latency_ns_sum) as f64 / count as f64 / 1e3),
    };
    let (bytes, operations) =
        (rate(per_second(|engine| engine.bytes)), per_second(|engine| engine.operations));
    let words = words(engine, before.map(|(before, _)| before));
    match width >= TABLE {
        true => format!(
            "  {number:>2} {:<18}{bytes:>12}{operations:>10.0}{:>7}{latency:>11}  {words}",
            engine.name, engine.in_flight
        ),
        false => {
            let words = if words.is_empty() { words } else { format!("; {words}") };
            format!(
                "  {number:>2}  {}: {bytes}, {operations:.0} ops/s, queue {}, latency {latency}{words}",
                engine.name, engine.in_flight
            )
        }
    }
}

/// Why batches were placed here since the last frame, or else since the mount,
/// and what was checked.
fn words(engine: &EngineStatus, before: Option<&EngineStatus>) -> String {
    let placed = |reason: &String, count: u64| {
        let earlier = before.and_then(|before| before.placements.get(reason)).copied().unwrap_or(0);
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
    parts.join("; ")
}

fn bottleneck_lines(lines: &mut Vec<String>, shares: &Shares, width: usize) {
    lines.push(format!("  threads busy {:.0} %; held up by {}", shares.busy * 100.0, shares.verdict()));
    for (name, share) in
        [("FUSE and vault", shares.fuse), ("store", shares.store), ("cryptography", shares.cryptography)]
    {
        // Beside it stand the name and the share.
        let bar = width.saturating_sub(26).min(BAR);
        let full = ((share * bar as f64).round() as usize).min(bar);
        lines.push(format!(
            "  {name:<16}{}{} {:>3.0} %",
            "█".repeat(full),
            "·".repeat(bar - full),
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

    /// Two seconds of work.
    fn moments() -> (Moment, Moment) {
        let at = Instant::now();
        let before = Moment { at, mounts: vec![sample()] };
        let mut status = sample();
        status.written_bytes += 10_000_000;
        status.engines[0].bytes += 10_000_000;
        status.engines[0].operations += 40;
        status.engines[0].latencies += 40;
        status.engines[0].latency_ns_sum += 40 * 25_000;
        status.engines[0].placements.insert("only".to_owned(), 47);
        status.engines[0].in_flight = 3;
        status.time.requests_ns += 3_000_000_000;
        status.time.cryptography_ns += 2_000_000_000;
        (before, Moment { at: at + Duration::from_secs(2), mounts: vec![status] })
    }

    #[test]
    fn a_frame_has_rates_reasons_queue_and_what_holds_up() {
        let (before, now) = moments();
        let text = frame(Some(&before), &now, 120).join("\n");
        for part in [
            "written 5.0 MB/s",
            "   0 cpu ",
            "      20      3    25.0 µs",
            "only 100 %",
            "held up by cryptography",
            "0 mismatches in 4 KiB checked",
            "67 %",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_narrow_frame_says_the_same_in_lines_that_fit() {
        let (before, now) = moments();
        let display = Display { width: Some(40), ascii: true };
        let text = frame(Some(&before), &now, 40).join("\n");
        let text = display.fit(&text);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.is_ascii(), "{text}");
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in
            ["0 cpu: 5.0 MB/s, 20 ops/s, queue 3, latency 25.0 us; only 100 %", "########....", "67 %"]
        {
            assert!(flat.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_first_frame_and_an_empty_one_are_whole() {
        let now = Moment { at: Instant::now(), mounts: vec![sample()] };
        let text = frame(None, &now, 80).join("\n");
        assert!(text.contains("/m") && text.contains("idle"), "{text}");
        let none = Moment { at: Instant::now(), mounts: Vec::new() };
        assert!(frame(Some(&now), &none, 80).join("\n").contains("No vault is mounted"));
    }
}
