//! `engines`: what computes on this machine, what does not and why, and what
//! the self-tests say. Nothing is changed.

use std::fmt::Write as _;

use serde::Serialize;
use strongroom_bench::operations;
use strongroom_engine::{Algorithm, Engine, Operation, SectorCipher, SectorIv, SectorMode};
use strongroom_engine_cpu::{Code, CpuEngine, Tier};
use strongroom_engine_gpu::{Found, survey};

use crate::args::EnginesArgs;
use crate::failure::{Exit, Result};
use crate::fit::Display;
use crate::fit::table::{Column, Form};
use crate::profile::{Found as ProfileFound, Hardware, file};
use crate::report::Output;
use crate::{compose, device, gpu};

/// Whether and when an engine computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// Mounts use it.
    Used,
    /// It works, and mounts use it when it is named.
    OnRequest,
    /// It is not here.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SelfTest {
    /// It computes the published vectors.
    Passed,
    /// It does not: the algorithm is not offered.
    Failed,
}

#[derive(Debug, Serialize)]
pub(super) struct AlgorithmReport {
    pub(super) name: String,
    /// What code computes it.
    pub(super) code: &'static str,
    /// That code reads no memory and takes no branch by key or data.
    pub(super) constant_time: bool,
    pub(super) self_test: SelfTest,
    /// Mounts that use several engines have it on this one.
    pub(super) used: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct EngineReport {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) reason: String,
    pub(super) algorithms: Vec<AlgorithmReport>,
}

impl EngineReport {
    /// Algorithms whose self-test says this.
    pub(super) fn count(&self, self_test: SelfTest) -> usize {
        self.algorithms.iter().filter(|algorithm| algorithm.self_test == self_test).count()
    }
}

/// Everything that computes here, and what was measured of it.
pub(super) struct Survey {
    pub(super) engines: Vec<EngineReport>,
    pub(super) hardware: Hardware,
    pub(super) found: ProfileFound,
}

#[derive(Debug, Serialize)]
struct ProfileReport {
    measured: String,
    version: String,
}

#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    version: &'static str,
    cpu: String,
    cpus: u64,
    engines: Vec<EngineReport>,
    /// What `tune` has measured here.
    profile: Option<ProfileReport>,
    /// Why a profile that is there is not taken.
    profile_ignored: Option<String>,
}

/// Tells what computes. The exit code is 6 when a self-test failed.
///
/// # Errors
/// Usage for a name that no engine has, or when the report cannot be written.
pub(crate) fn run(args: &EnginesArgs, output: Output) -> Result<Exit> {
    args.engine.as_deref().map_or(Ok(()), compose::refuse_unknown)?;
    let Survey { mut engines, hardware, found } = survey_here();
    engines.extend(named_reports(args.engine.as_deref())?);
    let document = Document {
        schema: "strongroom.engines/1",
        version: env!("CARGO_PKG_VERSION"),
        cpu: hardware.cpu,
        cpus: hardware.cpus,
        engines,
        profile: found
            .profile
            .map(|profile| ProfileReport { measured: profile.measured, version: profile.version }),
        profile_ignored: found.remark,
    };
    output.print_at_width(&document, |document, display| text(document, args.all, display))?;
    Ok(exit(&document.engines))
}

/// 6 when a self-test failed.
pub(super) fn exit(engines: &[EngineReport]) -> Exit {
    let failed = engines.iter().any(|report| report.count(SelfTest::Failed) > 0);
    if failed { Exit::Unsupported } else { Exit::Done }
}

/// Looks at everything that could compute.
pub(super) fn survey_here() -> Survey {
    let beside = CpuEngine::side_by_side();
    let names: Vec<String> = beside.iter().map(|engine| engine.name().to_owned()).collect();
    let found = file::find(&names);
    let hardware = file::hardware(&names);
    let mut engines: Vec<EngineReport> = Vec::new();
    for tier in Tier::ALL {
        let worthwhile =
            found.profile.as_ref().is_none_or(|profile| profile.is_worthwhile(tier.engine_name()));
        let offered = beside.iter().find(|engine| engine.tier() == tier);
        engines.push(tier_report(tier, offered, worthwhile));
    }
    engines.push(EngineReport {
        name: "reference".to_owned(),
        state: State::OnRequest,
        reason: "slow, by the book, from other code: to compare with, and for what no other engine can"
            .to_owned(),
        algorithms: Vec::new(),
    });
    engines.extend(device_reports());
    Survey { engines, hardware, found }
}

fn tier_report(tier: Tier, beside: Option<&CpuEngine>, worthwhile: bool) -> EngineReport {
    let name = tier.engine_name().to_owned();
    let (Some(engine), Some(beside)) = (CpuEngine::of_tier(tier), beside) else {
        let reason = format!("this CPU, or the system, lacks what it needs: {}", tier.requirement());
        return EngineReport { name, state: State::Refused, reason, algorithms: Vec::new() };
    };
    let report = |algorithm: Algorithm| {
        let Code { name: code, constant_time } = engine.code(algorithm)?;
        let passed = engine.capability(algorithm, operations(algorithm)[0]).is_some();
        Some(AlgorithmReport {
            name: algorithm.to_string(),
            code,
            constant_time,
            self_test: if passed { SelfTest::Passed } else { SelfTest::Failed },
            used: passed && worthwhile && beside.code(algorithm).is_some(),
        })
    };
    let algorithms: Vec<_> = Algorithm::all().filter_map(report).collect();
    let (state, reason) = match (tier == Tier::best(), worthwhile) {
        (true, _) => (State::Used, "the best tier of this CPU"),
        (false, true) => {
            (State::Used, "beside the best tier, for what it computes by other code in constant time")
        }
        (false, false) => (State::OnRequest, "measured here, it is nowhere faster than the best tier"),
    };
    EngineReport { name, state, reason: reason.to_owned(), algorithms }
}

/// The devices that there are, and `gpu` as what is not here where none of them is a GPU. The kernels of drivers that
/// compute on the CPU are not compiled for this: that takes seconds, and nobody uses them but tests.
fn device_reports() -> Vec<EngineReport> {
    let mut reports: Vec<_> = survey().devices.iter().map(device_report).collect();
    if survey().gpus().next().is_none() {
        reports.push(EngineReport {
            name: "gpu".to_owned(),
            state: State::Refused,
            reason: gpu::what_is_missing(),
            algorithms: Vec::new(),
        });
    }
    reports
}

fn device_report(found: &Found) -> EngineReport {
    let info = &found.info;
    let what = if info.is_gpu { "keystream and XTS" } else { "it computes on the CPU, for tests" };
    let reason = format!("{}, {} ({}): {what}", info.name, info.api, info.driver);
    let mut report =
        EngineReport { name: found.name.clone(), state: State::OnRequest, reason, algorithms: Vec::new() };
    if info.is_gpu {
        let engine = found.engine(strongroom_engine_gpu::Options::default());
        let report_of = |algorithm: Algorithm| {
            let (operation, code) = match algorithm {
                Algorithm::Aead(_) => (Operation::Keystream, "own, keystream alone"),
                Algorithm::Sector(SectorCipher { mode: SectorMode::Xts, .. }) => {
                    (Operation::EncryptSectors, "own, bitsliced")
                }
                Algorithm::Sector(_) => return None,
            };
            let passed = engine.capability(algorithm, operation).is_some();
            let self_test = if passed { SelfTest::Passed } else { SelfTest::Failed };
            let name = algorithm.to_string();
            Some(AlgorithmReport { name, code, constant_time: true, self_test, used: false })
        };
        let offered =
            Algorithm::all().filter(|algorithm| algorithm.has(Operation::Keystream) || is_sector(*algorithm));
        report.algorithms = offered.filter_map(report_of).collect();
    }
    report
}

/// The devices that a name means, or how they are named.
///
/// # Errors
/// Unsupported where there is no such device.
fn named_reports(name: Option<&str>) -> Result<Vec<EngineReport>> {
    let report = |name: &str, state, reason, algorithms| EngineReport {
        name: name.to_owned(),
        state,
        reason,
        algorithms,
    };
    let devices = name.map(|name| device::beside(name).1);
    let Some((name, kind)) = devices.and_then(|name| Some((name, device::kind(name)?))) else {
        let kinds = device::KINDS.iter().map(|kind| match kind.missing() {
            Some(missing) => report(kind.example, State::Refused, missing, Vec::new()),
            None => {
                let reason = format!("{}; --engine tells what it has", kind.what);
                report(kind.example, State::OnRequest, reason, Vec::new())
            }
        });
        return Ok(kinds.collect());
    };
    let engines = device::engines(kind, name)?;
    Ok(engines
        .iter()
        .map(|engine| {
            let has =
                |algorithm: &Algorithm| engine.capability(*algorithm, operations(*algorithm)[0]).is_some();
            let row = |algorithm: Algorithm| AlgorithmReport {
                name: algorithm.to_string(),
                code: "the device's",
                // Nobody knows.
                constant_time: false,
                self_test: SelfTest::Passed,
                used: false,
            };
            let rows = Algorithm::all().filter(has).map(row).collect();
            report(engine.name(), State::OnRequest, kind.what.to_owned(), rows)
        })
        .collect())
}

fn is_sector(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Sector(_))
}

fn text(document: &Document, all: bool, display: Display) -> String {
    let mut text = format!("CPU: {}, {} CPUs\n", document.cpu, document.cpus);
    match (&document.profile, &document.profile_ignored) {
        (Some(profile), _) => {
            let _ = writeln!(text, "profile: measured {}", profile.measured);
        }
        (None, Some(why)) => {
            let _ = writeln!(text, "profile: none is used. {why}");
        }
        (None, None) => text.push_str("profile: none; `strongroom tune` makes one\n"),
    }
    for engine in &document.engines {
        let state = match engine.state {
            State::Used => "used",
            State::OnRequest => "with --engine",
            State::Refused => "NOT HERE",
        };
        let _ = writeln!(text, "\n{:<13} {state}: {}", engine.name, engine.reason);
        let one = |report: &AlgorithmReport| row(&report.name, report.code, std::slice::from_ref(report));
        let rows = match all {
            true => engine.algorithms.iter().map(one).collect(),
            false => grouped(&engine.algorithms),
        };
        let form = Form { indent: 2, titles: 1, has_head: false, ..Form::new(&COLUMNS) };
        text.push_str(&form.text(&rows, display));
    }
    text
}

/// One line for the IVs and modes of a cipher that the same code computes.
fn grouped(algorithms: &[AlgorithmReport]) -> Vec<Vec<String>> {
    let cipher = |report: &AlgorithmReport| match report.name.parse() {
        Ok(Algorithm::Sector(sector)) => sector.cipher.to_string(),
        _ => report.name.clone(),
    };
    let modes = |group: &[AlgorithmReport]| {
        let has = |mode: &SectorMode| {
            let parsed = |report: &AlgorithmReport| report.name.parse();
            group
                .iter()
                .any(|report| matches!(parsed(report), Ok(Algorithm::Sector(sector)) if sector.mode == *mode))
        };
        let modes: Vec<String> =
            SectorMode::ALL.iter().filter(|mode| has(mode)).map(ToString::to_string).collect();
        if modes.is_empty() { String::new() } else { format!(" {}", modes.join(", ")) }
    };
    let alike = |one: &AlgorithmReport, other: &AlgorithmReport| {
        cipher(one) == cipher(other) && one.code == other.code && one.used == other.used
    };
    let groups = algorithms.chunk_by(alike);
    let label = |group: &[AlgorithmReport]| cipher(&group[0]) + &modes(group);
    groups.map(|group| row(&label(group), group[0].code, group)).collect()
}

const COLUMNS: [Column; 3] = [Column::left("", 22), Column::left("", 26), Column::left("", 0)];

fn row(name: &str, code: &str, group: &[AlgorithmReport]) -> Vec<String> {
    let passed = group.iter().filter(|algorithm| algorithm.self_test == SelfTest::Passed).count();
    let mut said = match (passed == group.len(), group.len()) {
        (true, 1) => "self-test passed".to_owned(),
        (true, count) => format!("{count} self-tests passed"),
        (false, count) => format!("SELF-TEST FAILED for {} of {count}, not offered", count - passed),
    };
    if group.iter().any(|algorithm| !algorithm.constant_time) {
        said.push_str("; timing depends on data");
    }
    if !group.iter().any(|algorithm| algorithm.used) {
        said.push_str("; with --engine alone");
    }
    vec![name.to_owned(), code.to_owned(), said]
}

/// Whether a default listing shows this algorithm: the rule for IVs hardly
/// changes a rate, so that one stands for all.
pub(super) fn is_typical(algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::Aead(_) => true,
        Algorithm::Sector(sector) => sector.iv == SectorIv::Plain64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_is_told_of() {
        let beside = CpuEngine::side_by_side();
        for tier in Tier::ALL {
            let offered = beside.iter().find(|engine| engine.tier() == tier);
            let report = tier_report(tier, offered, true);
            assert_eq!(report.state == State::Refused, offered.is_none());
            assert_eq!(report.algorithms.is_empty(), offered.is_none());
            assert!(report.algorithms.iter().all(|algorithm| algorithm.self_test == SelfTest::Passed));
            assert!(
                !report
                    .algorithms
                    .iter()
                    .any(|algorithm| algorithm.used && tier != Tier::best() && !algorithm.constant_time)
            );
        }
    }

    #[test]
    fn what_fails_is_said_in_capitals() {
        let failed = AlgorithmReport {
            name: "aes-xts-plain64".to_owned(),
            code: "own",
            constant_time: true,
            self_test: SelfTest::Failed,
            used: false,
        };
        let row = grouped(&[failed]).concat().join(" ");
        assert!(row.contains("aes xts ") && row.contains("SELF-TEST FAILED for 1 of 1"), "{row}");
    }
}
