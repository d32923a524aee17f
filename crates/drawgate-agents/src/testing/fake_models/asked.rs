//! A request in the form that all four APIs have in common.

use serde_json::Value;

use super::rules::Rule;
use crate::model::Api;
use crate::model::estimate::{chars, json_chars, tokens, value_chars};

/// Whether the answer is a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Stream,
    Whole,
}

/// What a request asks.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) api: Api,
    pub(super) form: Form,
    pub(super) model: String,
    pub(super) max_output: u64,
    /// Tokens, by the estimate that budgets are reserved by.
    pub(super) input: u64,
    /// How many replies of the model there are.
    pub(super) turn: usize,
    results: usize,
    system: String,
    tools: Vec<String>,
    /// Groups of tools in the Responses API; a tool of one is known here as `GROUP__TOOL`.
    pub(super) groups: Vec<String>,
    last_text: String,
}

/// Who a piece of a conversation is from.
#[derive(PartialEq, Eq)]
enum Piece {
    User(String),
    Model,
    Result,
}

impl Asked {
    pub(super) fn read(path: &str, body: &Value) -> Option<Self> {
        let api = api_of(path)?;
        let (system, messages, tools, max_output) = match api {
            Api::Anthropic => ("system", "messages", "tools", "/max_tokens"),
            Api::Openai => ("instructions", "input", "tools", "/max_output_tokens"),
            Api::OpenaiChat => ("", "messages", "tools", "/max_tokens"),
            Api::Gemini => {
                ("systemInstruction", "contents", "tools", "/generationConfig/maxOutputTokens")
            }
        };
        let messages = &body[messages];
        let said = pieces(api, messages);
        let starts = said.iter().enumerate().filter(|&(at, piece)| {
            let before = at.checked_sub(1).and_then(|before| said.get(before));
            *piece == Piece::Model && before.is_none_or(|before| *before != Piece::Model)
        });
        let system = match api {
            Api::OpenaiChat => system_of(messages),
            Api::Openai => format!("{}{}", texts(&body[system]), system_of(messages)),
            Api::Anthropic | Api::Gemini => texts(&body[system]),
        };
        let tools = tools_of(api, &body[tools]);
        let of_tools: u64 = tools.iter().map(|(_, chars)| chars).sum();
        // In Chat Completions the system prompt is one of the messages.
        let of_system = if api == Api::OpenaiChat { 0 } else { chars(&system) };
        Some(Self {
            api,
            form: form_of(api, path, body),
            model: model_of(api, path, body),
            max_output: body.pointer(max_output).and_then(Value::as_u64).unwrap_or(u64::MAX),
            input: tokens(of_system.saturating_add(value_chars(messages)).saturating_add(of_tools)),
            turn: starts.count(),
            results: said.iter().filter(|piece| **piece == Piece::Result).count(),
            system,
            groups: groups(&body["tools"]).map(|group| texts(&group["name"])).collect(),
            tools: tools.into_iter().map(|(name, _)| name).collect(),
            last_text: said.into_iter().rev().find_map(user_text).unwrap_or_default(),
        })
    }

    /// Whether a rule is about this request.
    pub(super) fn fits(&self, rule: &Rule) -> bool {
        let when = &rule.when;
        rule.provider.is_none_or(|api| api == self.api)
            && when.turn.is_none_or(|turn| turn == self.turn)
            && when.results.is_none_or(|results| results == self.results)
            && when.has_tool.as_ref().is_none_or(|tool| self.tools.contains(tool))
            && when.contains.as_ref().is_none_or(|text| self.last_text.contains(text))
            && when.system.as_ref().is_none_or(|text| self.system.contains(text))
            && when.model.as_ref().is_none_or(|model| *model == self.model)
    }
}

fn api_of(path: &str) -> Option<Api> {
    let ends = [
        ("/messages", Api::Anthropic),
        ("/responses", Api::Openai),
        ("/chat/completions", Api::OpenaiChat),
        (":streamGenerateContent", Api::Gemini),
        (":generateContent", Api::Gemini),
    ];
    ends.into_iter().find_map(|(end, api)| path.ends_with(end).then_some(api))
}

fn form_of(api: Api, path: &str, body: &Value) -> Form {
    let is_stream = match api {
        Api::Gemini => path.ends_with(":streamGenerateContent"),
        Api::Anthropic | Api::Openai | Api::OpenaiChat => body["stream"] == true,
    };
    if is_stream { Form::Stream } else { Form::Whole }
}

fn model_of(api: Api, path: &str, body: &Value) -> String {
    let name = match api {
        Api::Gemini => path.rsplit('/').next().and_then(|last| last.split(':').next()),
        Api::Anthropic | Api::Openai | Api::OpenaiChat => body["model"].as_str(),
    };
    name.unwrap_or_default().to_owned()
}

fn user_text(piece: Piece) -> Option<String> {
    match piece {
        Piece::User(text) => Some(text),
        Piece::Model | Piece::Result => None,
    }
}

fn pieces(api: Api, messages: &Value) -> Vec<Piece> {
    // The Responses API takes a plain text for a list of one.
    if let Value::String(text) = messages {
        return vec![Piece::User(text.clone())];
    }
    let each = messages.as_array().into_iter().flatten();
    each.flat_map(|message| match api {
        Api::Anthropic => blocks(message, "content", "tool_result"),
        Api::Gemini => blocks(message, "parts", "functionResponse"),
        Api::Openai | Api::OpenaiChat => vec![item(message)].into_iter().flatten().collect(),
    })
    .collect()
}

/// A message whose content is a list of blocks.
fn blocks(message: &Value, content: &str, result: &str) -> Vec<Piece> {
    if message["role"] != "user" {
        return vec![Piece::Model];
    }
    let is_result = |block: &Value| block["type"] == result || block.get(result).is_some();
    match &message[content] {
        Value::Array(blocks) => blocks
            .iter()
            .map(|block| if is_result(block) { Piece::Result } else { Piece::User(texts(block)) })
            .collect(),
        other => vec![Piece::User(texts(other))],
    }
}

/// A message or item that is one thing.
fn item(message: &Value) -> Option<Piece> {
    match (message["role"].as_str(), message["type"].as_str()) {
        (Some("tool"), _) | (_, Some("function_call_output")) => Some(Piece::Result),
        (Some("user"), _) => Some(Piece::User(texts(&message["content"]))),
        (Some("system" | "developer"), _) => None,
        (_, _) => Some(Piece::Model),
    }
}

fn system_of(messages: &Value) -> String {
    let all = messages.as_array().into_iter().flatten();
    let is_system = |message: &&Value| ["system", "developer"].contains(&&*texts(&message["role"]));
    all.filter(is_system).map(|one| texts(&one["content"])).collect()
}

/// All text in a piece of content.
fn texts(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(texts).collect::<Vec<_>>().join("\n"),
        Value::Object(members) => {
            let inner = members.get("text").or_else(|| members.get("parts"));
            inner.map(texts).unwrap_or_default()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The groups among the tools of a request.
fn groups(tools: &Value) -> impl Iterator<Item = &Value> {
    tools.as_array().into_iter().flatten().filter(|tool| tool["type"] == "namespace")
}

/// A tool, or all tools of a group by their full names.
fn flat(tool: &Value) -> Vec<Value> {
    if tool["type"] != "namespace" {
        return vec![tool.clone()];
    }
    let group = texts(&tool["name"]);
    let inner = tool["tools"].as_array().into_iter().flatten().cloned();
    let named = inner.map(|mut tool| {
        tool["name"] = format!("{group}__{}", texts(&tool["name"])).into();
        tool
    });
    named.collect()
}

/// The names of tools, with the characters of their definitions.
fn tools_of(api: Api, tools: &Value) -> Vec<(String, u64)> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let tools = list(tools);
    let definitions: Vec<_> = match api {
        Api::Gemini => tools.iter().flat_map(|tool| list(&tool["functionDeclarations"])).collect(),
        Api::OpenaiChat => tools.iter().map(|tool| tool["function"].clone()).collect(),
        Api::Openai => tools.iter().flat_map(flat).collect(),
        Api::Anthropic => tools,
    };
    let schemas = ["input_schema", "parameters", "parametersJsonSchema"];
    let each = definitions.iter().map(|tool| {
        let (name, description) = (texts(&tool["name"]), texts(&tool["description"]));
        let schema: u64 = schemas.iter().filter_map(|key| tool.get(key)).map(json_chars).sum();
        let all = chars(&name).saturating_add(chars(&description)).saturating_add(schema);
        (name, all)
    });
    each.collect()
}
