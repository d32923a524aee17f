//! The front matter of a Markdown file: cut out, and read as YAML with the line of every value.

use std::fmt::Write as _;

use drawgate_sources::yaml::{self, YamlError, YamlLimits, known_line};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use super::Problem;
use super::findings::{Findings, Lines, Place};

/// The largest front matter that is read; the largest real ones have some kilobytes.
const MAX_FRONT_MATTER: usize = 64 * 1024;
/// What it may hold: a value takes two bytes at least, and result schemas nest the deepest.
const LIMITS: YamlLimits = YamlLimits { depth: 48, nodes: 8_192, aliases: 64, replayed: 4_096 };

/// A file in its two parts.
pub(super) struct Document<'a> {
    /// The front matter.
    pub(super) fields: Map<String, Value>,
    /// What is known about the front matter so far: the lines of its values.
    pub(super) findings: Findings,
    /// The text below the front matter.
    pub(super) body: &'a str,
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Document<'_>, Problem> {
    let (front, body) = split(text)?;
    if front.len() > MAX_FRONT_MATTER {
        let kib = MAX_FRONT_MATTER / 1024;
        return Err(whole(format!("the front matter is larger than {kib} KiB; shorten it")));
    }
    let (root, quoted) = match yaml(front) {
        Ok(root) => (root, Vec::new()),
        Err(problem) => with_quotes(front).ok_or(problem)?,
    };
    let mut lines = Lines::default();
    let value = root.into_value(&Place::default(), &mut lines);
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(whole("the front matter must consist of `field: value` lines".to_owned()));
        }
    };
    let mut findings = Findings::new(lines);
    for key in quoted {
        let message = "not valid YAML without quotes; read as if the whole value were quoted";
        findings.warning(&Place::default().key(&key), message);
    }
    Ok(Document { fields, findings, body })
}

/// The front matter, from the end of its first fence so that lines count as in the file, and the body.
fn split(text: &str) -> Result<(&str, &str), Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rest = text.split_inclusive('\n');
    if rest.next().is_none_or(|line| !is_fence(line)) {
        let advice = "the file has no front matter; begin it with a line `---`, fields such as \
                      `description: …`, and another line `---`";
        return Err(Problem { line: Some(1), ..whole(advice.to_owned()) });
    }
    let (_, inner) = text.split_at_checked(text.find('\n').unwrap_or_default()).unwrap_or_default();
    let mut length = '\n'.len_utf8();
    for line in rest {
        if is_fence(line) {
            let (front, below) = inner.split_at_checked(length).unwrap_or_default();
            return Ok((front, below.split_once('\n').unwrap_or_default().1));
        }
        length = length.saturating_add(line.len());
    }
    Err(whole("the front matter has no end; add a line `---` below its last field".to_owned()))
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

fn whole(message: String) -> Problem {
    Problem { field: String::new(), tool: None, line: None, message }
}

/// Reads front matter that other programs accept although it is not YAML: a text on one line that has
/// `: ` or ` #` in it and no quotes. Returns the keys of such texts.
fn with_quotes(front: &str) -> Option<(Node, Vec<String>)> {
    let mut keys = Vec::new();
    let mut all = String::with_capacity(front.len());
    for line in front.split_inclusive('\n') {
        match loose_text(line) {
            Some((key, text)) => {
                keys.push(key.to_owned());
                let _ = writeln!(all, "{key}: '{}'", text.replace('\'', "''"));
            }
            None => all.push_str(line),
        }
    }
    if keys.is_empty() {
        return None;
    }
    Some((yaml(&all).ok()?, keys))
}

/// The key and the text of a line whose text needs quotes.
fn loose_text(line: &str) -> Option<(&str, &str)> {
    let (key, text) = line.split_once(": ")?;
    let text = text.trim();
    let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_plain = !text.starts_with(['"', '\'', '[', '{', '|', '>', '&', '*', '!', '%', '@', '`']);
    let needs_quotes = text.contains(": ") || text.contains(" #") || text.ends_with(':');
    (!key.is_empty() && key.chars().all(is_key) && is_plain && needs_quotes).then_some((key, text))
}

fn yaml(text: &str) -> Result<Node, Problem> {
    if text.trim().is_empty() {
        return Ok(Node { line: None, content: Content::Scalar(Value::Null) });
    }
    let root = yaml::parse::<Spanned<Content>>(text.as_bytes(), LIMITS);
    root.map(Node::from).map_err(|YamlError { line, message }| Problem {
        line,
        ..whole(format!("the front matter is not valid YAML: {message}"))
    })
}

/// A value and its line.
struct Node {
    line: Option<u32>,
    content: Content,
}

enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl From<Spanned<Content>> for Node {
    fn from(spanned: Spanned<Content>) -> Self {
        Self { line: known_line(spanned.referenced.line()), content: spanned.value }
    }
}

impl Node {
    /// The value alone; lines are noted by their fields.
    fn into_value(self, place: &Place, lines: &mut Lines) -> Value {
        if let Some(line) = self.line {
            lines.insert(place, line);
        }
        match self.content {
            Content::Scalar(value) => value,
            Content::List(items) => {
                let items = items.into_iter().enumerate();
                items.map(|(index, item)| item.into_value(&place.index(index), lines)).collect()
            }
            Content::Map(members) => {
                let members = members.into_iter();
                members
                    .map(|(key, value)| {
                        let value = value.into_value(&place.key(&key), lines);
                        (key, value)
                    })
                    .collect()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Content, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a finite number"))?;
        Ok(Content::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Content>>()? {
            all.push(item.into());
        }
        Ok(Content::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Content, A::Error> {
        let mut all = Vec::new();
        while let Some((key, value)) = members.next_entry::<Spanned<String>, Spanned<Content>>()? {
            let value = Node::from(value);
            let line = known_line(key.referenced.line()).or(value.line);
            all.push((key.value, Node { line, ..value }));
        }
        Ok(Content::Map(all))
    }
}
