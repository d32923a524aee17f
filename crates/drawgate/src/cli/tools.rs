//! `drawgate tools`: what can be called, and calling it.

mod arguments;
mod held;
mod next;
mod types;

use std::io::Read;
use std::process::ExitCode;

use crate::cli::screen::local_time as time;
use anyhow::{Context as _, bail};
use drawgate_core::model::{
    Capability, ErrorCode, GrantId, Narrowing, Principal, ToolError, ToolResult,
};
use drawgate_core::registry::{SourceState, SourceStatus};
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{ListedTool, NewCall, ServerReport, ToolAccess};
use drawgate_runtime::toolpack_sources::NOT_ENABLED;
use serde_json::{Map, Value};

use self::arguments::Typed;

use super::Context;
use super::backend::{Backend, WaitsFor, part};
use super::exit::OrUsage as _;
use crate::cli::table::{cut, spare, whole};
use crate::surface::control::NameList;

/// The providers whose forms are known.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum ProviderName {
    Anthropic,
    Openai,
    Gemini,
}

#[derive(Debug, clap::Subcommand)]
pub(super) enum ToolsCommand {
    /// List the tools
    List {
        /// As this agent sees them: in its list, by searching, or over gRPC with its SSH key
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// As JSON in the form that a model provider's API takes
        #[arg(long, value_name = "PROVIDER")]
        provider: Option<ProviderName>,
    },
    /// Show one tool in full
    Show {
        /// Its name or id
        name: String,
    },
    /// Call a tool: `drawgate tools call vfs_write path=a.txt content=hello`
    Call {
        /// Its name or id
        name: String,
        /// Arguments as `name=value`, read by the type that the tool declares (`count=7` is a number
        /// where it wants one), or as `name:=JSON`, taken as it is
        arguments: Vec<String>,
        /// All arguments as one JSON object; `-` reads it from standard input
        #[arg(long, value_name = "JSON", conflicts_with = "arguments")]
        input: Option<String>,
        #[command(flatten)]
        narrowing: NarrowingOptions,
        /// As this agent
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
}

/// How a call is narrowed.
#[derive(Debug, clap::Args)]
pub(super) struct NarrowingOptions {
    /// Use this grant and no other; may be given several times [default: all that the caller holds]
    #[arg(long, value_name = "ID")]
    grant: Vec<String>,
    /// Redact the value under this key wherever the call is recorded; may be given several times
    #[arg(long, value_name = "KEY")]
    redact: Vec<String>,
    /// The run that the call belongs to, for the audit log
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Wait at most this long, in milliseconds
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
}

impl From<NarrowingOptions> for Narrowing {
    fn from(options: NarrowingOptions) -> Self {
        let named: Vec<GrantId> = options.grant.into_iter().map(Into::into).collect();
        Self {
            grant_ids: (!named.is_empty()).then_some(named),
            redact_keys: options.redact,
            run_id: options.run,
            timeout_ms: options.timeout,
        }
    }
}

pub(super) async fn run(command: ToolsCommand, context: Context) -> anyhow::Result<ExitCode> {
    let backend = match &command {
        ToolsCommand::Call { name, .. } => Backend::open_for_call(&context, name).await?,
        ToolsCommand::List { .. } | ToolsCommand::Show { .. } => {
            Backend::open_and_wait(&context, Start::Sources, WaitsFor::Unlisted).await?
        }
    };
    let done = perform(command, &context, &backend).await;
    backend.close().await;
    done
}

async fn perform(
    command: ToolsCommand,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<ExitCode> {
    match command {
        ToolsCommand::List { agent, provider } => list(agent, provider, context, backend).await?,
        ToolsCommand::Show { name } => {
            let Some(tool) = find(backend, &name, None).await? else {
                let near = backend.similar(NameList::Tools, &name).await;
                let near = near.unwrap_or_else(|| "`drawgate tools list` shows them".to_owned());
                bail!("unknown tool `{name}`; {near}")
            };
            context.out.json(&tool)?;
        }
        ToolsCommand::Call { name, arguments, input, narrowing, agent } => {
            let arguments = match input {
                Some(input) => arguments::read_object(&input_text(input)?).or_usage()?,
                None => read_arguments(backend, &name, agent.as_deref(), &arguments).await?,
            };
            let call = NewCall {
                tool: name,
                arguments,
                narrowing: narrowing.into(),
                agent: agent.as_deref().map(Principal::new).transpose()?,
            };
            let result = held::call(backend, &call).await?;
            let step = match &result.error {
                Some(error) => step(backend, &call, error).await,
                None => None,
            };
            return show_result(context, &result, step.as_deref());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the tools: as a table, or in the form of a provider.
async fn list(
    agent: Option<String>,
    provider: Option<ProviderName>,
    context: &Context,
    backend: &Backend,
) -> anyhow::Result<()> {
    let mut query = on_behalf(agent.as_deref());
    if let Some(provider) = provider {
        query.push_str(match provider {
            ProviderName::Anthropic => "&provider=anthropic",
            ProviderName::Openai => "&provider=openai",
            ProviderName::Gemini => "&provider=gemini",
        });
        let tools: Value = backend.get(&format!("/tools{query}")).await?;
        context.out.json(&tools)?;
        return Ok(());
    }
    let tools: Vec<ListedTool> = backend.get(&format!("/tools{query}")).await?;
    let rows = tools.iter().map(row);
    let access = if agent.is_none() { "callers" } else { "seen" };
    let columns = [whole("name"), spare("source"), spare("since"), cut(access), cut("description")];
    let empty = next::no_tools(agent.as_deref());
    context.out.table(&tools, &columns, &rows.collect::<Vec<_>>(), &empty)?;
    if let Some(agent) = agent
        && tools.iter().any(|tool| tool.access == Some(ToolAccess::Search))
    {
        notice!(
            "drawgate: `{agent}` is shown `search_tools` and `call_tool`, by which it finds and calls what is seen by search"
        );
    }
    note_not_started(backend).await
}

/// Says which servers have no tools here: those that have failed, and toolpacks that are not enabled.
async fn note_not_started(backend: &Backend) -> anyhow::Result<()> {
    let servers: Vec<ServerReport> = backend.get("/servers").await?;
    let statuses: Vec<SourceStatus> =
        servers.into_iter().map(|server| server.source.status).collect();
    let failed = statuses.iter().filter(|status| status.state == SourceState::Failed);
    let failed: Vec<&str> = failed.map(|status| status.id.as_str()).collect();
    if !failed.is_empty() {
        let names = failed.join("`, `");
        notice!("drawgate: `{names}` failed to start; `drawgate servers doctor` says why");
    }
    let refused = statuses.into_iter().filter(|status| status.state == SourceState::Refused);
    for status in refused {
        let (id, problem) = (status.id, status.problem.unwrap_or_default());
        if problem.starts_with(NOT_ENABLED) {
            notice!("drawgate: `{id}` is {problem} with `drawgate toolpacks enable {id}`");
        }
    }
    Ok(())
}

fn row(tool: &ListedTool) -> Vec<String> {
    let description = tool.tool["description"].as_str().unwrap_or_default();
    let first = description.lines().next().unwrap_or_default();
    let since = tool.served_by.as_ref().map(|source| time(source.since)).unwrap_or_default();
    let seen = match tool.access {
        None => callers(&tool.requires),
        Some(ToolAccess::Listed) => "in its list".to_owned(),
        Some(ToolAccess::Search) => "by search".to_owned(),
        Some(ToolAccess::Key) => "over gRPC, with its key".to_owned(),
    };
    vec![tool.wire_name.to_string(), served_by(tool), since, seen, first.to_owned()]
}

/// Who may call what requires these capabilities, in words.
pub(super) fn callers(requires: &[Capability]) -> String {
    let all: Vec<&str> = requires.iter().map(Capability::as_str).collect();
    let is_of_source = all.iter().any(|capability| capability.starts_with("source."));
    match all.as_slice() {
        [] => "everyone".to_owned(),
        all if is_of_source => format!("local user; others with {}", all.join(", ")),
        all => format!("with {}", all.join(", ")),
    }
}

/// Who serves a tool; a pack in its grace period still lists its own.
fn served_by(tool: &ListedTool) -> String {
    let source = &tool.server_id;
    let state = tool.served_by.as_ref().map(|source| source.state);
    if state == Some(SourceState::Away) { format!("{source} (away)") } else { source.to_string() }
}

fn on_behalf(agent: Option<&str>) -> String {
    agent.map_or("?".to_owned(), |name| format!("?agent={}", part(name)))
}

/// A tool by its name or id, if the agent may call it.
async fn find(
    backend: &Backend,
    name: &str,
    agent: Option<&str>,
) -> anyhow::Result<Option<ListedTool>> {
    let tools: Vec<ListedTool> = backend.get(&format!("/tools{}", on_behalf(agent))).await?;
    let exact = tools.iter().find(|tool| tool.wire_name.as_str() == name || tool.tool_id == name);
    // Of several with the same name, the gateway says which there are.
    let mut bare = tools.iter().filter(|tool| tool.tool["name"] == name);
    let only = bare.next().filter(|_| bare.next().is_none());
    Ok(exact.or(only).cloned())
}

async fn read_arguments(
    backend: &Backend,
    tool: &str,
    agent: Option<&str>,
    pairs: &[String],
) -> anyhow::Result<Map<String, Value>> {
    let typed = pairs.iter().map(|pair| Typed::parse(pair)).collect::<Result<Vec<_>, _>>();
    let typed = typed.or_usage()?;
    // Of a tool that is not listed, the gateway says why it can't be called.
    let found = if typed.iter().any(Typed::needs_schema) {
        find(backend, tool, agent).await?
    } else {
        None
    };
    let schema = found.map(|mut found| found.tool["inputSchema"].take()).unwrap_or_default();
    arguments::read(typed, &schema).or_usage()
}

fn input_text(input: String) -> anyhow::Result<String> {
    if input != "-" {
        return Ok(input);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("standard input can't be read")?;
    Ok(text)
}

/// What to do about a refusal: the name that was meant, or what the gateway's own words don't say.
async fn step(backend: &Backend, call: &NewCall, error: &ToolError) -> Option<String> {
    let near = match error.code {
        // What an agent can't see is not named to who acts as it.
        ErrorCode::ResourceNotFound if call.agent.is_none() => {
            backend.similar(NameList::Tools, &call.tool).await
        }
        _ => None,
    };
    near.or_else(|| next::step(call, error))
}

/// The error of a call, with what to do. What a server wrote may have several lines; only the first begins one.
fn complaint(error: &ToolError, step: Option<&str>) -> String {
    let step = step.map(|step| format!("; {step}")).unwrap_or_default();
    format!("{}: {}{step}", error.code, error.message.lines().collect::<Vec<_>>().join("\n  "))
}

fn show_result(
    context: &Context,
    result: &ToolResult,
    step: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let code = if result.success { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if context.out.is_json() {
        context.out.json(result)?;
        return Ok(code);
    }
    for block in &result.content {
        match (block["type"].as_str(), block["text"].as_str()) {
            (Some("text"), Some(text)) => context.out.text(text)?,
            (Some("resource_link"), _) => {
                context.out.text(&format!("[{}]", block["uri"].as_str().unwrap_or_default()))?;
            }
            _ => context.out.text(&serde_json::to_string(block)?)?,
        }
    }
    if !result.content.is_empty() {
        return Ok(code);
    }
    match (&result.error, &result.structured_content) {
        (Some(error), _) => {
            notice!("drawgate: {}", complaint(error, step));
        }
        (None, Some(structured @ Value::Object(_))) => {
            context.out.text(&serde_json::to_string_pretty(structured)?)?;
        }
        (None, _) => {}
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_of_an_error_begins_a_line() {
        let forged = "no\nfiles: ready\ndrawgate: done\n";
        let error = ToolError::new(ErrorCode::ExecutionFailed, forged);
        let said = complaint(&error, Some("see there"));
        assert_eq!(said, "EXECUTION_FAILED: no\n  files: ready\n  drawgate: done; see there");
    }
}
