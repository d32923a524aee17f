//! From the text of a file to a profile, with all that is wrong with it.

use std::collections::BTreeMap;

use drawgate_core::canonical::sha256_hex;
use drawgate_core::model::Capability;
use drawgate_sources::suggest::nearest;
use serde_json::{Map, Value};

use super::dialects::{Field, Meaning, SPAWN, meaning, read_keys};
use super::findings::{Findings, Place};
use super::front_matter::{self, Document};
use super::switches::{self, Switches, plain_name};
use super::{Budget, CustomTool, Invoker, Parsed, Problem, Profile, ToolChoice, custom};

/// The largest file that is read; the largest real ones have some tens of kilobytes.
pub const MAX_FILE: usize = 1024 * 1024;
/// The longest name of a profile.
const MAX_NAME: usize = 48;
/// The longest name of a model.
const MAX_MODEL: usize = 200;
/// What can do the work of an agent.
const INVOKERS: &str = "must be `api` (the gateway asks the model itself), or a program: `claude`, \
    `codex`, `gemini` or `opencode`";

/// Reads a profile from a file's name and text. Without a name of its own it has the file's.
pub fn parse(file_name: &str, text: &str) -> Result<Parsed, Vec<Problem>> {
    if text.len() > MAX_FILE {
        return Err(vec![too_large()]);
    }
    let Document { fields, mut findings, body } =
        front_matter::read(text).map_err(|problem| vec![problem])?;
    let given = assign(&mut findings, fields);
    let mut reader = Reader { findings, given };
    let profile = reader.profile(file_name, body, text);
    let Findings { mut problems, mut warnings, .. } = reader.findings;
    if problems.is_empty() {
        warnings.sort_by_key(|warning| warning.line);
        return Ok(Parsed { profile, warnings });
    }
    problems.sort_by_key(|problem| problem.line);
    Err(problems)
}

/// What is wrong with a file that is too large.
pub(super) fn too_large() -> Problem {
    let message = format!("the file is larger than {} MiB; shorten it", MAX_FILE / (1024 * 1024));
    Problem { field: String::new(), tool: None, line: None, message }
}

/// The model at a place; none for `inherit`.
pub(super) fn model(findings: &mut Findings, place: &Place, value: &Value) -> Option<String> {
    let name = findings.text(place, value)?;
    let legal = |c: char| c.is_ascii_alphanumeric() || "._:/@-".contains(c);
    if name.len() > MAX_MODEL || !name.chars().all(legal) {
        findings.problem(place, "must be `PROVIDER/MODEL`, an alias of a model, or `inherit`");
        return None;
    }
    (name != "inherit").then(|| name.to_owned())
}

type Given = BTreeMap<Field, (Place, Value)>;

/// Sorts what the front matter has by what it means.
fn assign(findings: &mut Findings, fields: Map<String, Value>) -> Given {
    let mut given = Given::new();
    for (key, value) in fields {
        let place = Place::default().key(&key);
        match meaning(&key) {
            Some(Meaning::Read(field)) => {
                if let Some((other, _)) = given.get(&field) {
                    let message = format!("means the same as `{}`; remove one", other.field());
                    findings.problem(&place, message);
                } else {
                    given.insert(field, (place, value));
                }
            }
            Some(Meaning::Ignored) => {}
            Some(Meaning::Warned(why)) => findings.warning(&place, why),
            None => match nearest(&key, read_keys()) {
                Some(meant) => {
                    findings.problem(&place, format!("unknown field; did you mean `{meant}`?"));
                }
                None => findings.warning(&place, "ignored: unknown field"),
            },
        }
    }
    given
}

struct Reader {
    findings: Findings,
    given: Given,
}

impl Reader {
    fn profile(&mut self, file_name: &str, body: &str, text: &str) -> Profile {
        self.check_kind();
        let (tools, custom) = self.tools();
        let mut budget = self.budget();
        if let Some(seconds) = self.timeout() {
            budget.seconds.get_or_insert(seconds);
        }
        Profile {
            name: self.name(file_name),
            description: self.description(),
            model: self
                .take(Field::Model)
                .and_then(|(place, value)| model(&mut self.findings, &place, &value)),
            instructions: self.instructions(body),
            tools,
            custom,
            ceiling: self.ceiling(),
            budget,
            max_turns: self.max_turns(),
            temperature: self.temperature(),
            invoker: self.invoker(),
            public: self.public(),
            hash: sha256_hex(text.as_bytes()),
        }
    }

    fn take(&mut self, field: Field) -> Option<(Place, Value)> {
        self.given.remove(&field)
    }

    /// The name, in the form that names have here.
    fn name(&mut self, file_name: &str) -> String {
        let stem = file_name.strip_suffix(".md").unwrap_or(file_name).to_owned();
        let (place, given) = match self.take(Field::Name) {
            Some((place, value)) => match self.findings.text(&place, &value) {
                Some(text) => (place, text.to_owned()),
                None => return String::new(),
            },
            None => (Place::default().key("name"), stem),
        };
        let name = plain_name(&given);
        if name.is_empty() || name.len() > MAX_NAME {
            let message = format!(
                "`{}` can't be a name; use 1 to {MAX_NAME} of `a-z`, `0-9` and `-`",
                given.escape_debug()
            );
            self.findings.problem(&place, message);
        } else if name != given {
            self.findings.warning(&place, format!("called `{name}` here"));
        }
        name
    }

    fn description(&mut self) -> String {
        let Some((place, value)) = self.take(Field::Description) else {
            let message = "missing: other agents can't tell what this one is for";
            self.findings.warning(&Place::default().key("description"), message);
            return String::new();
        };
        self.findings.text(&place, &value).unwrap_or_default().to_owned()
    }

    fn instructions(&mut self, body: &str) -> String {
        let body = body.trim();
        if body.is_empty() {
            let message = "there is no text below the front matter: the model is told nothing";
            self.findings.warning(&Place::default(), message);
        }
        body.to_owned()
    }

    fn check_kind(&mut self) {
        if let Some((place, value)) = self.take(Field::Kind)
            && value != "local"
        {
            self.findings.problem(&place, "only `local` agents can be run");
        }
        if let Some((place, value)) = self.take(Field::Disabled)
            && self.findings.boolean(&place, &value) == Some(true)
        {
            self.findings.problem(&place, "the file disables its agent; remove this to use it");
        }
    }

    fn invoker(&mut self) -> Invoker {
        let Some((place, value)) = self.take(Field::Invoker) else { return Invoker::default() };
        let known = Invoker::ALL.into_iter().find(|known| value == known.as_str());
        if known.is_none() {
            self.findings.problem(&place, INVOKERS);
        }
        known.unwrap_or_default()
    }

    fn tools(&mut self) -> (ToolChoice, Vec<CustomTool>) {
        let mut custom = Vec::new();
        let mut choice = ToolChoice::default();
        if let Some((place, value)) = self.take(Field::Tools) {
            let listed = self.listed_tools(&place, &value, &mut custom);
            choice = switches::both(choice, listed);
        }
        if let Some((place, value)) = self.take(Field::DeniedTools) {
            let denied = self.denied_tools(&place, &value);
            choice = switches::both(choice, ToolChoice { denied, ..ToolChoice::default() });
        }
        if let Some((place, value)) = self.take(Field::Agents) {
            let agents = self.agents(&place, &value);
            choice = switches::both(choice, ToolChoice { agents, ..ToolChoice::default() });
        }
        if let Some((place, value)) = self.take(Field::Permission) {
            let permitted = Switches::of_permissions(&mut self.findings, &place, &value).choice();
            choice = switches::both(choice, permitted);
        }
        if choice.agents.as_ref().is_some_and(Vec::is_empty) {
            choice.denied.push(SPAWN.to_owned());
        }
        (choice, custom)
    }

    /// The agents that it may start; `*` stands for all of them.
    fn agents(&mut self, place: &Place, value: &Value) -> Option<Vec<String>> {
        let names = self.texts(place, value);
        if names.iter().any(|(_, name)| name == "*") {
            return None;
        }
        Some(names.iter().map(|(_, name)| plain_name(name)).collect())
    }

    /// What `tools` says. A list of custom tools alone adds them and limits nothing.
    fn listed_tools(
        &mut self,
        place: &Place,
        value: &Value,
        custom: &mut Vec<CustomTool>,
    ) -> ToolChoice {
        let mut allowed = Vec::new();
        let mut limits = true;
        match value {
            Value::String(text) => {
                for name in switches::names(text) {
                    allowed.extend(switches::allowed(&mut self.findings, place, name));
                }
            }
            Value::Array(items) => {
                limits = items.is_empty() || !items.iter().all(Value::is_object);
                for (index, item) in items.iter().enumerate() {
                    let place = place.index(index);
                    match item {
                        Value::String(name) => {
                            allowed.extend(switches::allowed(&mut self.findings, &place, name));
                        }
                        Value::Object(fields) => self.custom_tool(&place, fields, custom),
                        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                            let message = "must be the name of a tool, or a custom tool";
                            self.findings.problem(&place, message);
                        }
                    }
                }
            }
            Value::Object(map) => {
                return Switches::of_booleans(&mut self.findings, place, map).choice();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                let message = "must be a list of tools; write `[]` for none";
                self.findings.problem(place, message);
            }
        }
        if limits { switches::of_list(&allowed) } else { ToolChoice::default() }
    }

    fn custom_tool(
        &mut self,
        place: &Place,
        fields: &Map<String, Value>,
        custom: &mut Vec<CustomTool>,
    ) {
        let Some(tool) = custom::read(&mut self.findings, place, fields) else { return };
        if custom.iter().any(|other| other.name == tool.name) {
            let place = place.of_tool(&tool.name).key("name");
            self.findings.problem(&place, "another tool of this profile has the same name");
            return;
        }
        custom.push(tool);
    }

    fn denied_tools(&mut self, place: &Place, value: &Value) -> Vec<String> {
        let mut all = Vec::new();
        for (place, name) in self.texts(place, value) {
            all.extend(switches::denied(&mut self.findings, &place, &name));
        }
        all
    }

    /// The texts of a list, or of a text with commas.
    fn texts(&mut self, place: &Place, value: &Value) -> Vec<(Place, String)> {
        let mut all = Vec::new();
        match value {
            Value::String(text) => {
                let names = switches::names(text).into_iter();
                all.extend(names.map(|name| (place.clone(), name.to_owned())));
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let place = place.index(index);
                    if let Some(text) = self.findings.text(&place, item) {
                        all.push((place, text.to_owned()));
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                self.findings.problem(place, "must be a list; write `[]` for none");
            }
        }
        all
    }

    fn ceiling(&mut self) -> Option<Vec<Capability>> {
        let (place, value) = self.take(Field::Ceiling)?;
        let mut all = Vec::new();
        for (place, text) in self.texts(&place, &value) {
            match Capability::new(&text) {
                Ok(capability) => all.push(capability),
                Err(error) => self.findings.problem(&place, error.to_string()),
            }
        }
        Some(all)
    }

    fn budget(&mut self) -> Budget {
        const FIELDS: &[&str] = &["tokens", "cost_usd", "seconds", "tool_calls", "runs"];
        let mut budget = Budget::default();
        let Some((place, value)) = self.take(Field::Budget) else { return budget };
        let Value::Object(fields) = value else {
            self.findings.problem(&place, "must be a map such as `{tokens: 200000}`");
            return budget;
        };
        for (key, value) in &fields {
            let at = place.key(key);
            match key.as_str() {
                "tokens" => budget.tokens = self.findings.count(&at, value),
                "cost_usd" => budget.cost_usd = self.findings.amount(&at, value),
                "seconds" => budget.seconds = self.findings.count(&at, value),
                "tool_calls" => budget.tool_calls = self.findings.count(&at, value),
                "runs" => budget.runs = self.findings.count(&at, value),
                _ => self.findings.unknown_key(&place, key, FIELDS),
            }
        }
        budget
    }

    /// `timeout_mins` in seconds.
    fn timeout(&mut self) -> Option<u64> {
        let (place, value) = self.take(Field::TimeoutMinutes)?;
        let minutes = self.findings.amount(&place, &value)?;
        let time = std::time::Duration::try_from_secs_f64(minutes * 60.0).ok();
        if time.is_none() {
            self.findings.problem(&place, "must be a number of minutes");
        }
        time.map(|time| time.as_secs().max(1))
    }

    fn max_turns(&mut self) -> Option<u32> {
        let (place, value) = self.take(Field::MaxTurns)?;
        let turns = self.findings.count(&place, &value)?;
        // More than can be counted is no limit that a run could reach.
        Some(u32::try_from(turns).unwrap_or(u32::MAX))
    }

    fn temperature(&mut self) -> Option<f64> {
        let (place, value) = self.take(Field::Temperature)?;
        let found = value.as_f64().filter(|temperature| (0.0..=2.0).contains(temperature));
        if found.is_none() {
            self.findings.problem(&place, "must be a number from 0 to 2");
        }
        found
    }

    fn public(&mut self) -> bool {
        let Some((place, value)) = self.take(Field::Public) else { return false };
        self.findings.boolean(&place, &value).unwrap_or_default()
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
