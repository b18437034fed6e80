//! Licence expressions of crates (SPDX, annex D): alternatives, conjunctions, exceptions and parentheses.

/// Whether who takes a crate can choose licences that are all `allowed`.
///
/// Of what is no expression nothing is known, and it is not allowed. A slash is the older form of `OR`.
pub(super) fn is_allowed(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    parser.alternatives().is_some_and(|good| good && parser.words.is_empty())
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a dyn Fn(&str) -> bool,
}

impl Parser<'_> {
    fn take(&mut self, word: &str) -> bool {
        let is_next = self.words.first() == Some(&word);
        if is_next {
            self.words = &self.words[1..];
        }
        is_next
    }

    fn alternatives(&mut self) -> Option<bool> {
        let mut good = self.conjunction()?;
        while self.take("OR") {
            good |= self.conjunction()?;
        }
        Some(good)
    }

    fn conjunction(&mut self) -> Option<bool> {
        let mut good = self.one()?;
        while self.take("AND") {
            good &= self.one()?;
        }
        Some(good)
    }

    fn one(&mut self) -> Option<bool> {
        if self.take("(") {
            let good = self.alternatives()?;
            return self.take(")").then_some(good);
        }
        let (word, rest) = self.words.split_first()?;
        if ["OR", "AND", "WITH", ")"].contains(word) {
            return None;
        }
        self.words = rest;
        let mut licence = (*word).to_owned();
        if self.take("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            licence = format!("{licence} WITH {exception}");
        }
        Some((self.allowed)(&licence))
    }
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    fn mit_or_isc(expression: &str) -> bool {
        is_allowed(expression, &|licence| ["MIT", "ISC"].contains(&licence))
    }

    #[test]
    fn one_alternative_and_every_part_has_to_be_allowed() {
        for good in [
            "MIT",
            "GPL-3.0-only OR MIT",
            "Apache-2.0/MIT",
            "MIT AND ISC",
            "ISC AND (GPL-2.0-only OR (MIT AND ISC))",
            "GPL-2.0-only AND ISC OR MIT",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert!(mit_or_isc(good), "{good}");
        }
        for bad in [
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "MIT AND (GPL-2.0-only OR Apache-2.0)",
            "MIT WITH Some-exception",
        ] {
            assert!(!mit_or_isc(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_no_expression_is_not_allowed() {
        for odd in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT ISC", "MIT AND", "MIT WITH", "()"] {
            assert!(!mit_or_isc(odd), "{odd}");
        }
    }
}
