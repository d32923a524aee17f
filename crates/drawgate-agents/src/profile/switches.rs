//! Which tools a profile allows and denies, from the forms that files use: lists, texts with commas, and
//! maps of switches.

use drawgate_core::policy::Pattern;
use serde_json::{Map, Value};

use super::ToolChoice;
use super::dialects::{self, SPAWN, ToolName};
use super::findings::{Findings, Place};

const NOT_A_NAME: &str =
    "ignored: it is neither the name of a tool nor a pattern such as `time__*`";
const ELSEWHERE: &str = "no tool here replaces it; it counts only if a tool of yours has this name";
const NO_AGENT: &str = "left out, since the parentheses name no agent";
const CONDITION: &str = "left out, since the condition in parentheses can't be kept; name the tool \
                         without it, and limit its arguments by a policy rule";
const DENIED_WHOLE: &str =
    "denied whatever the arguments, since conditions on them can't be kept; use a policy rule";
const GRANTS_NOTHING: &str = "`allow` gives no rights here; grants and policy rules do";

/// The names in a text with commas. Those in parentheses separate nothing.
pub(super) fn names(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(move |c: char| {
        match c {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|name| !name.is_empty())
    .collect()
}

/// What a name in a list allows.
pub(super) struct Allowed {
    /// The tools, as a name or a pattern.
    pub(super) tool: String,
    /// The agents that the tool may start; all without a list.
    pub(super) agents: Option<Vec<String>>,
}

/// The tools that a name in a list allows. `Agent(x)` allows to start `x`.
pub(super) fn allowed(findings: &mut Findings, place: &Place, text: &str) -> Option<Allowed> {
    let (name, condition) = parts(text);
    if !is_pattern(name) {
        findings.warning(place, about(text, NOT_A_NAME));
        return None;
    }
    let here = dialects::tool(name);
    let mut agents = None;
    if let Some(condition) = condition.filter(|condition| *condition != "*") {
        let starts_agents = here == ToolName::Here(SPAWN.to_owned());
        let named: Vec<String> = names(condition).into_iter().map(plain_name).collect();
        if !starts_agents || named.is_empty() {
            let why = if starts_agents { NO_AGENT } else { CONDITION };
            findings.warning(place, about(text, why));
            return None;
        }
        agents = Some(named);
    }
    let tool = match here {
        ToolName::Here(here) => here,
        ToolName::Elsewhere => {
            findings.warning(place, about(name, ELSEWHERE));
            name.to_owned()
        }
    };
    Some(Allowed { tool, agents })
}

/// The choice that a list of names amounts to. Several names of the tool that starts agents add up: each
/// allows its agents, and one without any allows all.
pub(super) fn of_list(list: &[Allowed]) -> ToolChoice {
    let spawns = || list.iter().filter(|allowed| allowed.tool == SPAWN);
    let is_limited = spawns().count() > 0 && spawns().all(|allowed| allowed.agents.is_some());
    let named = spawns().filter_map(|allowed| allowed.agents.clone()).flatten();
    let agents = is_limited.then(|| without_repetition(named));
    let tools = list.iter().map(|allowed| allowed.tool.clone());
    ToolChoice { allowed: Some(without_repetition(tools)), denied: Vec::new(), agents }
}

/// The agents that both lists have.
fn both_agents(one: Option<Vec<String>>, other: Option<Vec<String>>) -> Option<Vec<String>> {
    match (one, other) {
        (Some(mut one), Some(other)) => {
            one.retain(|name| other.contains(name));
            Some(one)
        }
        (one, other) => one.or(other),
    }
}

/// A name with small letters, and with `-` for all that names of profiles can't have.
pub(super) fn plain_name(given: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = given.trim().chars().map(legal).collect();
    name.trim_start_matches('-').to_owned()
}

/// The tools that a name in a list denies: those that have this name, and the one that does the same.
pub(super) fn denied(findings: &mut Findings, place: &Place, text: &str) -> Vec<String> {
    let (name, condition) = parts(text);
    if !is_pattern(name) {
        findings.warning(place, about(text, NOT_A_NAME));
        return Vec::new();
    }
    if condition.is_some_and(|condition| condition != "*") {
        findings.warning(place, about(text, DENIED_WHOLE));
    }
    let mut all = vec![name.to_owned()];
    if let ToolName::Here(here) = dialects::tool(name)
        && here != name
    {
        all.push(here);
    }
    all
}

fn about(name: &str, message: &str) -> String {
    format!("`{}`: {message}", name.escape_debug())
}

/// A name, and the condition that follows it in parentheses.
fn parts(text: &str) -> (&str, Option<&str>) {
    match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        Some((name, condition)) => (name.trim(), Some(condition.trim())),
        None => (text, None),
    }
}

fn is_pattern(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.:/%*?@".contains(c);
    !name.is_empty() && name.chars().all(legal) && Pattern::new(name).is_ok()
}

/// Tools in a map, each on or off. Of several that apply the last counts.
pub(super) struct Switches {
    rest: Rest,
    on: Vec<Allowed>,
    off: Vec<String>,
}

/// What is true of tools that no switch names.
#[derive(PartialEq, Eq)]
enum Rest {
    On,
    Off,
}

impl Switches {
    /// Reads a map of booleans.
    pub(super) fn of_booleans(
        findings: &mut Findings,
        place: &Place,
        map: &Map<String, Value>,
    ) -> Self {
        let mut switches = Self { rest: Rest::On, on: Vec::new(), off: Vec::new() };
        for (name, value) in map {
            let place = place.key(name);
            match findings.boolean(&place, value) {
                Some(true) => switches.turn_on(findings, &place, name),
                Some(false) => switches.turn_off(findings, &place, name),
                None => {}
            }
        }
        switches
    }

    /// Reads permissions: `allow`, `ask`, which means `deny` since nobody can be asked, and `deny`.
    pub(super) fn of_permissions(findings: &mut Findings, place: &Place, value: &Value) -> Self {
        let mut switches = Self { rest: Rest::On, on: Vec::new(), off: Vec::new() };
        match value {
            Value::Object(map) => {
                for (name, value) in map {
                    switches.set(findings, &place.key(name), name, value);
                }
            }
            Value::String(_) => switches.set(findings, place, "*", value),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                findings.problem(place, "must be `allow`, `ask`, `deny` or a map of tools");
            }
        }
        if switches.rest == Rest::On && (!switches.on.is_empty() || value == "allow") {
            findings.warning(place, GRANTS_NOTHING);
        }
        switches
    }

    fn set(&mut self, findings: &mut Findings, place: &Place, name: &str, value: &Value) {
        match value {
            Value::String(word) if word == "allow" => self.turn_on(findings, place, name),
            Value::String(word) if word == "ask" || word == "deny" => {
                self.turn_off(findings, place, name);
            }
            Value::Object(rules) if rules.values().all(|rule| rule == "allow") => {
                self.turn_on(findings, place, name);
            }
            Value::Object(_) => {
                findings.warning(place, DENIED_WHOLE);
                self.turn_off(findings, place, name);
            }
            Value::String(_)
            | Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_) => findings.problem(place, "must be `allow`, `ask` or `deny`"),
        }
    }

    fn turn_on(&mut self, findings: &mut Findings, place: &Place, name: &str) {
        if name == "*" {
            *self = Self { rest: Rest::On, on: Vec::new(), off: Vec::new() };
            return;
        }
        if self.rest == Rest::On {
            // Tools that are on anyway need no counterpart here.
            self.off.retain(|off| off != name);
            self.on.push(Allowed { tool: name.to_owned(), agents: None });
        } else if let Some(here) = allowed(findings, place, name) {
            self.off.retain(|off| off != name && *off != here.tool);
            self.on.push(here);
        }
    }

    fn turn_off(&mut self, findings: &mut Findings, place: &Place, name: &str) {
        if name == "*" {
            *self = Self { rest: Rest::Off, on: Vec::new(), off: Vec::new() };
            return;
        }
        let names = denied(findings, place, name);
        self.on.retain(|on| !names.contains(&on.tool));
        self.off.extend(names);
    }

    /// The choice that the switches amount to.
    pub(super) fn choice(self) -> ToolChoice {
        let on = match self.rest {
            Rest::On => ToolChoice::default(),
            Rest::Off => of_list(&self.on),
        };
        ToolChoice { denied: self.off, ..on }
    }
}

/// What both choices allow.
pub(super) fn both(one: ToolChoice, other: ToolChoice) -> ToolChoice {
    let allowed = match (one.allowed, other.allowed) {
        (Some(one), Some(other)) => {
            let mut all = matched(&one, &other);
            all.extend(matched(&other, &one));
            Some(all)
        }
        (Some(only), None) | (None, Some(only)) => Some(only),
        (None, None) => None,
    };
    let denied = one.denied.into_iter().chain(other.denied);
    ToolChoice {
        allowed: allowed.map(without_repetition),
        denied: without_repetition(denied),
        agents: both_agents(one.agents, other.agents),
    }
}

/// Those of `names` that one of `patterns` matches.
fn matched(names: &[String], patterns: &[String]) -> Vec<String> {
    let patterns: Vec<Pattern> =
        patterns.iter().filter_map(|pattern| Pattern::new(pattern).ok()).collect();
    let matches = |name: &&String| patterns.iter().any(|pattern| pattern.matches(name));
    names.iter().filter(matches).cloned().collect()
}

fn without_repetition(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
#[path = "switches_tests.rs"]
mod tests;
