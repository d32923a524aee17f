//! The paths that a source file names, as modules of its crate.

/// All paths of a text that begin with `crate`, `self` or `super`, written out from the crate's root. `module` is
/// the text's own place.
pub(super) fn of(text: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("::") {
        let before = text.get(..at).unwrap_or_default();
        let head = before.rsplit(|letter| !is_name(letter)).next().unwrap_or_default();
        // What is in the middle of a path was found with its beginning.
        if before.strip_suffix(head).is_some_and(|rest| rest.ends_with("::")) {
            continue;
        }
        let start = match head {
            "crate" => Vec::new(),
            "self" => module.to_vec(),
            "super" => parent(module),
            _ => continue,
        };
        let rest = text.get(at + 2..).unwrap_or_default();
        expand(rest, start, &mut found);
    }
    found
}

/// Reads what follows `::`, a name or a group, and returns what comes after it.
fn expand<'a>(text: &'a str, mut start: Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut group) = text.strip_prefix('{') {
        loop {
            group = skip_comments(group);
            if let Some(rest) = group.strip_prefix('}') {
                return rest;
            }
            if group.is_empty() {
                return group;
            }
            group = expand(group, start.clone(), found);
            let end = group.find([',', '}']).unwrap_or(group.len());
            let rest = group.get(end..).unwrap_or_default();
            group = rest.strip_prefix(',').unwrap_or(rest);
        }
    }
    let end = text.find(|letter| !is_name(letter)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name {
        "super" => start = parent(&start),
        "self" => {}
        _ => start.push(name.to_owned()),
    }
    if let Some(rest) = rest.strip_prefix("::") {
        return expand(rest, start, found);
    }
    found.push(start);
    rest
}

fn skip_comments(text: &str) -> &str {
    let text = text.trim_start();
    match text.strip_prefix("//").and_then(|comment| comment.split_once('\n')) {
        Some((_, rest)) => skip_comments(rest),
        None => text,
    }
}

fn parent(module: &[String]) -> Vec<String> {
    let mut parent = module.to_vec();
    parent.pop();
    parent
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_out_from_the_root() {
        let module = ["a", "b", "c"].map(str::to_owned);
        for (text, expected) in [
            ("use crate::x::Y;", vec!["x::Y"]),
            (
                "use super::d::{self, E, f::{G, H as I}};",
                vec!["a::b::d", "a::b::d::E", "a::b::d::f::G", "a::b::d::f::H"],
            ),
            ("use super::super::Root;", vec!["a::Root"]),
            (
                "use crate::{x, y::Z};\nlet a = self::d(std::mem::take(b));",
                vec!["x", "y::Z", "a::b::c::d"],
            ),
            (
                "use super::{\n    Several, // why\n    Lines,\n};",
                vec!["a::b::Several", "a::b::Lines"],
            ),
            ("pub(super) fn f() -> T { Self::g(); supers::h() }", vec![]),
        ] {
            let found: Vec<String> = of(text, &module).iter().map(|path| path.join("::")).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
