//! No circles of modules: if one uses another, that one does not use the first, by whatever way.
//!
//! Modules side by side below one parent are compared, each with all that is below it. A parent and its
//! children are one room. Re-exports are followed, and code for tests is left out. Paths are read as they
//! are written: what a macro makes is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::lexer::blank_text;
use strongroom_harness::failure::{Context, Result};

/// Crates whose modules are looked at.
const CRATES: [&str; 5] = ["vault", "fuse", "sched", "disk", "file"];

/// Names from the crate's root on.
type ModulePath = Vec<String>;

/// Every fault below the repository's root, one line each.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for name in CRATES {
        let modules = Modules::read(&root.join("crates").join(name).join("src"))?;
        for (parent, circle) in modules.circles() {
            let parent = ["crate".to_owned()].into_iter().chain(parent).collect::<Vec<_>>().join("::");
            let fault = |module| format!("{name}: {parent}::{module} is in a circle of modules");
            faults.extend(circle.into_iter().map(fault));
        }
    }
    Ok(faults)
}

/// The modules of one crate.
struct Modules {
    /// Without comments, strings and tests, in words.
    code: BTreeMap<ModulePath, Vec<String>>,
    /// What a module's name stands for, where that is in another one.
    reexports: BTreeMap<(ModulePath, String), ModulePath>,
}

impl Modules {
    fn read(directory: &Path) -> Result<Modules> {
        let mut sources = BTreeMap::new();
        collect(directory, &mut Vec::new(), &mut sources)?;
        Ok(Modules::new(sources))
    }

    fn new(sources: BTreeMap<ModulePath, String>) -> Modules {
        let mut tests = BTreeSet::new();
        let mut code = BTreeMap::new();
        for (module, source) in sources {
            let words = without_tests(words(&blank_text(&source)), &module, &mut tests);
            code.insert(module, words);
        }
        code.retain(|module, _| !tests.iter().any(|test: &ModulePath| module.starts_with(test)));
        let mut modules = Modules { code, reexports: BTreeMap::new() };
        let mut reexports = BTreeMap::new();
        for (module, words) in &modules.code {
            for used in uses(words).into_iter().filter(|used| used.is_public) {
                if let (Some(target), Some(name)) = (modules.base(module, &used.path), used.path.last()) {
                    reexports.insert((module.clone(), name.clone()), target);
                }
            }
        }
        modules.reexports = reexports;
        modules
    }

    /// The path from the crate's root on, if it begins in this crate.
    fn base(&self, module: &ModulePath, path: &[String]) -> Option<ModulePath> {
        let supers = path.iter().take_while(|word| *word == "super").count();
        let (from, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (&module[..], &path[1..]),
            "super" => (&module[..module.len().checked_sub(supers)?], &path[supers..]),
            first => {
                let child = [&module[..], &[first.to_owned()]].concat();
                self.code.contains_key(&child).then_some((&module[..], path))?
            }
        };
        Some([from, rest].concat())
    }

    /// The module that a path leads to.
    fn resolve(&self, path: &[String], depth: usize) -> ModulePath {
        let mut module = ModulePath::new();
        for (at, word) in path.iter().enumerate() {
            module.push(word.clone());
            if self.code.contains_key(&module) {
                continue;
            }
            module.pop();
            let key = (module.clone(), word.clone());
            return match self.reexports.get(&key) {
                // What is re-exported in a circle is no program.
                Some(target) if depth < 8 => {
                    self.resolve(&[&target[..], &path[at + 1..]].concat(), depth + 1)
                }
                _ => module,
            };
        }
        module
    }

    /// Which module uses which, by the parent below which both stand.
    fn edges(&self) -> BTreeMap<ModulePath, BTreeSet<(String, String)>> {
        let mut edges: BTreeMap<ModulePath, BTreeSet<(String, String)>> = BTreeMap::new();
        for (module, words) in &self.code {
            let used = uses(words);
            let imported: BTreeMap<&String, &ModulePath> =
                used.iter().filter_map(|used| Some((used.path.last()?, &used.path))).collect();
            let mentioned = paths(words).into_iter().map(|path| match imported.get(&path[0]) {
                Some(import) => [&import[..], &path[1..]].concat(),
                None => path,
            });
            let all = mentioned.chain(used.iter().map(|used| used.path.clone()));
            for target in all.filter_map(|path| self.base(module, &path)) {
                let target = self.resolve(&target, 0);
                let shared = module.iter().zip(&target).take_while(|(one, other)| one == other).count();
                if let (Some(one), Some(other)) = (module.get(shared), target.get(shared)) {
                    let of_parent = edges.entry(module[..shared].to_vec()).or_default();
                    of_parent.insert((one.clone(), other.clone()));
                }
            }
        }
        edges
    }

    /// The modules from which a way leads back to them, by their parent.
    fn circles(&self) -> BTreeMap<ModulePath, BTreeSet<String>> {
        let mut circles = BTreeMap::new();
        for (parent, edges) in self.edges() {
            let mut reached = edges;
            loop {
                let longer = reached.iter().flat_map(|(one, other)| {
                    let on = reached.iter().filter(move |(from, _)| from == other);
                    on.map(move |(_, to)| (one.clone(), to.clone()))
                });
                let longer: BTreeSet<_> = longer.filter(|edge| !reached.contains(edge)).collect();
                if longer.is_empty() {
                    break;
                }
                reached.extend(longer);
            }
            let back = reached.into_iter().filter(|(one, other)| one == other).map(|(one, _)| one);
            let back: BTreeSet<String> = back.collect();
            if !back.is_empty() {
                circles.insert(parent, back);
            }
        }
        circles
    }
}

fn collect(directory: &Path, module: &mut ModulePath, sources: &mut BTreeMap<ModulePath, String>) -> Result {
    for entry in fs::read_dir(directory).context(directory.display())? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            module.push(name);
            collect(&path, module, sources)?;
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut at = module.clone();
            if !matches!(name.as_str(), "mod" | "lib" | "main") {
                at.push(name);
            }
            sources.insert(at, fs::read_to_string(&path).context(path.display())?);
        }
    }
    Ok(())
}

/// Identifiers, `::`, and every other character by itself.
fn words(code: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = match first {
            _ if rest.starts_with("::") => 2,
            first if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        if !first.is_whitespace() {
            words.push(rest[..length].to_owned());
        }
        rest = &rest[length..];
    }
    words
}

/// Leaves out what is for tests alone, and notes the modules that are.
fn without_tests(words: Vec<String>, module: &ModulePath, tests: &mut BTreeSet<ModulePath>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let is_for_tests = |words: &[String]| words.iter().any(|word| word == "test");
        let is_attribute = words[at..].starts_with(&["#", "[", "cfg", "("].map(str::to_owned));
        let end = at + words[at..].iter().position(|word| word == "]").unwrap_or(0);
        if !is_attribute || !is_for_tests(&words[at..end]) {
            kept.push(words[at].clone());
            at += 1;
            continue;
        }
        let item = end + 1;
        let length = item_length(&words[item..]);
        let keyword = words[item..item + length].iter().position(|word| word == "mod");
        if let Some(name) = keyword.and_then(|keyword| words.get(item + keyword + 1)) {
            tests.insert([&module[..], std::slice::from_ref(name)].concat());
        }
        at = item + length;
    }
    kept
}

/// Words of the item that begins here: to its semicolon, or its last brace.
fn item_length(words: &[String]) -> usize {
    let mut depth = 0usize;
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            ";" if depth == 0 => return at + 1,
            "{" => depth += 1,
            "}" if depth <= 1 => return at + 1,
            "}" => depth -= 1,
            _ => {}
        }
    }
    words.len()
}

/// What a `use` brings.
struct Use {
    path: ModulePath,
    /// It is re-exported, were it only within the crate.
    is_public: bool,
}

fn uses(words: &[String]) -> Vec<Use> {
    let mut all = Vec::new();
    for at in (0..words.len()).filter(|at| words[*at] == "use") {
        let is_public = at > 0 && matches!(words[at - 1].as_str(), "pub" | ")");
        let mut paths = Vec::new();
        tree(&words[at + 1..], &mut ModulePath::new(), &mut paths);
        all.extend(paths.into_iter().map(|path| Use { path, is_public }));
    }
    all
}

/// The paths of a tree of `use`; how many words it has.
fn tree(words: &[String], prefix: &mut ModulePath, paths: &mut Vec<ModulePath>) -> usize {
    let depth = prefix.len();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match word.as_str() {
            "::" => {}
            "{" => loop {
                at += 1 + tree(&words[at + 1..], prefix, paths);
                if words.get(at).is_none_or(|word| word != ",") {
                    at += 1;
                    prefix.truncate(depth);
                    return at;
                }
            },
            "as" => at += 1,
            "," | ";" | "}" => break,
            _ => prefix.push(word.clone()),
        }
        at += 1;
    }
    if prefix.len() > depth {
        // `{self, …}` is the module itself.
        let own = prefix.len() > 1 && prefix.last().is_some_and(|last| last == "self");
        paths.push(prefix[..prefix.len() - usize::from(own)].to_vec());
    }
    prefix.truncate(depth);
    at
}

/// Paths of two names and more, wherever they stand but after `use`.
fn paths(words: &[String]) -> Vec<ModulePath> {
    let is_name = |word: &String| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut paths = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if words[at] == "use" {
            at += words[at..].iter().position(|word| word == ";").unwrap_or(words.len() - at);
        }
        let mut path = Vec::new();
        while let Some(word) = words.get(at).filter(|word| is_name(word)) {
            path.push(word.clone());
            let goes_on = words.get(at + 1).is_some_and(|word| word == "::");
            at += 1 + usize::from(goes_on);
            if !goes_on {
                break;
            }
        }
        if path.len() > 1 {
            paths.push(path);
        } else if path.is_empty() {
            at += 1;
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(sources: &[(&str, &str)]) -> Vec<String> {
        let path = |name: &str| name.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let sources = sources.iter().map(|(name, code)| (path(name), (*code).to_owned())).collect();
        let circles = Modules::new(sources).circles();
        circles.into_values().flatten().collect()
    }

    #[test]
    fn a_circle_is_found_by_whatever_way() {
        let root = ("", "mod a; mod b; mod c; pub(crate) use c::Third;");
        let [a, b] = [("a", "use crate::b::{self, Second as S};"), ("b", "use super::Third;")];
        assert!(circles(&[root, a, b, ("c", "pub struct Third;")]).is_empty());
        assert_eq!(circles(&[root, a, b, ("c", "use crate::a; fn f() { a::g() }")]), ["a", "b", "c"]);
        assert_eq!(circles(&[root, a, b, ("c::d", "fn f() { crate::a::g() }"), ("c", "")]), ["a", "b", "c"]);
    }

    #[test]
    fn parents_tests_and_text_make_none() {
        let parent = ("a", "mod b; mod c; use b::B;");
        let b = ("a::b", "use super::A; // crate::a::c::C\n#[cfg(test)]\nmod tests { use crate::a::c::C; }");
        let c = ("a::c", "use super::b::B; const TEXT: &str = \"crate::a::b\";");
        assert!(circles(&[("", "mod a;"), parent, b, c]).is_empty());
        let b = ("a::b", "use super::c::C;");
        assert_eq!(circles(&[("", "mod a;"), parent, b, c]), ["b", "c"]);
        let declared = ("a", "#[cfg(test)] mod b; mod c;");
        assert!(circles(&[("", "mod a;"), declared, b, c]).is_empty());
    }
}
