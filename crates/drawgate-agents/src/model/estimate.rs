//! Estimates of tokens, and what tokens cost.
//!
//! Four characters are taken for a token. That is close for English and for code, and what budgets are
//! reserved by; what is spent in the end is what the provider says.

use serde_json::Value;

use super::{
    Api, Arguments, CallResult, Message, Part, Prices, Reply, ToolDefinition, Turn, Usage,
};

const CHARS_PER_TOKEN: u64 = 4;
/// What Anthropic asks for tokens of its cache, as a part of the price of reading without one.
const ANTHROPIC_CACHE_READ: f64 = 0.1;
const ANTHROPIC_CACHE_WRITE: f64 = 1.25;
/// Members that say what a thing is or which one it is, and that providers don't count as text.
const TAGS: [&str; 7] = ["type", "role", "id", "call_id", "tool_use_id", "tool_call_id", "status"];

/// The tokens that a provider will count in a request, about.
#[must_use]
pub fn input_tokens(turn: &Turn) -> u64 {
    let messages: u64 = turn.messages.iter().map(message_chars).sum();
    let tools: u64 = turn.tools.iter().map(tool_chars).sum();
    tokens(chars(&turn.system).saturating_add(messages).saturating_add(tools))
}

/// The tokens in so many characters: at least one.
#[must_use]
pub const fn tokens(chars: u64) -> u64 {
    let tokens = chars.div_ceil(CHARS_PER_TOKEN);
    if tokens == 0 { 1 } else { tokens }
}

impl Prices {
    /// These, with what a provider is known to ask where the operator does not say.
    #[must_use]
    pub fn of_api(self, api: Api) -> Self {
        match api {
            Api::Anthropic => Self {
                cache_read: self.cache_read.or(Some(self.input * ANTHROPIC_CACHE_READ)),
                cache_write: self.cache_write.or(Some(self.input * ANTHROPIC_CACHE_WRITE)),
                ..self
            },
            Api::Openai | Api::OpenaiChat | Api::Gemini => self,
        }
    }

    /// What tokens cost, in US dollars.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> f64 {
        price(usage.input, self.input)
            + price(usage.cache_read, self.cache_read.unwrap_or(self.input))
            + price(usage.cache_write, self.cache_write.unwrap_or(self.input))
            + price(usage.output, self.output)
    }

    /// The most that a request with these tokens can cost, in US dollars, however its input is counted.
    #[must_use]
    pub fn worst_cost(&self, input: u64, output: u64) -> f64 {
        let dearest = [self.cache_read, self.cache_write].into_iter().flatten();
        price(input, dearest.fold(self.input, f64::max)) + price(output, self.output)
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 tokens are more than anyone pays for")]
fn price(tokens: u64, usd_per_million: f64) -> f64 {
    tokens as f64 * usd_per_million / 1_000_000.0
}

fn message_chars(message: &Message) -> u64 {
    match message {
        Message::User(text) => chars(text),
        Message::Model(reply) => reply_chars(reply),
        Message::Results(results) => results.iter().map(result_chars).sum(),
    }
}

/// Opaque parts are counted too, since they are sent.
fn reply_chars(reply: &Reply) -> u64 {
    value_chars(&reply.raw).max(reply.parts.iter().map(part_chars).sum())
}

fn result_chars(result: &CallResult) -> u64 {
    chars(&result.name).saturating_add(chars(&result.text))
}

pub(super) fn part_chars(part: &Part) -> u64 {
    match part {
        Part::Text(text) => chars(text),
        Part::Call(call) => chars(&call.name).saturating_add(match &call.arguments {
            Arguments::Object(arguments) => json_chars(arguments),
            Arguments::Malformed(text) => chars(text),
        }),
    }
}

pub(crate) fn tool_chars(tool: &ToolDefinition) -> u64 {
    chars(&tool.name)
        .saturating_add(chars(&tool.description))
        .saturating_add(json_chars(&tool.schema))
}

/// The characters of all texts in a value, without its tags.
pub(crate) fn value_chars(value: &Value) -> u64 {
    match value {
        Value::String(text) => chars(text),
        Value::Array(items) => items.iter().map(value_chars).sum(),
        Value::Object(members) => {
            let counted = members.iter().filter(|(name, _)| !TAGS.contains(&name.as_str()));
            counted.map(|(name, value)| member_chars(name, value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Arguments of calls count as the JSON that the model wrote.
fn member_chars(name: &str, value: &Value) -> u64 {
    if matches!(name, "input" | "args") && value.is_object() {
        json_chars(value)
    } else {
        value_chars(value)
    }
}

pub(crate) fn json_chars(value: &impl serde::Serialize) -> u64 {
    serde_json::to_string(value).map_or(0, |text| chars(&text))
}

pub(crate) fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(system: &str, messages: Vec<Message>, tools: Vec<ToolDefinition>) -> Turn {
        Turn { system: system.to_owned(), messages, tools, max_output: 100, temperature: None }
    }

    #[test]
    fn everything_that_is_sent_counts() {
        let user = |text: &str| Message::User(text.to_owned());
        let result = CallResult {
            id: "not counted".to_owned(),
            name: "four".to_owned(),
            text: "12345678".to_owned(),
            is_error: false,
        };
        let tool = ToolDefinition {
            name: "tool".to_owned(),
            description: "says".to_owned(),
            schema: json!({"type": "object"}),
        };
        for (turn, expected) in [
            (turn("", vec![], vec![]), 1),
            (turn("1234", vec![user("5678")], vec![]), 2),
            (turn("äöüß", vec![user("x")], vec![]), 2),
            (turn("", vec![Message::Results(vec![result])], vec![]), 3),
            (turn("", vec![], vec![tool]), 7),
        ] {
            assert_eq!(input_tokens(&turn), expected, "{turn:?}");
        }
    }

    #[test]
    fn opaque_parts_count_and_tags_do_not() {
        let raw = json!([
            {"type": "thinking", "thinking": "1234", "signature": "12345678"},
            {"type": "tool_use", "id": "toolu_1", "name": "four", "input": {"a": 1}},
        ]);
        assert_eq!(value_chars(&raw), 4 + 8 + 4 + 7);
    }

    #[test]
    fn costs_are_summed_by_price() {
        let usage =
            Usage { input: 1_000_000, cache_read: 2_000_000, output: 100_000, ..Usage::default() };
        let plain = Prices { input: 3.0, output: 15.0, cache_read: None, cache_write: None };
        assert!((plain.cost(&usage) - 10.5).abs() < 1e-9);
        let cached = Prices { cache_read: Some(0.3), cache_write: Some(3.75), ..plain };
        assert!((cached.cost(&usage) - 5.1).abs() < 1e-9);
        assert!((cached.worst_cost(1_000_000, 100_000) - 5.25).abs() < 1e-9);
        assert!((plain.worst_cost(0, 0)).abs() < 1e-9);
        let known = plain.of_api(Api::Anthropic);
        assert!((known.cost(&usage) - 5.1).abs() < 1e-9);
        assert!((known.worst_cost(1_000_000, 100_000) - 5.25).abs() < 1e-9);
        assert_eq!(cached.of_api(Api::Anthropic), cached);
        assert_eq!(plain.of_api(Api::Openai), plain);
    }
}
