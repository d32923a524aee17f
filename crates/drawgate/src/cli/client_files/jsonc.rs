//! JSON with comments and trailing commas. Edits change the text in place, so that comments, order and
//! layout survive.

use anyhow::anyhow;
use drawgate_core::json;
use jsonc_parser::common::Ranged as _;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use jsonc_parser::errors::ParseError;
use jsonc_parser::tokens::Token;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};
use serde_json::{Map, Value};

/// Comments and trailing commas are the only liberties that are taken with JSON: clients read them, too.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Whether a text has nothing but blanks and comments.
pub(in super::super) fn is_blank(text: &str) -> bool {
    parse_to_ast(text, &CollectOptions::default(), &OPTIONS).is_ok_and(|it| it.value.is_none())
}

/// Reads a text by the rules of the gate's own parser: no key twice, and nothing nested too deep. A text
/// without a value is an empty object.
pub(in super::super) fn parse(text: &str) -> anyhow::Result<Value> {
    let collect = CollectOptions { comments: CommentCollectionStrategy::Off, tokens: true };
    let parsed = parse_to_ast(text, &collect, &OPTIONS).map_err(|error| malformed(&error))?;
    if parsed.value.is_none() {
        return Ok(Value::Object(Map::new()));
    }
    let mut tokens = parsed.tokens.unwrap_or_default().into_iter().peekable();
    let mut plain = String::with_capacity(text.len());
    while let Some(token) = tokens.next() {
        let closes = |token: &Token<'_>| matches!(token, Token::CloseBrace | Token::CloseBracket);
        let is_last = tokens.peek().is_some_and(|next| closes(&next.token));
        if token.token == Token::Comma && is_last {
            continue;
        }
        plain.push_str(text.get(token.range().start..token.range().end).unwrap_or_default());
    }
    json::parse(plain.as_bytes()).map_err(|error| {
        // Places in it are those of the text without its blanks.
        let message = error.to_string();
        anyhow!("{}", message.split(" at line ").next().unwrap_or_default())
    })
}

/// A text that [`parse`] accepts, to be edited.
pub(in super::super) fn document(text: &str) -> anyhow::Result<CstRootNode> {
    CstRootNode::parse(text, &OPTIONS).map_err(|error| malformed(&error))
}

/// Removes members, each given by the keys that lead to it.
pub(super) fn remove(text: &str, members: &[Vec<&str>]) -> anyhow::Result<String> {
    parse(text)?;
    let document = document(text)?;
    for member in members {
        let Some((name, section)) = member.split_last() else { continue };
        let root = document.object_value();
        let object = section
            .iter()
            .fold(root, |object, key| object.and_then(|object| object.object_value(key)));
        if let Some(member) = object.and_then(|object| object.get(name)) {
            member.remove();
        }
    }
    Ok(document.to_string())
}

/// A value as the editor takes it.
pub(in super::super) fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(is_true) => CstInputValue::Bool(*is_true),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(values) => CstInputValue::Array(values.iter().map(input).collect()),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), input(value)));
            CstInputValue::Object(members.collect())
        }
    }
}

fn malformed(error: &ParseError) -> anyhow::Error {
    let (line, column) = (error.line_display(), error.column_display());
    let message = error.kind().to_string().to_lowercase();
    anyhow!("line {line}, column {column} is not valid JSON: {message}")
}
