//! `drawgate grants`: capabilities for a time.

use std::process::ExitCode;

use anyhow::Context as _;
use drawgate_core::model::{CapabilityGrant, GrantScope};
use serde_json::json;

use super::Context;
use super::approvals::Proof;
use super::backend::{Backend, part};
use super::exit::OrUsage as _;
use crate::cli::screen::local_time as time;
use crate::cli::table::{cut, whole};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{IssueGrant, ListedTool, NewGrant};

#[derive(Debug, clap::Subcommand)]
pub(super) enum GrantsCommand {
    /// Grant a capability
    Add {
        /// What it allows, such as `file.read`
        capability: String,
        /// To this agent
        #[arg(
            long,
            value_name = "NAME",
            conflicts_with = "scope",
            required_unless_present = "scope"
        )]
        agent: Option<String>,
        /// To a scope: `user:NAME`, `session:ID`, or `workspace` for every caller
        #[arg(long)]
        scope: Option<String>,
        /// For this long: `90s`, `15m`, `8h`, `7d` [default: until revoked]
        #[arg(long = "for", value_name = "TIME")]
        lifetime: Option<String>,
        /// The approval by a person that stands behind it, such as the number of a ticket: calls that
        /// need a confirmation then need no other. Needs a terminal or the operator's token
        #[arg(long, value_name = "ID")]
        approval: Option<String>,
        #[command(flatten)]
        proof: Proof,
        /// Print the grant's id alone
        #[arg(long)]
        quiet: bool,
    },
    /// List the grants that are live
    List {
        /// Of this agent only
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Revoke a grant: it covers no further call
    Revoke {
        /// Its id
        id: String,
    },
}

/// Says which grants there are for a source of this name: they count for every source that is called so, also
/// for one that comes after another.
pub(super) async fn note_held(name: &str, backend: &Backend) {
    // What the command is about does not depend on them.
    let Ok(grants) = backend.get::<Vec<CapabilityGrant>>("/grants").await else { return };
    for line in held(name, &grants) {
        notice!("drawgate: {line}");
    }
}

fn held(name: &str, grants: &[CapabilityGrant]) -> Vec<String> {
    let capability = format!("source.{name}");
    let of_it = grants.iter().filter(|grant| grant.capability.as_str() == capability);
    let line = |grant: &CapabilityGrant| {
        let scope: String = grant.scope.clone().unwrap_or(GrantScope::Workspace).into();
        format!(
            "`{scope}` holds `{capability}`, which counts for every source named `{name}`; to end that: `drawgate grants revoke {}`",
            grant.grant_id
        )
    };
    of_it.map(line).collect()
}

pub(super) async fn run(command: GrantsCommand, context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done.map(|()| ExitCode::SUCCESS)
}

async fn perform(
    command: GrantsCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<()> {
    match command {
        GrantsCommand::Add { capability, agent, scope, lifetime, approval, proof, quiet } => {
            let lifetime_ms = lifetime.as_deref().map(milliseconds).transpose().or_usage()?;
            let whom = agent.as_ref().map(|name| format!("user:{name}"));
            let scope = whom.or(scope).context("say to whom: `--agent NAME` or `--scope SCOPE`")?;
            let token = match &approval {
                Some(_) => consent(&capability, &scope, &proof, context).await?,
                None => Some(String::new()),
            };
            let Some(token) = token else { return context.out.text("nothing was granted") };
            let grant = NewGrant {
                capability,
                scope,
                lifetime_ms,
                expires_at: None,
                approval_id: approval,
            };
            let grant: CapabilityGrant =
                backend.post("/grants", &IssueGrant { grant, token }).await?;
            if quiet {
                context.out.raw(format!("{}\n", grant.grant_id).as_bytes())?;
            } else {
                context.out.either(&grant, || granted(&grant))?;
            }
            note_unused(&grant, backend).await
        }
        GrantsCommand::List { agent } => {
            let mut grants: Vec<CapabilityGrant> = backend.get("/grants").await?;
            if let Some(agent) = agent {
                let is_for = |scope: &GrantScope| match scope {
                    GrantScope::User(name) => name.as_str() == agent,
                    GrantScope::Workspace | GrantScope::Session(_) => false,
                };
                grants.retain(|grant| grant.scope.as_ref().is_some_and(is_for));
            }
            let rows = grants.iter().map(|grant| {
                let scope = grant.scope.clone().unwrap_or(GrantScope::Workspace);
                let expires = grant.expires_at.map_or_else(|| "-".to_owned(), time);
                let (id, capability) = (grant.grant_id.to_string(), grant.capability.to_string());
                let approval = grant.approval_id.clone().unwrap_or_else(|| "-".to_owned());
                vec![id, capability, scope.into(), expires, approval]
            });
            let empty = "no grants; `drawgate grants add CAPABILITY --agent NAME` issues one";
            context.out.table(
                &grants,
                &[whole("id"), cut("capability"), cut("scope"), whole("expires"), cut("approval")],
                &rows.collect::<Vec<_>>(),
                empty,
            )
        }
        GrantsCommand::Revoke { id } => {
            backend.delete(&format!("/grants/{}", part(&id))).await?;
            context.out.either(&json!({ "revoked": id }), || format!("revoked {id}"))
        }
    }
}

/// Says that no tool requires what was granted. Only a running gateway knows all tools.
async fn note_unused(grant: &CapabilityGrant, backend: &Backend) -> anyhow::Result<()> {
    if !backend.is_running() {
        return Ok(());
    }
    let tools: Vec<ListedTool> = backend.get("/tools").await?;
    let mut required = tools.iter().flat_map(|tool| &tool.requires);
    if !required.any(|required| grant.capability.covers(required)) {
        notice!(
            "drawgate: no tool requires `{}` now; `drawgate tools list` shows what each requires",
            grant.capability
        );
    }
    Ok(())
}

/// The operator's token for a grant with an approval. It approves calls that nobody has seen yet, so it
/// takes what an approval takes.
async fn consent(
    capability: &str,
    scope: &str,
    proof: &Proof,
    context: &Context,
) -> anyhow::Result<Option<String>> {
    let shown = format!("a grant of `{capability}` to {scope}, with an approval behind it");
    proof.of_consent(context, &shown, "let its calls pass without asking a person?").await
}

/// What is in force now, and how it ends.
fn granted(grant: &CapabilityGrant) -> String {
    let (id, capability) = (&grant.grant_id, &grant.capability);
    let whom = match grant.scope.clone() {
        None | Some(GrantScope::Workspace) => "everybody".to_owned(),
        Some(scope @ (GrantScope::User(_) | GrantScope::Session(_))) => scope.into(),
    };
    let end = match grant.expires_at {
        Some(end) => format!("until {}", time(end)),
        None => "until it is revoked".to_owned(),
    };
    format!(
        "granted `{capability}` to {whom} {end}, as {id}\n`drawgate grants revoke {id}` ends it"
    )
}

/// A duration such as `15m`, in milliseconds.
pub(super) fn milliseconds(text: &str) -> anyhow::Result<u64> {
    let wrong = || format!("`{text}` is not a time; write it like `90s`, `15m`, `8h` or `7d`");
    let unit = text.chars().last().with_context(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => anyhow::bail!(wrong()),
    };
    let number: u64 = text.strip_suffix(unit).unwrap_or_default().parse().with_context(wrong)?;
    number.checked_mul(seconds * 1000).with_context(wrong)
}

#[cfg(test)]
mod tests {
    use drawgate_core::model::CapabilityGrant;

    #[test]
    fn grants_for_a_source_are_named_with_what_ends_them() {
        let grant = |id: &str, capability: &str, scope: &str| -> CapabilityGrant {
            let text = format!(
                r#"{{"grantId":"{id}","capability":"{capability}","issuedAt":1,"scope":"{scope}"}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let grants = [
            grant("g1", "source.xx1", "user:ada"),
            grant("g2", "source.xx", "user:ada"),
            grant("g3", "file.read", "workspace"),
            grant("g4", "source.xx1", "workspace"),
        ];
        let lines = super::held("xx1", &grants);
        let [ada, all] = &lines[..] else { panic!("{lines:?}") };
        assert!(ada.starts_with("`user:ada`") && ada.ends_with("grants revoke g1`"), "{ada}");
        assert!(all.starts_with("`workspace`") && all.ends_with("grants revoke g4`"), "{all}");
    }

    #[test]
    fn times() {
        for (text, ms) in [
            ("1s", Some(1000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("7d", Some(604_800_000)),
        ] {
            assert_eq!(super::milliseconds(text).ok(), ms, "{text}");
        }
        for text in ["", "5", "s", "-1s", "1.5h", "99999999999999999999d", "5ss"] {
            assert!(super::milliseconds(text).is_err(), "{text}");
        }
    }
}
