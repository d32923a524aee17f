//! The policy file: its shape, and the patterns compiled from it.

use std::collections::BTreeMap;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{RiskTag, Verdict};

/// The only version of the policy file so far.
const VERSION: &str = "1.0";
/// A policy that no person can read is no policy.
const MAX_RULES: usize = 10_000;

/// A policy file that can't be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RulesError {
    /// Not the shape of a policy.
    #[error("the policy is malformed: {0}")]
    Shape(String),
    /// A pattern that can't be used.
    #[error("{0}")]
    Pattern(String),
    /// A version that this program does not know.
    #[error("policy version `{0}` is unknown; use `{VERSION}`")]
    Version(String),
    /// Two rules with one id.
    #[error("rule id `{0}` is used twice")]
    DuplicateRule(String),
    /// More rules than allowed.
    #[error("the policy has more than {MAX_RULES} rules")]
    TooMany,
}

/// A policy, ready to decide.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What happens where no rule matches.
    pub fallback: Verdict,
    /// Whether the policy says so itself.
    pub has_fallback: bool,
    /// The rules; all that match count, and the strictest wins.
    pub rules: Vec<Rule>,
}

impl Default for Rules {
    /// No policy at all: grants alone decide.
    fn default() -> Self {
        Self { fallback: Verdict::Allow, has_fallback: false, rules: Vec::new() }
    }
}

impl Rules {
    /// Reads a policy from its JSON form.
    pub fn from_value(value: Value) -> Result<Self, RulesError> {
        let file: PolicyFile = serde_path_to_error::deserialize(value).map_err(|error| {
            let (place, reason) = (error.path().to_string(), error.inner());
            let is_whole = place == ".";
            RulesError::Shape(if is_whole {
                reason.to_string()
            } else {
                format!("`{place}`: {reason}")
            })
        })?;
        if file.version != VERSION {
            return Err(RulesError::Version(file.version));
        }
        if file.rules.len() > MAX_RULES {
            return Err(RulesError::TooMany);
        }
        let mut seen = std::collections::BTreeSet::new();
        for rule in &file.rules {
            if !seen.insert(rule.id.clone()) {
                return Err(RulesError::DuplicateRule(rule.id.clone()));
            }
        }
        let fallback = file.defaults.fallback;
        Ok(Self {
            fallback: fallback.unwrap_or(Verdict::Deny),
            has_fallback: fallback.is_some(),
            rules: file.rules,
        })
    }

    /// The JSON Schema of the policy file, for editors.
    #[must_use]
    pub fn json_schema() -> Value {
        schemars::schema_for!(PolicyFile).to_value()
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyFile {
    /// `"1.0"`.
    version: String,
    /// What happens where no rule matches.
    #[serde(default)]
    defaults: Defaults,
    /// The rules.
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Defaults {
    /// The verdict where no rule matches; `deny` unless said otherwise.
    #[serde(default, deserialize_with = "given_verdict")]
    #[schemars(with = "Verdict", default = "deny")]
    fallback: Option<Verdict>,
}

const fn deny() -> Verdict {
    Verdict::Deny
}

/// One rule.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Its name, in decisions and in the audit log.
    pub id: String,
    /// The policy action it is about: `file.write`, `file.*`, or `*` for any tool.
    pub action: Pattern,
    /// Further conditions; all must hold.
    #[serde(default)]
    pub when: Condition,
    /// The verdict.
    pub decision: Verdict,
    /// What makes such calls risky.
    #[serde(default)]
    pub risk_tags: Vec<RiskTag>,
    /// Why, for the caller and for the person who is asked.
    #[serde(default)]
    pub reason: Option<String>,
}

/// What keeps a value from being a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFault {
    /// The member, such as `when.host`; empty for the rule as a whole.
    pub place: String,
    /// Why.
    pub reason: String,
}

impl Rule {
    /// Reads a rule from its JSON form.
    pub fn from_value(value: Value) -> Result<Self, RuleFault> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let place = error.path().to_string();
            let place = if place == "." { String::new() } else { place };
            RuleFault { place, reason: error.inner().to_string() }
        })
    }

    /// The JSON Schema of a rule.
    #[must_use]
    pub fn json_schema() -> Value {
        schemars::schema_for!(Self).to_value()
    }

    /// Whether it is about every call.
    #[must_use]
    pub fn is_of_every_call(&self) -> bool {
        let Condition {
            tool_id,
            principal,
            agent,
            connector_scope,
            path,
            host,
            size_over,
            arguments,
        } = &self.when;
        let lists = [tool_id, principal, agent, connector_scope, host];
        self.action.matches("")
            && lists.iter().all(|list| list.is_none())
            && (path.is_none() && size_over.is_none() && arguments.is_empty())
    }
}

/// Conditions of a rule. An absent one always holds.
///
/// Paths and hosts are looked for in the arguments. A rule that denies or asks applies if *any* of
/// them matches; a rule that allows applies only if *all* do, and there is at least one.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// Tool ids, `source:tool`.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Option<OneOrMany>")]
    pub tool_id: Option<Vec<Pattern>>,
    /// Callers.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Option<OneOrMany>")]
    pub principal: Option<Vec<Pattern>>,
    /// Profiles of agents that the gateway runs itself; no other caller matches. A rule that denies or
    /// asks applies to runs of the profile and to all that are below such a run, a rule that allows to
    /// runs of the profile alone.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Option<OneOrMany>")]
    pub agent: Option<Vec<Pattern>>,
    /// Sources of tools.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Option<OneOrMany>")]
    pub connector_scope: Option<Vec<Pattern>>,
    /// Paths in the arguments, in objects and arrays too; `*` stays within one folder, `**` does not.
    #[serde(default, deserialize_with = "paths")]
    #[schemars(with = "Option<OneOrMany>")]
    pub path: Option<Vec<PathPattern>>,
    /// Hosts in the arguments, in objects and arrays and of URLs too.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Option<OneOrMany>")]
    pub host: Option<Vec<Pattern>>,
    /// The arguments' size in bytes is above this.
    #[serde(default)]
    pub size_over: Option<u64>,
    /// Values of arguments, by dotted name: `edits.path` is `path` of each of `edits`. What a value has
    /// inside is looked at too.
    #[serde(default)]
    pub arguments: BTreeMap<String, Matcher>,
}

/// A test of one argument; all members given must hold.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Matcher {
    /// Exactly this value, `null` included.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// One of these values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Value>>,
    /// Text that matches the pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<Pattern>,
    /// A number above this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greater_than: Option<f64>,
    /// Whether the argument is there at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
}

#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the JSON form only")]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

fn texts<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Form::deserialize(deserializer)? {
        Form::One(text) => vec![text],
        // It would match nothing, and a rule that denies would be silent for ever.
        Form::Many(list) if list.is_empty() => {
            return Err(serde::de::Error::custom("a condition needs at least one pattern"));
        }
        Form::Many(texts) => texts,
    })
}

/// Reads a verdict that may be left out. A written `null` is a mistake.
fn given_verdict<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Verdict>, D::Error> {
    Verdict::deserialize(deserializer).map(Some)
}

/// A `null` that is written is a value, not an absence.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Pattern>>, D::Error> {
    let compile = |text: &String| Pattern::new(text).map_err(serde::de::Error::custom);
    texts(deserializer)?.iter().map(compile).collect::<Result<_, _>>().map(Some)
}

fn paths<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<PathPattern>>, D::Error> {
    let compile = |text: &String| PathPattern::new(text).map_err(serde::de::Error::custom);
    texts(deserializer)?.iter().map(compile).collect::<Result<_, _>>().map(Some)
}

/// A pattern over names and hosts: `*` is any text, `?` any character; case is ignored.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Pattern {
    text: String,
    regex: Regex,
}

/// A pattern over paths: `*` stays within one folder, `**` does not.
#[derive(Debug, Clone)]
pub struct PathPattern(Regex);

impl Pattern {
    /// Compiles the pattern.
    pub fn new(text: &str) -> Result<Self, RulesError> {
        let regex = compile(text, Wildcards::OfNames)?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// The pattern as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether `candidate` matches as a whole.
    #[must_use]
    pub fn matches(&self, candidate: &str) -> bool {
        self.text == "*" || self.regex.is_match(candidate)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl TryFrom<String> for Pattern {
    type Error = RulesError;
    fn try_from(text: String) -> Result<Self, RulesError> {
        Self::new(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.text
    }
}

impl PathPattern {
    fn new(text: &str) -> Result<Self, RulesError> {
        compile(text, Wildcards::OfPaths).map(Self)
    }

    /// Whether `candidate`, a path without `.` and `..`, matches as a whole.
    #[must_use]
    pub fn matches(&self, candidate: &str) -> bool {
        self.0.is_match(candidate)
    }
}

/// Longest pattern, and the memory its automaton may take.
const MAX_PATTERN: usize = 1024;
const PATTERN_MEMORY: usize = 1 << 20;

/// What stars mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcards {
    /// Any text.
    OfNames,
    /// One star stays within a folder, two do not.
    OfPaths,
}

fn compile(text: &str, wildcards: Wildcards) -> Result<Regex, RulesError> {
    if text.is_empty() || text.len() > MAX_PATTERN {
        return Err(RulesError::Pattern(format!("a pattern has 1 to {MAX_PATTERN} characters")));
    }
    let (star, any) = match wildcards {
        Wildcards::OfNames => (".*", "."),
        Wildcards::OfPaths => ("[^/]*", "[^/]"),
    };
    let mut source = String::from("(?is)^");
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (part, tail) = if wildcards == Wildcards::OfPaths && rest == "/**" {
            // What is below a folder, and the folder itself.
            ("(?:/.*)?".to_owned(), "")
        } else if let Some(tail) =
            rest.strip_prefix("**/").filter(|_| wildcards == Wildcards::OfPaths)
        {
            // Any folder, and none.
            ("(?:.*/)?".to_owned(), tail)
        } else if let Some(tail) = rest.strip_prefix("**") {
            (".*".to_owned(), tail)
        } else {
            let part = match c {
                '*' => star.to_owned(),
                '?' => any.to_owned(),
                other => regex::escape(other.encode_utf8(&mut [0; 4])),
            };
            (part, rest.get(c.len_utf8()..).unwrap_or_default())
        };
        source.push_str(&part);
        rest = tail;
    }
    source.push('$');
    regex::RegexBuilder::new(&source)
        .size_limit(PATTERN_MEMORY)
        .build()
        .map_err(|_| RulesError::Pattern(format!("the pattern `{text}` is too complex")))
}
