//! Checks of `[[hooks]]`.

use std::collections::BTreeSet;

use super::servers::check_connection;
use crate::config::hooks::{HookConfig, HookName, HookSettings};
use crate::config::problem::Problem;
use crate::config::tree::{child, element};
use drawgate_sources::server::Transport;

/// Everything that is wrong with the hooks.
pub(super) fn check(hooks: &[HookConfig], found: &mut Vec<Problem>) {
    let mut names = BTreeSet::new();
    for (index, hook) in hooks.iter().enumerate() {
        let table = element("hooks", index);
        if !names.insert(&hook.name) {
            let message = format!("another hook has the name `{}`", hook.name.escape_debug());
            let problem = Problem::error(child(&table, "name"), message);
            found.push(problem.hint("give each its own"));
        }
        check_connection(&table, &hook.server(), found);
        let transport = hook.connection.transport();
        if matches!(transport, Transport::Sse | Transport::Websocket) {
            let message = format!("transport `{}` is for MCP alone", transport.as_str());
            let problem = Problem::error(child(&table, "transport"), message);
            found.push(problem.hint("use `stdio` or `streamable_http`"));
        }
        if let Err(error) = hook.settings.terms() {
            found.push(Problem::error(child(&table, "tools"), error.to_string()));
        }
        let is_around_calls =
            matches!(hook.on, HookName::RewriteCall | HookName::BeforeCall | HookName::AfterCall);
        if !is_around_calls && hook.settings != HookSettings::default() {
            let message = "`tools`, `timeout_ms`, `on_failure` and `mode` have no effect here";
            let hint = "they are for `rewrite_call`, `before_call` and `after_call`";
            found.push(Problem::warning(child(&table, "on"), message).hint(hint));
        }
    }
}
