//! A report as one page: what to do first, then what that comes from. No
//! script, nothing from elsewhere; it follows the reader's colour scheme and
//! prints on white.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::chart::{self, Chart, Line};
use super::document::{Document, MountReport};
use super::text::{engine_use, figure, state};
use super::words::{SIZES, crossover_text, fsync_text, other_suites, rate, recommended, time};
use crate::commands::engines::SelfTest;
use crate::report::bytes;
use crate::status::masks_text;

const STYLE: &str = include_str!("page.css");
/// Most mounts and disks that are shown, so that the page stays below 1 MB
/// whatever is mounted; the others are counted.
const SHOWN_MAX: usize = 100;

/// The whole page.
pub(super) fn html(document: &Document) -> String {
    let machine = &document.machine;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Strongroom on " (machine.cpu) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { "Strongroom on this machine" }
                    p { (machine.cpu) ", " (machine.cpus) " CPUs, Linux " (machine.kernel) ". Strongroom " (document.version) ", " (document.made) "." }
                }
                main {
                    (conclusions(document))
                    (mounts(document))
                    (rates(document))
                    (durability(document))
                    (engines(document))
                    (predictions(document))
                }
                footer { p { "Made by " code { "strongroom report" } ". It holds names of mounts and images, and no key, password or file name." } }
            }
        }
    }
    .into_string()
}

fn conclusions(document: &Document) -> Markup {
    html! {
        section.cards aria-label="In short" {
            @for conclusion in &document.conclusions {
                article class=(conclusion.about) {
                    h2 { (conclusion.title()) }
                    p.says { (coded(&conclusion.says)) }
                    p.because { (coded(&conclusion.because)) }
                }
            }
        }
    }
}

/// What stands between backquotes is code.
fn coded(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn mounts(document: &Document) -> Markup {
    let (mounts, disks) = (&document.mounts, &document.disks);
    let hidden = mounts.len().saturating_sub(SHOWN_MAX) + disks.len().saturating_sub(SHOWN_MAX);
    html! {
        section {
            h2 { "Mounts and disks" }
            @if mounts.is_empty() && disks.is_empty() { p { "None at this moment." } }
            @for mount in mounts.iter().take(SHOWN_MAX).filter(|mount| !mount.is_idle()) { (mount_part(mount)) }
            @let idle: Vec<_> = mounts.iter().take(SHOWN_MAX).filter(|mount| mount.is_idle()).collect();
            @if !idle.is_empty() {
                p { "Idle since they were mounted:" }
                ul.idle { @for mount in idle { li { (about(mount)) " " (masks(mount)) } } }
            }
            @for disk in disks.iter().take(SHOWN_MAX) {
                article {
                    h3 { (disk.image.display()) }
                    p { "A disk, " (disk.cipher) ", " (disk.kind) " at " (disk.export) ", since " (disk.since) "." }
                    @let used: Vec<_> = disk.engines.iter().filter(|engine| engine.operations > 0).collect();
                    @if !used.is_empty() {
                        ul { @for engine in used { li { (engine_use(&engine.into())) } } }
                    }
                }
            }
            @if hidden > 0 { p { (hidden) " more are not shown." } }
        }
    }
}

fn mount_part(mount: &MountReport) -> Markup {
    html! {
        article {
            h3 { (mount.mount_point) }
            p { (about(mount)) }
            @if let Some(time) = mount.time { (shares(&[
                ("cryptography", time.cryptography), ("the store", time.store), ("FUSE and the vault's own work", time.fuse),
            ])) }
            @if mount.fsyncs > 0 { p { (coded(&fsync_text(mount))) "." } }
            @if let Some(suites) = other_suites(mount) {
                p { "Speed of these requests with another suite, predicted (1 is as now): " (suites) "." }
            }
            p.because { "Placed by policy " (mount.policy) ", objective " (mount.objective) ". Transport " (mount.transport) ": " (coded(&mount.transport_reason)) ". " (masks(mount)) }
            @if !mount.engines.is_empty() {
                ul.because { @for engine in &mount.engines { li { (engine_use(engine)) } } }
            }
        }
    }
}

/// What a mount is, and how much went through it.
fn about(mount: &MountReport) -> Markup {
    html! {
        @if mount.is_idle() { strong { (mount.mount_point) } ": " }
        (mount.vault) ", " (mount.suite) ", blocks of " (bytes(mount.block_size_bytes))
        @if mount.read_only { ", read-only" }
        @if mount.durability.as_deref() == Some("relaxed") { ", without barriers" }
        ", since " (mount.since) ". " (bytes(mount.read_bytes)) " read, " (bytes(mount.written_bytes)) " written."
    }
}

fn masks(mount: &MountReport) -> Markup {
    html! { @if let Some(masks) = &mount.masks { "Masks " (masks_text(masks)) "." } }
}

/// A bar of shares that are 1 together, and what they are.
fn shares(parts: &[(&str, f64)]) -> Markup {
    let mut begin = 0.0;
    let placed: Vec<(f64, f64)> = parts
        .iter()
        .map(|(_, share)| {
            begin += share * 100.0;
            (begin - share * 100.0, share * 100.0)
        })
        .collect();
    let label: Vec<String> =
        parts.iter().map(|(name, share)| format!("{name} {:.0} %", share * 100.0)).collect();
    html! {
        svg.bar viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(label.join(", ")) {
            @for (at, (x, width)) in placed.iter().enumerate() {
                rect class=(format!("f{at}")) x=(format!("{x:.2}")) y="0" width=(format!("{width:.2}")) height="6" {}
            }
        }
        ul.legend {
            @for (at, label) in label.iter().enumerate() {
                li {
                    svg.swatch viewBox="0 0 26 8" aria-hidden="true" {
                        rect class=(format!("f{at}")) x="6" y="0" width="14" height="8" {}
                    }
                    (label)
                }
            }
        }
    }
}

fn rates(document: &Document) -> Markup {
    if document.rates.is_empty() {
        return html! {
            section {
                h2 { "Rate against size" }
                p { strong { "Nothing was measured." } " Run " code { "strongroom tune" } " (it takes less than a minute), then " code { "strongroom report" } " again." }
                @if let Some(why) = &document.profile_ignored { p { (why) } }
            }
        };
    }
    html! {
        section {
            h2 { "Rate against size" }
            p {
                "One batch at a time on one CPU, data in cache; measured " (document.profile_measured.as_deref().unwrap_or("")) ". "
                "A dotted upright line is a crossover: from that size on another engine is the fastest. Drawn is what to take and what is in use; the table has all."
            }
            div.charts {
                (suites_chart(document))
                @for found in document.crossovers.iter().filter(|found| towards(&found.operation) && is_drawn(document, &found.algorithm)) {
                    @let rates = document.rates_of(&found.algorithm, &found.operation);
                    @let lines: Vec<_> = rates.map(|series| Line { label: &series.engine, points: points(series) }).collect();
                    @if lines.len() > 1 {
                        (chart::draw(&Chart {
                            title: &format!("{}, {}, by engine", found.algorithm, found.operation),
                            lines,
                            marks: found.fastest.iter().skip(1).map(|from| from.from_bytes).collect(),
                        }))
                    }
                }
            }
            div.scroll {
                table {
                    thead { tr { th { "Algorithm" } th { "Direction" } th.n { "4 KiB" } th.n { "64 KiB" } th { "Fastest engine" } } }
                    tbody {
                        @for found in &document.crossovers {
                            tr {
                                td { (found.algorithm) }
                                td { (found.operation) }
                                @for size in SIZES {
                                    td.n { (document.best(&found.algorithm, &found.operation, size).map_or_else(|| "-".to_owned(), |(_, found)| rate(found))) }
                                }
                                td { (crossover_text(&found.fastest)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What the reader is told to take, and what is in use; all others are in the
/// table.
fn is_drawn(document: &Document, algorithm: &str) -> bool {
    let mounted = document.mounts.iter().filter(|mount| !mount.is_idle()).map(|mount| mount.suite.as_str());
    recommended(document)
        .into_iter()
        .chain(mounted)
        .any(|suite| super::prediction::algorithm_of(suite).as_deref() == Some(algorithm))
}

/// Towards the store.
fn towards(operation: &str) -> bool {
    matches!(operation, "seal" | "encrypt")
}

fn points(series: &super::document::Series) -> Vec<(u64, f64)> {
    series.points.iter().map(|point| (point.bytes, point.bytes_per_second)).collect()
}

/// The suites of vaults, each on its fastest engine of each size.
fn suites_chart(document: &Document) -> Markup {
    let sizes: Vec<u64> = document
        .rates
        .first()
        .map(|series| series.points.iter().map(|point| point.bytes).collect())
        .unwrap_or_default();
    let taken = recommended(document);
    let named: Vec<(String, String)> = document
        .suites
        .iter()
        .filter_map(|suite| {
            let label = if Some(suite.suite) == taken {
                format!("{} (take this)", suite.suite)
            } else {
                suite.suite.to_owned()
            };
            Some((super::prediction::algorithm_of(suite.suite)?, label))
        })
        .collect();
    let line = |(algorithm, label): &'_ (String, String)| {
        let of = |size: &u64| document.best(algorithm, "seal", *size).map(|(_, rate)| (*size, rate));
        (label.clone(), sizes.iter().filter_map(of).collect::<Vec<_>>())
    };
    let found: Vec<_> = named.iter().map(line).filter(|(_, points)| !points.is_empty()).collect();
    let lines = found.iter().map(|(label, points)| Line { label, points: points.clone() }).collect();
    chart::draw(&Chart {
        title: "Suites of vaults, sealing, each on its fastest engine",
        lines,
        marks: Vec::new(),
    })
}

fn durability(document: &Document) -> Markup {
    let asked: Vec<&MountReport> =
        document.mounts.iter().filter(|mount| mount.fsyncs > 0).take(SHOWN_MAX).collect();
    let found = document.durability.as_ref();
    let of_store = found.into_iter().flat_map(|found| {
        [
            ("a block of 4 KiB written".to_owned(), found.write_ns),
            ("and had for good".to_owned(), found.durable_write_ns),
        ]
        .map(|(what, ns)| (format!("{}, {what}", found.store), ns as f64))
    });
    let of_mounts = asked
        .iter()
        .map(|mount| (format!("{}, an fsync in the mean", mount.mount_point), mount.fsync_ns_mean as f64));
    let bars: Vec<(String, f64)> = of_store.chain(of_mounts).collect();
    let most = bars.iter().map(|(_, ns)| *ns).fold(1.0, f64::max);
    html! {
        section {
            h2 { "What durability costs" }
            @if bars.is_empty() {
                p { strong { "Not measured." } " Run " code { "strongroom report --store DIR -o report.html" } " with a directory on the store in question." }
            }
            @for (name, ns) in &bars {
                p.measure { (name) ": " (time(*ns)) }
                svg.bar viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=(format!("{name}: {}", time(*ns))) {
                    rect.f1 x="0" y="0" width=(format!("{:.2}", (ns / most * 100.0).clamp(0.3, 100.0))) height="6" {}
                }
            }
            @if let Some(found) = found {
                p.because { "Medians of " (found.samples) "." }
            }
        }
    }
}

fn engines(document: &Document) -> Markup {
    html! {
        section {
            h2 { "Engines and their self-tests" }
            div.scroll {
                table {
                    thead { tr { th { "Engine" } th { "State" } th { "Self-tests" } th { "Why" } } }
                    tbody {
                        @for engine in &document.engines {
                            tr {
                                td { (engine.name) }
                                td { (state(engine.state)) }
                                td {
                                    @match (engine.count(SelfTest::Passed), engine.count(SelfTest::Failed)) {
                                        (0, 0) => { "-" }
                                        (passed, 0) => { (passed) " passed" }
                                        (_, failed) => { strong { (failed) " FAILED" } }
                                    }
                                }
                                td { (engine.reason) }
                            }
                        }
                    }
                }
            }
            @if !document.machine.cpu_features.is_empty() {
                p { "Instructions that engines can use: " (document.machine.cpu_features.join(", ")) "." }
            }
        }
    }
}

fn predictions(document: &Document) -> Markup {
    html! {
        section {
            h2 { "Predictions beside measurements" }
            @if document.predictions.is_empty() {
                p { "None: they begin with a profile (" code { "strongroom tune" } ")." }
            } @else {
                p { "The model is given one thread's batches on an idle machine; the rest it predicts. What is far off says where this machine is not as the model: CPUs that share a core, or other work during " code { "tune" } "." }
                div.scroll {
                    table {
                        thead { tr { th { "What" } th.n { "Predicted" } th.n { "Measured" } th.n { "Error" } } }
                        tbody {
                            @for row in &document.predictions {
                                tr {
                                    td { (row.what) }
                                    td.n { (figure(row.unit, row.predicted)) }
                                    td.n { (figure(row.unit, row.measured)) }
                                    td.n { (format!("{:+.0} %", row.error() * 100.0)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
