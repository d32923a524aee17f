//! Checks of meaning: what the JSON Schema can't say.

mod auth;
mod files;
mod hooks;
mod oauth;
mod rules;
mod servers;

use std::collections::BTreeSet;

use drawgate_agents::model::config::faults;
use drawgate_core::policy::{Rule, RuleFault};
use serde_json::Value;

use super::problem::Problem;
use super::servers::has_user_info;
use super::tree::{child, element};
use super::{Config, Webhook, shape};

impl Config {
    /// Everything that is wrong with the meaning of the configuration. Touches no file.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.check_endpoint(&mut problems);
        auth::check_public_url(&self.server, &mut problems);
        if let Some(auth) = &self.auth {
            auth::check(self, auth, &mut problems);
        }
        self.check_limits(&mut problems);
        self.check_policy(&mut problems);
        self.check_telemetry(&mut problems);
        self.check_webhook(&mut problems);
        self.check_providers(&mut problems);
        servers::check_names(self, &mut problems);
        for (name, server) in &self.servers {
            servers::check(self, name, server, &mut problems);
        }
        hooks::check(&self.hooks, &mut problems);
        problems
    }

    fn check_endpoint(&self, problems: &mut Vec<Problem>) {
        if !self.listen.ip().is_loopback() && self.server.tls.is_none() {
            let message = format!("`{}` can be reached from other machines", self.listen);
            let hint = "set [server.tls], unless something in front of it encrypts";
            problems.push(Problem::warning("listen", message).hint(hint));
        }
    }

    fn check_limits(&self, problems: &mut Vec<Problem>) {
        let limits = &self.limits;
        check_timeout(self, "limits", Some(limits.timeout_seconds), problems);
        if limits.max_concurrent_calls_per_agent > limits.max_concurrent_calls {
            let message = "`max_concurrent_calls_per_agent` is above `max_concurrent_calls`";
            let key = "limits.max_concurrent_calls_per_agent";
            problems.push(Problem::error(key, message).hint("lower it or raise the other"));
        }
        if self.approvals.hold_seconds > self.approvals.expire_seconds {
            let message = "calls would wait longer than approvals last";
            problems.push(
                Problem::error("approvals.hold_seconds", message)
                    .hint("make `hold_seconds` at most `expire_seconds`"),
            );
        }
    }

    fn check_policy(&self, problems: &mut Vec<Problem>) {
        let policy = &self.policy;
        if policy.file.is_some() && policy.inline().is_some() {
            let message = "rules stand both in `policy.file` and in [policy]";
            problems.push(Problem::error("policy.file", message).hint("keep one of the two"));
        }
        if policy.version.as_deref().is_some_and(|version| version != "1.0") {
            let message = "unknown version of the policy rules";
            problems.push(Problem::error("policy.version", message).hint("use `1.0`"));
        }
        let mut seen = BTreeSet::new();
        let schema = Rule::json_schema();
        for (index, rule) in policy.rules.iter().enumerate() {
            let path = element("policy.rules", index);
            let malformed = shape::check_rule(&schema, rule, &path);
            if !malformed.is_empty() {
                problems.extend(malformed);
                continue;
            }
            match Rule::from_value(Value::Object(rule.clone())) {
                Err(RuleFault { place, reason }) if place.is_empty() => {
                    problems.push(Problem::error(path, reason));
                }
                Err(RuleFault { place, reason }) => {
                    let message = format!("`{place}` of the rule can't be used: {reason}");
                    problems.push(Problem::error(format!("{path}.{place}"), message));
                }
                Ok(rule) if seen.contains(&rule.id) => {
                    let message = format!("another rule has the id `{}`", rule.id.escape_debug());
                    let problem = Problem::error(child(&path, "id"), message);
                    problems.push(problem.hint("give each its own"));
                }
                Ok(rule) => drop(seen.insert(rule.id)),
            }
        }
    }

    fn check_providers(&self, problems: &mut Vec<Problem>) {
        for fault in faults(&self.providers, &self.models) {
            let key = fault.path.iter().fold(String::new(), |table, key| child(&table, key));
            problems.push(Problem::error(key, fault.message));
        }
        for (name, provider) in &self.providers {
            let literal = provider.key.as_ref().filter(|key| key.variable().is_none());
            if literal.is_some_and(|key| !key.is_broken_reference()) {
                let key = child(&child("providers", name), "key");
                let message = "the key is written in the file";
                problems.push(Problem::warning(key, message).hint("write `env:NAME`"));
            }
        }
    }

    fn check_telemetry(&self, problems: &mut Vec<Problem>) {
        if let Some(url) = &self.telemetry.otlp_endpoint {
            check_url("telemetry.otlp_endpoint", url, problems);
        }
        if let Some(url) = &self.audit.anchor_url {
            check_url("audit.anchor_url", url, problems);
        }
        servers::check_headers("telemetry.headers", &self.telemetry.headers, problems);
    }

    fn check_webhook(&self, problems: &mut Vec<Problem>) {
        let Some(Webhook { url, secret }) = &self.approvals.webhook else { return };
        if url.is_broken_reference() || url.variable().is_some() {
            servers::check_setting("approvals.webhook.url", "url", url, problems);
        } else {
            check_url("approvals.webhook.url", url.expose(), problems);
        }
        if let Some(secret) = secret {
            servers::check_setting("approvals.webhook.secret", "secret", secret, problems);
        }
    }
}

/// A timeout may not be longer than the gateway's own limit.
fn check_timeout(config: &Config, table: &str, seconds: Option<u64>, problems: &mut Vec<Problem>) {
    let most = config.limits.max_timeout_seconds;
    if let Some(seconds) = seconds.filter(|seconds| *seconds > most) {
        let message = format!("{seconds} is above `limits.max_timeout_seconds`, which is {most}");
        let key = child(table, "timeout_seconds");
        problems.push(Problem::error(key, message).hint("lower it or raise the limit"));
    }
}

/// What an address begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    /// `http` or `https`.
    Http,
    /// `ws` or `wss`.
    Websocket,
}

impl Scheme {
    const fn example(self) -> &'static str {
        match self {
            Self::Http => "https://host/path",
            Self::Websocket => "wss://host/path",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Websocket => "WebSocket",
        }
    }

    fn fits(self, scheme: Option<&str>) -> bool {
        match self {
            Self::Http => matches!(scheme, Some("http" | "https")),
            Self::Websocket => matches!(scheme, Some("ws" | "wss")),
        }
    }
}

fn check_url(key: &str, url: &str, problems: &mut Vec<Problem>) {
    check_address(key, url, Scheme::Http, problems);
}

/// A URL must be absolute, of the right scheme, and without a password.
fn check_address(key: &str, url: &str, wanted: Scheme, problems: &mut Vec<Problem>) {
    if has_user_info(url) {
        let message = "the URL contains a user name or password";
        let hint = "remove it, and send an `Authorization` header with an `env:NAME` reference";
        problems.push(Problem::error(key, message).hint(hint));
        return;
    }
    let uri = url.parse::<http::Uri>().ok();
    let scheme = uri.as_ref().and_then(http::Uri::scheme_str);
    if !wanted.fits(scheme) || uri.as_ref().is_none_or(|it| it.host().is_none()) {
        let message = format!("`{}` is not an absolute {} URL", url.escape_debug(), wanted.name());
        problems.push(Problem::error(key, message).hint(format!("write `{}`", wanted.example())));
    }
}
