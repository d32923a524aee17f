//! Checks of what rules are about: a rule that can match nothing protects nothing.

use std::collections::{BTreeMap, BTreeSet};

use drawgate_core::policy::{KNOWN_ACTIONS, Pattern, Rule, Rules};
use drawgate_sources::builtin;
use drawgate_sources::server::DeclaredRole;
use drawgate_sources::shape::list;
use drawgate_sources::suggest::nearest;

use crate::config::Config;
use crate::config::problem::Problem;
use crate::config::servers::Server;

/// The id of the built-in tools.
pub(super) const BUILTIN: &str = "builtin";

/// The tools that a configuration has, as far as they are known before anything runs.
pub(super) struct KnownTools<'a> {
    config: &'a Config,
    /// Names of tools by source; none where only the source itself knows them.
    sources: BTreeMap<String, Option<BTreeSet<String>>>,
    /// What tools are known to do.
    actions: BTreeSet<String>,
    /// Whether there are sources whose tools may do anything.
    is_open: bool,
}

impl<'a> KnownTools<'a> {
    /// `toolpacks` are the ids of those that are installed.
    pub(super) fn of(config: &'a Config, toolpacks: BTreeSet<String>) -> Self {
        let is_open = !toolpacks.is_empty();
        let sources = toolpacks.into_iter().map(|id| (id, None)).collect();
        let mut known = Self { config, sources, actions: BTreeSet::new(), is_open };
        let tools = if config.builtin.enabled { builtin::tools() } else { Vec::new() };
        let names = tools.iter().map(|tool| tool.name.clone()).collect();
        known.sources.insert(BUILTIN.to_owned(), Some(names));
        let said =
            tools.into_iter().filter_map(|tool| tool.own_annotations()?.policy_action.clone());
        known.actions.extend(said);
        for (id, server) in config.servers.iter().filter(|(_, server)| server.enabled) {
            known.add(id.as_str(), server);
        }
        let own = config.toolpacks.packs.values().flat_map(|pack| pack.tools.values());
        known.actions.extend(own.filter_map(|tool| tool.policy_action.clone()));
        known
    }

    fn add(&mut self, id: &str, server: &Server) {
        let names = match server.declared_tools(self.config.kinds) {
            Ok((tools, DeclaredRole::Tools)) => {
                Some(tools.into_iter().map(|tool| tool.name).collect())
            }
            Ok((_, DeclaredRole::Terms)) | Err(_) => None,
        };
        self.is_open |= names.is_none();
        self.actions.extend(actions(self.config, server));
        self.sources.insert(id.to_owned(), names);
    }

    /// Everything that is wrong with rules. `key` names a member of the rule at an index.
    pub(super) fn check(
        &self,
        rules: &Rules,
        key: impl Fn(usize, &str) -> String,
        found: &mut Vec<Problem>,
    ) {
        for (index, rule) in rules.rules.iter().enumerate() {
            if let Some(problem) = self.check_action(rule, key(index, "action")) {
                found.push(problem);
                continue;
            }
            let tools = rule.when.tool_id.iter().flatten();
            let tools = tools.filter_map(|pattern| Some(("when.toolId", self.no_tool(pattern)?)));
            let scopes = rule.when.connector_scope.iter().flatten();
            let scopes =
                scopes.filter_map(|it| Some(("when.connectorScope", self.no_source(it.as_str())?)));
            for (member, (reason, hint)) in tools.chain(scopes) {
                let message = format!("the rule `{}` can match no tool: {reason}", shown(&rule.id));
                found.push(Problem::warning(key(index, member), message).hint(hint));
            }
            found.extend(self.check_reach(rules, rule, key(index, "action")));
        }
    }

    fn check_action(&self, rule: &Rule, key: String) -> Option<Problem> {
        let own = self.config.policy.actions.iter().map(String::as_str);
        let known: Vec<&str> = KNOWN_ACTIONS.into_iter().chain(own).collect();
        let action = rule.action.as_str();
        let id = shown(&rule.id);
        if is_of_any_tool(&rule.action) {
            return None;
        }
        if !known.iter().any(|one| rule.action.matches(one)) {
            let hint = match nearest(action, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("use {}, or add it to `policy.actions`", list(&known, "or")),
            };
            let message =
                format!("the rule `{id}` is about an unknown policy action, `{}`", shown(action));
            return Some(Problem::error(key, message).hint(hint));
        }
        let is_possible = self.is_open || self.actions.iter().any(|one| rule.action.matches(one));
        if is_possible {
            return None;
        }
        let message =
            format!("the rule `{id}` can match no tool: none that is configured does `{action}`");
        Some(Problem::warning(key, message).hint("set `policy_action` for the tools that do"))
    }

    /// Servers that a rule does not hold for, because it is not known what their tools do.
    fn check_reach(&self, rules: &Rules, rule: &Rule, key: String) -> Option<Problem> {
        if is_of_any_tool(&rule.action) || rule.decision <= rules.fallback {
            return None;
        }
        let servers = self.config.servers.iter().filter(|(_, server)| server.enabled);
        let missed = servers
            .filter(|(id, server)| {
                may_mean(rule, id.as_str()) && actions(self.config, server).is_empty()
            })
            .map(|(id, _)| id.as_str());
        let missed: Vec<&str> = missed.collect();
        let first = missed.first()?;
        let message = format!(
            "the rule `{}` does not hold for tools of {}, which have no policy action",
            shown(&rule.id),
            list(&missed, "and")
        );
        let hint = format!(
            "set `policy_action` for them in [servers.{first}.tools.NAME], or write `action = \"*\"` for a rule about every tool"
        );
        Some(Problem::warning(key, message).hint(hint))
    }

    /// Why a pattern over ids of tools matches none, and what to do.
    fn no_tool(&self, pattern: &Pattern) -> Option<(String, String)> {
        let Some((source, tool)) = pattern.as_str().split_once(':') else {
            let hint = "write it as `SERVER:TOOL`, or `*` for the one or the other".to_owned();
            let reason = format!("`{}` is not the id of a tool", shown(pattern.as_str()));
            return (!is_wild(pattern.as_str())).then_some((reason, hint));
        };
        if let Some(reason) = self.no_source(source) {
            return Some(reason);
        }
        let names = self.sources.get(&source.to_lowercase())?.as_ref()?;
        if is_wild(tool)
            || tool.starts_with('@')
            || names.iter().any(|it| it.eq_ignore_ascii_case(tool))
        {
            return None;
        }
        let hint = match nearest(tool, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{source}:{near}`?"),
            None => "the list of tools shows those that it has".to_owned(),
        };
        Some((format!("`{source}` has no tool `{}`", shown(tool)), hint))
    }

    /// Why a pattern over sources matches none, and what to do.
    fn no_source(&self, pattern: &str) -> Option<(String, String)> {
        let is_known = self.sources.keys().any(|id| id.eq_ignore_ascii_case(pattern));
        if is_known || is_wild(pattern) {
            return None;
        }
        let hint = match nearest(pattern, self.sources.keys().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "it counts only once a pack of that name dials in".to_owned(),
        };
        Some((format!("there is no server or toolpack `{}`", shown(pattern)), hint))
    }
}

/// What the tools of a server do, by the operator's word or by their definitions.
fn actions(config: &Config, server: &Server) -> BTreeSet<String> {
    let own = server.tools.values().filter_map(|tool| tool.policy_action.clone());
    let declared = server.declared_tools(config.kinds).map(|(tools, _)| tools);
    let listed = declared.unwrap_or_default().into_iter();
    own.chain(listed.filter_map(|tool| tool.own_annotations()?.policy_action.clone())).collect()
}

/// Whether a rule is about tools without an action too.
fn is_of_any_tool(action: &Pattern) -> bool {
    action.matches("")
}

/// Whether a rule's other conditions may hold for tools of a server.
fn may_mean(rule: &Rule, server: &str) -> bool {
    let source = |pattern: &Pattern| {
        let text = pattern.as_str();
        let source = text.split_once(':').map_or(text, |(source, _)| source);
        is_wild(source) || source.eq_ignore_ascii_case(server)
    };
    let any = |patterns: &Option<Vec<Pattern>>| {
        patterns.as_ref().is_none_or(|list| list.iter().any(source))
    };
    any(&rule.when.tool_id) && any(&rule.when.connector_scope)
}

fn is_wild(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

fn shown(text: &str) -> String {
    text.escape_debug().to_string()
}
