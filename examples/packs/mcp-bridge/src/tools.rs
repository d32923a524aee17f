//! The server's tools as those of a pack.

use anyhow::{Result, bail};
use drawgate_sdk::{Answer, Call, Definition, Pack, Tool, ToolError, tool};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ProgressNotificationParam, ServerResult,
    Tool as McpTool,
};
use rmcp::service::{Peer, PeerRequestOptions, RoleClient, ServiceError};
use serde_json::Value;

use crate::news::News;
use crate::options::Options;
use crate::upstream::Upstream;

/// The pack for what the server offers now.
pub(crate) fn pack(options: &Options, upstream: &Upstream, tools: Vec<McpTool>) -> Pack {
    let mut pack = Pack::new(&options.pack_id, upstream.version());
    for tool in tools {
        let definition = definition(options, &tool);
        pack = pack.tool(BridgedTool {
            definition,
            name: tool.name.into_owned(),
            peer: upstream.peer.clone(),
            news: upstream.news.clone(),
        });
    }
    pack
}

/// Refuses capabilities for tools that do not exist: a slip there would leave a tool open.
pub(crate) fn check_names(options: &Options, tools: &[McpTool]) -> Result<()> {
    let unknown: Vec<_> = options
        .tool_capabilities()
        .into_keys()
        .filter(|name| !tools.iter().any(|tool| tool.name == *name))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let known: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    bail!(
        "`--tool-capability` names what the server does not have: `{}`; it has: `{}`",
        unknown.join("`, `"),
        known.join("`, `")
    )
}

fn definition(options: &Options, mcp: &McpTool) -> Definition {
    let description = mcp.description.clone().unwrap_or_default();
    let mut definition = tool(format!("{}{}", options.prefix, mcp.name), description)
        .input_schema(Value::Object((*mcp.input_schema).clone()));
    if let Some(title) = &mcp.title {
        definition = definition.title(title);
    }
    if let Some(schema) = &mcp.output_schema {
        definition = definition.output_schema(Value::Object((**schema).clone()));
    }
    if let Some(limit) = options.timeout() {
        definition = definition.timeout(limit);
    }
    if let Ok(Value::Object(annotations)) = serde_json::to_value(&mcp.annotations) {
        for (name, value) in annotations {
            definition = definition.annotation(name, value);
        }
    }
    let default = options.capability.iter().map(String::as_str).collect();
    let own = options.tool_capabilities().remove(mcp.name.as_ref());
    own.unwrap_or(default).into_iter().fold(definition, Definition::capability)
}

struct BridgedTool {
    definition: Definition,
    /// The server's own name for it.
    name: String,
    peer: Peer<RoleClient>,
    news: News,
}

impl Tool for BridgedTool {
    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    async fn call(&self, call: Call) -> Result<Answer, ToolError> {
        let mut params = CallToolRequestParams::new(self.name.clone());
        params.arguments = call.arguments().as_object().cloned();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        let mut handle = sent.await.map_err(|error| told(&error))?;
        let news = self.news.of(handle.progress_token.clone());
        let response = loop {
            tokio::select! {
                response = &mut handle.rx => break response,
                report = news.next() => tell(&call, report).await,
                () = call.cancelled() => {
                    handle.cancel(Some("cancelled by the caller".to_owned())).await?;
                    return Err(ToolError::new("cancelled"));
                }
            }
        };
        // What came before the result is told before it.
        while let Some(report) = news.take() {
            tell(&call, report).await;
        }
        answer(response.unwrap_or(Err(ServiceError::TransportClosed)))
    }
}

async fn tell(call: &Call, report: ProgressNotificationParam) {
    let message = report.message.unwrap_or_default();
    call.progress(report.progress, report.total, &message).await;
}

fn answer(response: Result<ServerResult, ServiceError>) -> Result<Answer, ToolError> {
    match response.map_err(|error| told(&error))? {
        ServerResult::CallToolResult(result) => Ok(Answer::mcp(&serde_json::to_value(result)?)),
        ServerResult::InputRequiredResult(_) => Err(ToolError::new(
            "the tool asks for more input, which cannot be given through this pack",
        )),
        _ => Err(ToolError::new("the MCP server answered with something else than a result")),
    }
}

/// What the server itself said, word for word; else what happened.
fn told(error: &ServiceError) -> ToolError {
    match error {
        ServiceError::McpError(error) => ToolError::new(error.message.clone()),
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
            ToolError::new("the MCP server behind this pack is gone; try again")
        }
        _ => ToolError::new(error.to_string()),
    }
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
