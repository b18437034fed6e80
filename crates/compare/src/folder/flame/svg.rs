//! A flame graph as a picture that a browser shows, with the full names where the pointer stands.

use std::fmt::Write as _;

use crate::folder::flame::stacks::{Owner, Stacks};

const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
/// Above the graph: title and colours.
const HEAD: f64 = 56.0;
/// A letter of the labels.
const LETTER: f64 = 6.2;
/// Frames that are narrower are left out, with what they call.
const NARROWEST: f64 = 1.5;

/// Told apart by people who see red and green alike (Okabe and Ito), made light enough to write on.
fn colour(owner: Owner) -> &'static str {
    match owner {
        Owner::Kernel => "#a9c9e4",
        Owner::Ours => "#f3c27a",
        Owner::Cipher => "#8fd3b8",
        Owner::Other => "#d9d9d9",
    }
}

/// Draws all stacks under a title.
pub(super) fn drawn(title: &str, stacks: &Stacks) -> String {
    let mut body = String::new();
    let height = HEAD + ROW * (drawn_depth(stacks, WIDTH) as f64 + 1.0);
    let mut picture = Picture { text: &mut body, height, samples: stacks.samples() };
    picture.calls(stacks, 0.0, WIDTH, 1);
    let mut svg = String::new();
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" \
         font-size=\"10.5\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\">{}</text>\n",
        escaped(title)
    );
    let owners = [
        (Owner::Kernel, "kernel"),
        (Owner::Ours, "Strongroom"),
        (Owner::Cipher, "cipher"),
        (Owner::Other, "threads, libraries"),
    ];
    for (index, (owner, name)) in owners.into_iter().enumerate() {
        let x = 8 + 150 * index;
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"30\" width=\"14\" height=\"14\" fill=\"{}\"/><text x=\"{}\" y=\"41\">{name}</text>",
            colour(owner),
            x + 20
        );
    }
    svg + &body + "</svg>\n"
}

/// How many frames stand on each other where the outermost is so wide.
fn drawn_depth(stacks: &Stacks, width: f64) -> usize {
    let part = |called: &Stacks| width * called.samples() as f64 / stacks.samples().max(1) as f64;
    stacks
        .calls()
        .filter(|(.., called)| part(called) >= NARROWEST)
        .map(|(.., called)| 1 + drawn_depth(called, part(called)))
        .max()
        .unwrap_or(0)
}

struct Picture<'a> {
    text: &'a mut String,
    height: f64,
    samples: u64,
}

impl Picture<'_> {
    /// What was called from a frame that begins at `x`.
    fn calls(&mut self, stacks: &Stacks, mut x: f64, width: f64, level: usize) {
        for (name, owner, called) in stacks.calls() {
            let part = width * called.samples() as f64 / stacks.samples().max(1) as f64;
            if part >= NARROWEST {
                self.frame(name, owner, called.samples(), (x, part), level);
                self.calls(called, x, part, level + 1);
            }
            x += part;
        }
    }

    fn frame(&mut self, name: &str, owner: Owner, samples: u64, (x, width): (f64, f64), level: usize) {
        let y = self.height - ROW * level as f64 - 4.0;
        let percent = 100.0 * samples as f64 / self.samples.max(1) as f64;
        let letters = ((width - 4.0) / LETTER).max(0.0) as usize;
        let label: String =
            if letters < 3 { String::new() } else { short(name).chars().take(letters).collect() };
        let _ = writeln!(
            self.text,
            "<g><title>{} {percent:.1} %</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" \
             fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            escaped(name),
            (width - 0.4).max(0.4),
            ROW - 1.0,
            colour(owner),
            x + 2.0,
            y + 11.5,
            escaped(&label)
        );
    }
}

/// The last two parts of a name, of a type its own name alone: `<a::B as c::D>::e` is `B::e`.
fn short(name: &str) -> String {
    let (path, function) = name.rsplit_once("::").unwrap_or(("", name));
    let inner = path.rsplit_once('<').map_or(path, |(_, inner)| inner);
    let inner = inner.trim_start_matches("impl ").split(" as ").next().unwrap_or(inner);
    let owner = inner.trim_end_matches('>').rsplit("::").next().unwrap_or(inner);
    if owner.is_empty() { function.to_owned() } else { format!("{owner}::{function}") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        for (name, label) in [
            ("<strongroom_fuse::adapter::Adapter as strongroom_fuse::Filesystem>::write", "Adapter::write"),
            (
                "strongroom_vault::content::write::<impl strongroom_vault::content::Content>::place",
                "Content::place",
            ),
            ("strongroom_fuse::worker::serve", "worker::serve"),
            ("vfs_read", "vfs_read"),
        ] {
            assert_eq!(short(name), label);
        }
    }

    #[test]
    fn a_frame_is_as_wide_as_its_part_and_names_are_escaped() {
        let mut stacks = Stacks::default();
        stacks.add("a \n\t12 strongroom::<f>\n\na \n\t13 other\n\n");
        let svg = drawn("title", &stacks);
        assert!(svg.contains("strongroom::&lt;f&gt; 50.0 %"), "{svg}");
        assert_eq!(svg.matches("width=\"599.6\"").count(), 2);
        assert!(svg.contains("width=\"1199.6\""));
    }
}
