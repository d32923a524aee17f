//! What of a program's request reaches a provider: that which asks a model for a reply, and nothing by which
//! the provider would fetch, run, keep or charge something else.
//!
//! A member or a tool that is not listed is left out, so that programs go on working that send one by the way.
//! A part of the conversation that is not listed is refused: without it the model would answer something else.

use serde_json::{Map, Value};

use super::Api;

/// The members of requests, by API. Not among them: servers of tools (`mcp_servers`), containers, conversations and
/// prompts that the provider keeps, other models to fall back to, dearer tiers, more than one reply.
const fn members(api: Api) -> &'static [&'static str] {
    match api {
        Api::Anthropic => &ANTHROPIC,
        Api::Openai => &OPENAI,
        Api::OpenaiChat => &OPENAI_CHAT,
        Api::Gemini => &GEMINI,
    }
}

const ANTHROPIC: [&str; 17] = [
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "metadata",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "stream",
    "thinking",
    "context_management",
    "output_config",
    "output_format",
    "cache_control",
];

const OPENAI: [&str; 20] = [
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "include",
    "temperature",
    "top_p",
    "max_output_tokens",
    "stream",
    "stream_options",
    "truncation",
    "metadata",
    "client_metadata",
    "prompt_cache_key",
    "safety_identifier",
    "user",
];

const OPENAI_CHAT: [&str; 24] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "reasoning_effort",
    "thinking",
    "enable_thinking",
    "response_format",
    "verbosity",
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "max_tokens",
    "max_completion_tokens",
    "stream",
    "stream_options",
    "metadata",
    "prompt_cache_key",
    "user",
];

const GEMINI: [&str; 6] =
    ["contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings"];

/// The members of Gemini's `generationConfig`.
const GENERATION: [&str; 13] = [
    "temperature",
    "topP",
    "topK",
    "maxOutputTokens",
    "stopSequences",
    "seed",
    "presencePenalty",
    "frequencyPenalty",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "thinkingConfig",
    "mediaResolution",
];

/// Betas of Anthropic's API that programs use and that change the form of a conversation alone, without the
/// dates at their ends.
const BETAS: [&str; 19] = [
    "advanced-tool-use",
    "claude-code",
    "claude-code-side-query",
    "context-management",
    "effort",
    "extended-cache-ttl",
    "fine-grained-tool-streaming",
    "inline-tools",
    "interleaved-thinking",
    "mid-conversation-system",
    "mid-conversation-tool-changes",
    "per-turn-control",
    "prompt-caching-scope",
    "redact-thinking",
    "structured-outputs",
    "thinking-display-updates",
    "thinking-token-count",
    "token-efficient-tools",
    "tool-search-tool",
];

/// Leaves out of a request what is not listed. The error names a part of the conversation that is refused.
pub(super) fn narrow(api: Api, body: &mut Map<String, Value>) -> Result<(), String> {
    keep_only(body, members(api));
    narrow_tools(api, body);
    match api {
        Api::Anthropic => {
            each(body.get("system"), true, anthropic_part)?;
            each(body.get("messages"), false, |message| {
                each(message.get("content"), true, anthropic_part)
            })
        }
        Api::Openai => {
            // What is not kept can't be gone back to.
            body.insert("store".to_owned(), false.into());
            each(body.get("input"), true, openai_item)
        }
        Api::OpenaiChat => each(body.get("messages"), false, |message| {
            each(message.get("content"), true, chat_part)
        }),
        Api::Gemini => {
            if let Some(Value::Object(config)) = body.get_mut("generationConfig") {
                keep_only(config, &GENERATION);
            }
            let parts = |content: &Value| each(content.get("parts"), false, gemini_part);
            body.get("systemInstruction").map_or(Ok(()), parts)?;
            each(body.get("contents"), false, parts)
        }
    }
}

/// The betas of a header that are passed on; nothing if there are none.
pub(super) fn betas(header: &str) -> Option<String> {
    let is_passed = |beta: &&str| {
        let stem = beta.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        BETAS.contains(&stem)
    };
    let passed: Vec<&str> = header.split(',').map(str::trim).filter(is_passed).collect();
    (!passed.is_empty()).then(|| passed.join(","))
}

fn keep_only(members: &mut Map<String, Value>, listed: &[&str]) {
    members.retain(|name, _| {
        let is_listed = listed.contains(&name.as_str());
        if !is_listed {
            tracing::debug!(member = name.escape_debug().to_string(), "a member is not relayed");
        }
        is_listed
    });
}

/// Leaves the tools that the program carries out itself.
fn narrow_tools(api: Api, body: &mut Map<String, Value>) {
    let Some(tools) = body.get_mut("tools") else { return };
    match tools {
        Value::Array(tools) => tools.retain_mut(|tool| is_own(api, tool)),
        _ => *tools = Value::Array(Vec::new()),
    }
    if tools.as_array().is_some_and(Vec::is_empty) {
        // A choice without tools is an error.
        for name in ["tools", "tool_choice", "toolConfig"] {
            body.shift_remove(name);
        }
    }
}

/// Whether a program carries a tool out itself. What holds several is narrowed to such tools.
fn is_own(api: Api, tool: &mut Value) -> bool {
    let kind = tool.get("type").and_then(Value::as_str).map(str::to_owned);
    match (api, kind.as_deref()) {
        (Api::Gemini, _) => {
            if let Value::Object(members) = tool {
                keep_only(members, &["functionDeclarations"]);
            }
            tool.get("functionDeclarations").is_some()
        }
        (Api::Anthropic, kind) => matches!(kind, None | Some("custom")) && tool.is_object(),
        (Api::Openai | Api::OpenaiChat, Some("function" | "custom"))
        | (Api::Openai, Some("local_shell" | "apply_patch")) => true,
        (Api::Openai, Some("tool_search")) => tool.get("execution") == Some(&"client".into()),
        (Api::Openai, Some("namespace")) => match tool.get_mut("tools") {
            Some(Value::Array(tools)) => {
                tools.retain_mut(|tool| is_own(api, tool));
                !tools.is_empty()
            }
            _ => false,
        },
        (Api::Openai | Api::OpenaiChat, _) => false,
    }
}

/// Checks each item of a list, which may be absent, and a text where that is another way to write it.
fn each(
    list: Option<&Value>,
    may_be_text: bool,
    check: impl Fn(&Value) -> Result<(), String>,
) -> Result<(), String> {
    match list {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(_)) if may_be_text => Ok(()),
        Some(Value::Array(items)) => items.iter().try_for_each(check),
        Some(_) => Err("a list that is none".to_owned()),
    }
}

fn kind(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn unlisted(part: &Value) -> String {
    format!("a part of the kind `{}`", kind(part).escape_debug())
}

fn anthropic_part(part: &Value) -> Result<(), String> {
    match kind(part) {
        "text" | "tool_use" | "thinking" | "redacted_thinking" | "compaction" | "search_result"
        | "tool_reference" | "tool_removal" => Ok(()),
        "tool_addition" => {
            let mut definition = part.pointer("/tool/definition").cloned();
            let is_own = definition.as_mut().is_none_or(|tool| is_own(Api::Anthropic, tool));
            if is_own { Ok(()) } else { Err("a tool that the provider carries out".to_owned()) }
        }
        "tool_result" => each(part.get("content"), true, anthropic_part),
        "image" | "document" => {
            let source = part.get("source").unwrap_or(&Value::Null);
            match kind(source) {
                "base64" | "text" => Ok(()),
                "content" => each(source.get("content"), true, anthropic_part),
                _ => Err(remote()),
            }
        }
        _ => Err(unlisted(part)),
    }
}

fn openai_item(item: &Value) -> Result<(), String> {
    // Some items bring further tools.
    each(item.get("tools"), false, |tool| {
        let mut narrowed = tool.clone();
        if is_own(Api::Openai, &mut narrowed) && narrowed == *tool {
            return Ok(());
        }
        Err("a tool that the provider carries out".to_owned())
    })?;
    match kind(item) {
        "" | "message" | "agent_message" => each(item.get("content"), true, openai_part),
        "function_call_output" | "custom_tool_call_output" => {
            each(item.get("output"), true, openai_part)
        }
        "function_call"
        | "custom_tool_call"
        | "reasoning"
        | "local_shell_call"
        | "local_shell_call_output"
        | "apply_patch_call"
        | "apply_patch_call_output"
        | "tool_search_call"
        | "tool_search_output"
        | "compaction"
        | "context_compaction"
        | "compaction_trigger"
        | "configuration_update" => Ok(()),
        _ => Err(unlisted(item)),
    }
}

fn openai_part(part: &Value) -> Result<(), String> {
    match kind(part) {
        "input_text" | "output_text" | "text" | "summary_text" | "refusal" | "input_audio"
        | "encrypted_content" => Ok(()),
        "input_image" => here(part.get("image_url"), part),
        "input_file" => here(part.get("file_data"), part),
        _ => Err(unlisted(part)),
    }
}

fn chat_part(part: &Value) -> Result<(), String> {
    match kind(part) {
        "text" | "refusal" | "input_audio" | "thinking" => Ok(()),
        "image_url" => here(part.pointer("/image_url/url"), part),
        "file" => {
            let file = part.get("file").unwrap_or(&Value::Null);
            here(file.get("file_data"), file)
        }
        _ => Err(unlisted(part)),
    }
}

fn gemini_part(part: &Value) -> Result<(), String> {
    let Value::Object(members) = part else { return Err(unlisted(part)) };
    for (name, value) in members {
        match name.as_str() {
            "text" | "thought" | "thoughtSignature" | "inlineData" | "functionCall"
            | "mediaResolution" | "videoMetadata" => {}
            "functionResponse" => each(value.get("parts"), false, gemini_part)?,
            _ => return Err(format!("a part with `{}`", name.escape_debug())),
        }
    }
    Ok(())
}

/// Whether a file is in the request itself: its bytes, and neither its address nor its id at the provider.
fn here(data: Option<&Value>, holder: &Value) -> Result<(), String> {
    let is_here = data.and_then(Value::as_str).is_some_and(|data| data.starts_with("data:"));
    let is_kept = ["file_id", "file_url"].iter().any(|name| holder.get(*name).is_some());
    if is_here && !is_kept { Ok(()) } else { Err(remote()) }
}

fn remote() -> String {
    "an image or a file that the provider would fetch".to_owned()
}

#[cfg(test)]
#[path = "allowed_tests.rs"]
mod tests;
