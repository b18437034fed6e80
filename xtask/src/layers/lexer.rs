//! Tells code from comments, strings and character literals.

/// The source with comments, strings and character literals blanked, line breaks kept.
pub(super) fn blank_text(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let skipped = text_length(rest);
        if skipped == 0 {
            code.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            code.extend(rest[..skipped].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[skipped..];
        }
    }
    code
}

/// The length of the comment or literal that `rest` starts with, or 0.
fn text_length(rest: &str) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if let Some(length) = raw_string(rest) {
        return length;
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    // A quote starts a character only if one closes it: 'a' and '\n', but not the lifetime 'a.
    let mut after = rest.chars().skip(1);
    if rest.starts_with('\'') && (after.next() == Some('\\') || after.next() == Some('\'')) {
        return quoted(rest, '\'');
    }
    0
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest.strip_prefix('r')?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    let body = hashes[count..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(count));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(1 + count + 1 + length)
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}
