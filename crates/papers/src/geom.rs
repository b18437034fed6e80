//! Document 003: a file of 477 MB encrypted on FreeBSD, by OpenSSL and below the
//! file system, in software and by an accelerator. Its figures are pictures;
//! what the text says of them is a handful of differences, which are put
//! together here and held against each other.

use crate::table::{Claim, Replay};

pub(crate) const TITLE: &str = "Intel EP80579 with QuickAssist: accelerating secure storage on FreeBSD";

/// "14 % less in absolute terms ... equivalent to a 65 % reduction": GELI with the accelerator.
const GELI_SAVED: (f64, f64) = (14.0, 0.65);
/// "4 percentage points higher than with the plain file copy."
const GELI_OVER_COPY: f64 = 4.0;
/// "Four times the % CPU usage" of the copy: GELI in software.
const GELI_TIMES_COPY: f64 = 4.0;
const FILE_MEGABYTES: f64 = 477.0;
/// "Almost 100 seconds": GBDE.
const GBDE_SECONDS: f64 = 100.0;

fn claims() -> Vec<Claim> {
    let software = GELI_SAVED.0 / GELI_SAVED.1;
    let accelerated = software - GELI_SAVED.0;
    let copy = accelerated - GELI_OVER_COPY;
    vec![
        Claim {
            source: "Overview; Test Results, Figure 1",
            published: "GELI needs four times the copy's CPU; the accelerator saves 14 points, 65 %, and leaves 4 \
                        more than the copy",
            ours: format!(
                "14 points being 65 % give GELI {software:.1} %, {accelerated:.1} % accelerated and the copy \
                 {copy:.1} %; four times that is {:.1} %, not {software:.1} %: the sentences contradict each other",
                GELI_TIMES_COPY * copy
            ),
            agrees: false,
        },
        Claim {
            source: "Test Results, Figure 1",
            published: "GBDE took almost 100 seconds for the file of 477 MB",
            ours: format!("{:.1} MB/s", FILE_MEGABYTES / GBDE_SECONDS),
            agrees: true,
        },
        Claim {
            source: "Conclusion",
            published: "on an SSD, 8 seconds for the accelerated partition against 6 without encryption",
            ours: format!(
                "{:.0} against {:.0} MB/s: {:.1} ns a byte for what the accelerator leaves to do",
                FILE_MEGABYTES / 8.0,
                FILE_MEGABYTES / 6.0,
                2e3 / FILE_MEGABYTES
            ),
            agrees: true,
        },
    ]
}

pub(crate) fn replay() -> Replay {
    Replay {
        name: "paper-003",
        title: TITLE,
        tables: Vec::new(),
        claims: claims(),
        left_out: vec![
            "OpenSSL: 15 points less with the accelerator, 33 % more than GELI in software, of a load that the \
             text does not give",
        ],
        pictures: "1 and 2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_contradicts_itself_and_is_said_to() {
        let claims = claims();
        assert!(!claims[0].agrees && claims[0].ours.contains("21.5 %, 7.5 % accelerated and the copy 3.5 %"));
        assert!(claims[1].ours.starts_with("4.8 MB/s"));
    }
}
