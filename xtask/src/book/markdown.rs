//! What a document refers to, and what can be referred to in it: as much of Markdown as this repository uses.

use std::collections::BTreeSet;

/// The targets of links and images.
pub(super) fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in outside_of_code(text) {
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            links.push(target.to_owned());
            rest = after;
        }
    }
    links
}

/// The anchors of headings, as GitHub and mdBook make them.
pub(super) fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in not_fenced(text) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if (1..=6).contains(&level) && line[level..].starts_with(' ') {
            let first = anchor(line[level..].trim());
            let mut name = first.clone();
            for count in 1.. {
                if anchors.insert(name) {
                    break;
                }
                name = format!("{first}-{count}");
            }
        }
    }
    anchors
}

/// Letters, digits, `_` and `-` of a heading, in lower case, with `-` for each blank.
fn anchor(heading: &str) -> String {
    let sign = |sign: char| match sign {
        ' ' => Some('-'),
        '_' | '-' => Some(sign),
        _ => sign.is_alphanumeric().then_some(sign),
    };
    heading.to_lowercase().chars().filter_map(sign).collect()
}

fn not_fenced(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

/// Lines without fenced blocks and without code in them.
fn outside_of_code(text: &str) -> impl Iterator<Item = String> {
    // Code stands between every second pair of backticks.
    not_fenced(text).map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_where_they_are_links() {
        let text = "[a](b.md) and ![c](d.svg#e), `[no](x)` [`f`](g#h)\n```\n[no](y)\n```\n[i](j)";
        assert_eq!(links(text), ["b.md", "d.svg#e", "g#h", "j"]);
    }

    #[test]
    fn headings_have_anchors() {
        let text = "# A `b`, c's d!\n## SCHED_IDLE demotion\n```\n# no\n```\n## Same\n### Same\n#no";
        let all: Vec<String> = anchors(text).into_iter().collect();
        assert_eq!(all, ["a-b-cs-d", "same", "same-1", "sched_idle-demotion"]);
    }
}
