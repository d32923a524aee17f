//! Paths and hosts in the arguments of a call, as a tool may understand them.
//!
//! Where a text can be read in two ways, both readings are found: a rule that denies applies to
//! either, and a rule that allows must cover both.

use serde_json::{Map, Value};

use crate::model::Verdict;

/// Argument names that hold paths, beside those that end in one of [`PATH_ENDINGS`].
const PATH_KEYS: [&str; 12] = [
    "prefix",
    "filename",
    "source",
    "destination",
    "target",
    "src",
    "dst",
    "dest",
    "cwd",
    "root",
    "from",
    "to",
];
/// Endings of argument names that hold paths.
const PATH_ENDINGS: [&str; 9] =
    ["path", "paths", "file", "files", "dir", "directory", "directories", "folder", "folders"];
/// Argument names that hold hosts.
const HOST_KEYS: [&str; 5] = ["host", "hostname", "domain", "server", "hosts"];
/// Endings of argument names that hold addresses, perhaps without a scheme.
const URL_ENDINGS: [&str; 5] = ["url", "urls", "uri", "uris", "endpoint"];
/// Schemes that clients read even without the two slashes.
const WEB_SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// Every path in the arguments that a rule of this verdict looks at, without `.` and `..`.
pub(super) fn paths(arguments: &Map<String, Value>, verdict: Verdict) -> Vec<String> {
    let mut found = Vec::new();
    collect(arguments, is_path_key, &mut |held, text| {
        if let Some(rest) = file_url(text) {
            found.extend(clean(rest));
            let path = rest.split(['?', '#']).next().unwrap_or_default();
            found.extend(clean(&decoded(path)));
        } else if held.counts_for(verdict) && !is_web(text) {
            found.extend(clean(text));
        }
    });
    found
}

/// Every host in the arguments that a rule of this verdict looks at, in lower case, without port, user
/// and trailing dot.
pub(super) fn hosts(arguments: &Map<String, Value>, verdict: Verdict) -> Vec<String> {
    let mut found = Vec::new();
    collect(arguments, is_host_key, &mut |held, text| {
        let text = squeezed(text);
        if let Some((_, rest)) = split_scheme(&text) {
            found.extend(authority_hosts(rest));
        } else if held.counts_for(verdict) {
            found.extend(authority_hosts(text.trim_start_matches(['/', '\\'])));
        }
    });
    found.retain(|host| !host.is_empty());
    found
}

/// Where a string stands, seen from the keys that name what is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Under such a key, or inside of what is: `{ "files": [{ "name": "…" }] }`.
    Inside,
    /// Inside, but beside such a key of its own: `{ "files": [{ "path": "…", "content": "…" }] }`. It is
    /// more likely something else, so that rules that allow need not cover it.
    Beside,
    Elsewhere,
}

impl Held {
    fn counts_for(self, verdict: Verdict) -> bool {
        match (self, verdict) {
            (Self::Inside, _) | (Self::Beside, Verdict::AllowWithConfirm | Verdict::Deny) => true,
            (Self::Beside, Verdict::Allow) | (Self::Elsewhere, _) => false,
        }
    }
}

type Visit<'a> = &'a mut dyn FnMut(Held, &str);

/// Visits every string in the arguments. The names in an object that is held are strings too:
/// `{ "files": { "/etc/passwd": "…" } }`.
fn collect(arguments: &Map<String, Value>, is_key: fn(&str) -> bool, visit: Visit<'_>) {
    walk_object(Held::Elsewhere, arguments, is_key, visit);
}

fn walk(held: Held, value: &Value, is_key: fn(&str) -> bool, visit: Visit<'_>) {
    match value {
        Value::String(text) => visit(held, text),
        Value::Array(list) => list.iter().for_each(|item| walk(held, item, is_key, visit)),
        Value::Object(map) => walk_object(held, map, is_key, visit),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn walk_object(held: Held, map: &Map<String, Value>, is_key: fn(&str) -> bool, visit: Visit<'_>) {
    let has_own = map.keys().any(|name| is_key(&plain(name)));
    for (name, item) in map {
        if held != Held::Elsewhere {
            let is_likely = name.contains(['/', '\\']);
            visit(if is_likely { held } else { Held::Beside }, name);
        }
        let inner = match held {
            _ if is_key(&plain(name)) => Held::Inside,
            Held::Inside if has_own => Held::Beside,
            Held::Inside | Held::Beside | Held::Elsewhere => held,
        };
        walk(inner, item, is_key, visit);
    }
}

fn plain(key: &str) -> String {
    key.chars().filter(|c| *c != '_' && *c != '-').map(|c| c.to_ascii_lowercase()).collect()
}

fn is_path_key(key: &str) -> bool {
    PATH_KEYS.contains(&key) || PATH_ENDINGS.iter().any(|ending| key.ends_with(ending))
}

fn is_host_key(key: &str) -> bool {
    HOST_KEYS.contains(&key) || URL_ENDINGS.iter().any(|ending| key.ends_with(ending))
}

fn is_web(text: &str) -> bool {
    split_scheme(&squeezed(text)).is_some_and(|(scheme, _)| WEB_SCHEMES.contains(&scheme.as_str()))
}

/// What follows `file://` and the host in a file URL, `file:/` included.
fn file_url(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let (scheme, rest) = text.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") || !rest.starts_with('/') {
        return None;
    }
    match rest.strip_prefix("//") {
        Some(after) => after.find('/').and_then(|start| after.get(start..)).or(Some(after)),
        None => Some(rest),
    }
}

/// Resolves `.`, `..` and doubled slashes by text alone, so that `/a/../etc` is judged as `/etc`
/// would be. A backslash separates on some systems and belongs to the name on others.
fn clean(path: &str) -> Vec<String> {
    let mut readings = vec![resolved(path, &['/'])];
    if path.contains('\\') {
        readings.push(resolved(path, &['/', '\\']));
    }
    readings
}

fn resolved(path: &str, separators: &[char]) -> String {
    let absolute = path.starts_with(separators);
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(separators) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            other => parts.push(other),
        }
    }
    let joined = parts.join("/");
    if absolute { format!("/{joined}") } else { joined }
}

/// A URL as clients read it: without spaces around it, and without line ends and tabs in it.
fn squeezed(text: &str) -> String {
    let inner = text.trim_matches(|c: char| c <= ' ');
    inner.chars().filter(|c| !matches!(c, '\t' | '\r' | '\n')).collect()
}

/// The scheme in lower case, and what begins with the authority.
fn split_scheme(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let legal = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(legal) {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    if WEB_SCHEMES.contains(&scheme.as_str()) && rest.starts_with(['/', '\\']) {
        return Some((scheme, rest.trim_start_matches(['/', '\\'])));
    }
    rest.strip_prefix("//").map(|rest| (scheme, rest))
}

/// The host of an authority. Parsers disagree whether a backslash ends it.
fn authority_hosts(rest: &str) -> Vec<String> {
    let mut readings = vec![authority_host(rest, &['/', '?', '#', '\\'])];
    if rest.contains('\\') {
        readings.push(authority_host(rest, &['/', '?', '#']));
    }
    readings
}

fn authority_host(rest: &str, ends: &[char]) -> String {
    let authority = rest.split(ends).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let bare = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        // More than one colon without brackets is an IPv6 address, not a port.
        None if host.matches(':').count() > 1 => host,
        None => host.split(':').next().unwrap_or_default(),
    };
    decoded(bare).chars().map(folded).collect::<String>().trim_end_matches('.').to_ascii_lowercase()
}

/// Clients read full-width letters and ideographic stops in a host as their plain forms.
fn folded(c: char) -> char {
    match c {
        '\u{3002}' | '\u{ff61}' => '.',
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        other => other,
    }
}

/// Without percent encoding; what is not UTF-8 afterwards stays as it was.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match (byte, digit(ahead.next()), digit(ahead.next())) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(byte));
                rest = ahead;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
