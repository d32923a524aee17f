//! Whether an event is what a question asks for.

use std::borrow::Cow;

use aho_corasick::AhoCorasick;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{AuditQuery, EventSource};
use crate::audit::EventKind;
use crate::canonical;
use crate::policy::Pattern;
use crate::store::StoreError;

/// Longest text that is looked for.
const MAX_TEXT: usize = 1024;
/// How a call ended that did what was asked.
const OK: &str = "OK";

/// A question that can't be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A pattern that can't be used.
    #[error("`{}` can't be used as a pattern for tools; use up to 1024 characters, such as `files__*`", .0.escape_debug())]
    Tool(String),
    /// A text that is empty or too long.
    #[error("a text to look for has 1 to {MAX_TEXT} characters")]
    Text,
    /// A time that ends before it begins.
    #[error("the time to look at ends before it begins")]
    Time,
}

/// A question, compiled.
pub(super) struct EventFilter {
    since: u64,
    until: u64,
    agent: Option<String>,
    tool: Option<Pattern>,
    code: Option<String>,
    text: Option<Regex>,
    /// What the JSON of each event in question contains, so that the others are not parsed.
    needles: Vec<AhoCorasick>,
}

/// The members of an event that decide whether it is in question.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Head<'a> {
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    pub(super) created_at: u64,
    #[serde(borrow, default)]
    pub(super) call_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) request_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) approval_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    principal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    agent: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    requested_by: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    code: Option<Cow<'a, str>>,
    #[serde(default)]
    success: Option<bool>,
    #[serde(default)]
    pub(super) started: bool,
}

impl<'a> Head<'a> {
    /// The members of an event; `None` if it can't be read, which the verifier says.
    pub(super) fn parse(body: &'a str) -> Option<Self> {
        serde_json::from_str(body).ok()
    }

    pub(super) fn is(&self, kind: EventKind) -> bool {
        self.kind == kind.as_str()
    }
}

impl EventFilter {
    /// Compiles a question.
    pub(super) fn new(query: &AuditQuery) -> Result<Self, QueryError> {
        let (since, until) = (query.since.unwrap_or(0), query.until.unwrap_or(u64::MAX));
        if since >= until {
            return Err(QueryError::Time);
        }
        let wrong = |text: &String| QueryError::Tool(text.chars().take(MAX_TEXT).collect());
        let compile = |text: &String| Pattern::new(text).map_err(|_| wrong(text));
        let mut needles = Vec::new();
        if let Some(agent) = &query.agent {
            needles.extend(needle(&format!(":{}", quoted(agent)), MatchCase::Exact));
        }
        if let Some(tool) = &query.tool {
            // Patterns match whatever the case.
            needles.extend(needle(literal(tool), MatchCase::Any));
        }
        Ok(Self {
            since,
            until,
            agent: query.agent.clone(),
            tool: query.tool.as_ref().map(compile).transpose()?,
            code: query.code.clone(),
            text: query.text.as_deref().map(text).transpose()?,
            needles,
        })
    }

    /// The head of an event that may be in question.
    pub(super) fn candidate<'a>(&self, body: &'a str) -> Option<Head<'a>> {
        self.needles.iter().all(|needle| needle.is_match(body)).then(|| Head::parse(body))?
    }

    pub(super) const fn is_in_time(&self, head: &Head<'_>) -> bool {
        self.since <= head.created_at && head.created_at < self.until
    }

    /// Whether it is about the agent and the tool.
    pub(super) fn is_about(&self, head: &Head<'_>) -> bool {
        let names = [&head.principal, &head.agent, &head.name, &head.requested_by];
        let is = |agent: &String| names.iter().any(|name| name.as_deref() == Some(agent));
        self.agent.as_ref().is_none_or(is)
            && self.tool.as_ref().is_none_or(|pattern| {
                head.tool_id.as_deref().is_some_and(|id| is_tool(pattern, id))
            })
    }

    pub(super) fn has_code(&self, head: &Head<'_>) -> bool {
        let Some(wanted) = &self.code else { return true };
        match &head.code {
            Some(code) => code.eq_ignore_ascii_case(wanted),
            None => head.success == Some(true) && wanted.eq_ignore_ascii_case(OK),
        }
    }

    pub(super) const fn asks_for_code(&self) -> bool {
        self.code.is_some()
    }

    pub(super) const fn asks_for_text(&self) -> bool {
        self.text.is_some()
    }

    /// Whether the text is in the event, or in arguments that are kept beside it.
    pub(super) fn has_text(
        &self,
        body: &str,
        source: &dyn EventSource,
    ) -> Result<bool, StoreError> {
        let Some(text) = &self.text else { return Ok(true) };
        let is_kept = body.contains("\"inputKept\":true");
        if !is_kept && !text.is_match(body) {
            return Ok(false);
        }
        let Ok(event) = serde_json::from_str::<Map<String, Value>>(body) else { return Ok(false) };
        let mut shown = event.iter().filter(|(key, _)| !is_hash(key));
        if shown.any(|(_, value)| text.is_match(&canonical::to_string(value))) {
            return Ok(true);
        }
        let kept = match event.get("inputHash").and_then(Value::as_str).filter(|_| is_kept) {
            Some(hash) => source.payload(hash)?,
            None => None,
        };
        Ok(kept.is_some_and(|kept| text.is_match(&kept)))
    }
}

/// Hashes and the chain's own members, in which a text would be found by accident.
fn is_hash(key: &str) -> bool {
    matches!(key, "hash" | "prev" | "hashBefore" | "hashAfter") || key.ends_with("Hash")
}

/// Whether a pattern means a tool, by one of its names.
fn is_tool(pattern: &Pattern, id: &str) -> bool {
    let bare = id.split_once(':').map_or(id, |(_, bare)| bare);
    [id, bare].iter().any(|name| pattern.matches(name))
        || pattern.matches(&id.replacen(':', "__", 1))
}

/// The longest part of a pattern that the id of each tool has that it means: of `source__tool`, which
/// also stands for `source:tool`, one side.
fn literal(pattern: &str) -> &str {
    let parts = pattern.split(|c: char| !c.is_ascii_alphanumeric() && !"_-.".contains(c));
    let parts = parts.flat_map(|part| part.split("__"));
    parts.max_by_key(|part| part.len()).unwrap_or_default()
}

fn text(wanted: &str) -> Result<Regex, QueryError> {
    if wanted.is_empty() || wanted.chars().count() > MAX_TEXT {
        return Err(QueryError::Text);
    }
    let inner = quoted(wanted);
    let inner = inner.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
    let escaped = regex::escape(inner.unwrap_or_default());
    RegexBuilder::new(&escaped).case_insensitive(true).build().map_err(|_| QueryError::Text)
}

/// A text as it stands in canonical JSON.
pub(super) fn quoted(text: &str) -> String {
    canonical::to_string(&Value::String(text.to_owned()))
}

/// Whether the case of ASCII letters counts. Where it does, looking is much faster.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MatchCase {
    Exact,
    Any,
}

/// Looks for a text in JSON; none for a text that is in everything.
pub(super) fn needle(text: &str, case: MatchCase) -> Option<AhoCorasick> {
    let is_any = case == MatchCase::Any;
    let build = || AhoCorasick::builder().ascii_case_insensitive(is_any).build([text]).ok();
    (!text.is_empty()).then(build)?
}
