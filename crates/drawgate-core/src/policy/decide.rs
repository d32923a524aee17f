//! The decision, a pure function of rules and request.

use serde_json::{Map, Value};

use super::places::{hosts, paths};
use super::rules::{Condition, Matcher, Pattern, Rule, Rules};
use crate::model::{Lineage, PolicyDecision, Principal, ToolId, Verdict};

/// What a rule may look at.
#[derive(Debug, Clone, Copy)]
pub struct PolicyRequest<'a> {
    /// The tool.
    pub tool_id: &'a ToolId,
    /// The action that it performs, by the operator's word or its author's where that is trusted.
    pub action: Option<&'a str>,
    /// The action that a running server claims: rules that deny or ask heed it, rules that allow don't.
    pub claimed: Option<&'a str>,
    /// Who calls.
    pub principal: &'a Principal,
    /// The run that calls, if the gateway itself runs the agent.
    pub lineage: Option<&'a Lineage>,
    /// With what.
    pub arguments: &'a Map<String, Value>,
    /// Whether they fit the tool's schema. If they don't, nobody here can say how the source will read
    /// them: it may take `"true"` for `true`, and a text for the list that is in it.
    pub fits: bool,
    /// The arguments' size in bytes, in canonical JSON.
    pub size: u64,
}

/// Decides a call: the strictest of the rules that match, or the fallback.
#[must_use]
pub fn decide(rules: &Rules, request: &PolicyRequest<'_>) -> PolicyDecision {
    let mut strictest: Option<&Rule> = None;
    for rule in rules.rules.iter().filter(|rule| applies(rule, request)) {
        // The first rule of the strictest verdict is the one to name.
        if strictest.is_none_or(|found| rule.decision > found.decision) {
            strictest = Some(rule);
        }
    }
    strictest.map_or_else(|| by_fallback(rules), by_rule)
}

fn by_rule(rule: &Rule) -> PolicyDecision {
    let reason = rule.reason.clone().unwrap_or_else(|| format!("rule `{}`", rule.id));
    PolicyDecision {
        decision: rule.decision,
        requires_confirmation: rule.decision == Verdict::AllowWithConfirm,
        reason,
        risk_tags: rule.risk_tags.clone(),
        rule_id: Some(rule.id.clone()),
    }
}

fn by_fallback(rules: &Rules) -> PolicyDecision {
    let fallback = rules.fallback;
    let reason = match fallback {
        Verdict::Deny if rules.has_fallback => {
            "no rule matches, and `policy.defaults.fallback` is `deny`"
        }
        Verdict::Deny => "no rule matches, and `policy.defaults.fallback` is not set",
        Verdict::Allow | Verdict::AllowWithConfirm => "no rule matches",
    };
    PolicyDecision {
        decision: fallback,
        requires_confirmation: fallback == Verdict::AllowWithConfirm,
        reason: reason.to_owned(),
        risk_tags: Vec::new(),
        rule_id: None,
    }
}

fn applies(rule: &Rule, request: &PolicyRequest<'_>) -> bool {
    let claimed = request.claimed.filter(|_| rule.decision != Verdict::Allow);
    (rule.action.matches(request.action.unwrap_or_default())
        || claimed.is_some_and(|claimed| rule.action.matches(claimed)))
        && holds(&rule.when, rule.decision, request)
}

fn holds(when: &Condition, verdict: Verdict, request: &PolicyRequest<'_>) -> bool {
    let name = |patterns: &Option<Vec<Pattern>>, text: &str| {
        patterns.as_ref().is_none_or(|list| list.iter().any(|pattern| pattern.matches(text)))
    };
    name(&when.tool_id, request.tool_id.as_str())
        && name(&when.principal, request.principal.as_str())
        && is_of(when.agent.as_deref(), verdict, request.lineage)
        && name(&when.connector_scope, request.tool_id.source().as_str())
        && when.size_over.is_none_or(|limit| request.size > limit)
        && holds_for_arguments(when, verdict, request)
}

/// Whether the run that calls is of one of the profiles. What a profile may not do, it may not have done
/// by a run that it starts; what it may do, it does not pass on.
fn is_of(profiles: Option<&[Pattern]>, verdict: Verdict, lineage: Option<&Lineage>) -> bool {
    let Some(profiles) = profiles else { return true };
    let matches = |run: &Lineage| profiles.iter().any(|pattern| pattern.matches(&run.profile));
    lineage.is_some_and(|run| match verdict {
        Verdict::Allow => matches(run),
        Verdict::AllowWithConfirm | Verdict::Deny => run.upwards().any(matches),
    })
}

/// What a rule says about arguments. Of those that can be read in several ways, one that does not allow
/// holds, and one that allows does not.
fn holds_for_arguments(when: &Condition, verdict: Verdict, request: &PolicyRequest<'_>) -> bool {
    if !request.fits {
        let asks = !when.arguments.is_empty() || when.path.is_some() || when.host.is_some();
        return !asks || verdict != Verdict::Allow;
    }
    when.arguments.iter().all(|(path, matcher)| {
        let found = lookup(request.arguments, path);
        matcher.matches_absence(&found)
            || quantified(verdict, &found, |value| matches_within(matcher, verdict, value))
    }) && when.path.as_ref().is_none_or(|patterns| {
        let found = paths(request.arguments, verdict);
        quantified(verdict, &found, |path| patterns.iter().any(|pattern| pattern.matches(path)))
    }) && when.host.as_ref().is_none_or(|patterns| {
        let found = hosts(request.arguments, verdict);
        quantified(verdict, &found, |host| patterns.iter().any(|pattern| pattern.matches(host)))
    })
}

/// A rule that allows must match everything it finds; one that does not allow, anything.
fn quantified<T>(verdict: Verdict, found: &[T], matches: impl Fn(&T) -> bool) -> bool {
    match verdict {
        Verdict::Allow => !found.is_empty() && found.iter().all(matches),
        Verdict::AllowWithConfirm | Verdict::Deny => found.iter().any(matches),
    }
}

/// The values under a dotted name. A name may itself have dots, and then there can be several: a
/// harmless one must not hide the others. A name that goes through an array means each of its items,
/// unless it has the number of one.
fn lookup<'a>(arguments: &'a Map<String, Value>, path: &str) -> Vec<&'a Value> {
    let mut found: Vec<&Value> = arguments.get(path).into_iter().collect();
    for (at, _) in path.match_indices('.') {
        let (name, rest) = (path.get(..at), path.get(at + 1..));
        if let (Some(value), Some(rest)) = (name.and_then(|name| arguments.get(name)), rest) {
            descend(value, rest, &mut found);
        }
    }
    found
}

fn descend<'a>(value: &'a Value, path: &str, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(map) => found.extend(lookup(map, path)),
        Value::Array(list) => {
            let (first, rest) = path.split_once('.').unwrap_or((path, ""));
            match first.parse::<usize>().ok().map(|at| list.get(at)) {
                Some(Some(item)) if rest.is_empty() => found.push(item),
                Some(Some(item)) => descend(item, rest, found),
                Some(None) => {}
                None => list.iter().for_each(|item| descend(item, path, found)),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a value matches, as a whole or by what is in it.
fn matches_within(matcher: &Matcher, verdict: Verdict, value: &Value) -> bool {
    let within: Vec<&Value> = match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    matches(matcher, value)
        || quantified(verdict, &within, |inner| matches_within(matcher, verdict, inner))
}

impl Matcher {
    fn matches_absence(&self, found: &[&Value]) -> bool {
        found.is_empty() && self.present == Some(false)
    }
}

fn matches(matcher: &Matcher, value: &Value) -> bool {
    matcher.present != Some(false)
        && matcher.equals.as_ref().is_none_or(|wanted| same(wanted, value))
        && matcher.one_of.as_ref().is_none_or(|list| list.iter().any(|wanted| same(wanted, value)))
        && matcher
            .matches
            .as_ref()
            .is_none_or(|pattern| value.as_str().is_some_and(|text| pattern.matches(text)))
        && matcher
            .greater_than
            .is_none_or(|limit| value.as_f64().is_some_and(|number| number > limit))
}

/// Equality as JSON has it: `1` and `1.0` are one number, also inside lists and objects.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
