//! TOML text as a JSON value, with the place of every key beside it.
//!
//! Keys are named by their path: `servers.everything.args[0]`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::problem::{Location, Problem};

/// A parsed file.
pub(super) struct Tree {
    /// The content.
    pub(super) value: Value,
    /// Where things are.
    pub(super) locations: Locations,
}

impl Tree {
    /// A document that was not read from a text: nothing has a place.
    pub(super) fn of(value: Value) -> Self {
        Self { value, locations: Locations::default() }
    }
}

/// Where keys and values are in the text.
#[derive(Default)]
pub(super) struct Locations {
    text: String,
    keys: BTreeMap<String, Range<usize>>,
    values: BTreeMap<String, Range<usize>>,
}

/// Reads the text; if it is not TOML, every reason with its place.
pub(super) fn parse(text: &str) -> Result<Tree, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut locations = Locations { text: text.to_owned(), ..Locations::default() };
    if !errors.is_empty() {
        return Err(errors.iter().map(|error| syntax_problem(error, &locations)).collect());
    }
    let value = locations.table(table.get_ref(), "");
    Ok(Tree { value, locations })
}

/// Reads what can be read of a text that may not be TOML.
pub(super) fn salvage(text: &str) -> Tree {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut locations = Locations { text: text.to_owned(), ..Locations::default() };
    let value = locations.table(table.get_ref(), "");
    Tree { value, locations }
}

/// The path of a key inside a table.
pub(super) fn child(table: &str, key: &str) -> String {
    let bare =
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let shown = if bare { key.to_owned() } else { format!("\"{}\"", key.escape_debug()) };
    if table.is_empty() { shown } else { format!("{table}.{shown}") }
}

/// The path of an element of an array.
pub(super) fn element(array: &str, index: usize) -> String {
    format!("{array}[{index}]")
}

/// Whether `path` is `table` or lies inside it.
pub(super) fn is_within(path: &str, table: &str) -> bool {
    path.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

impl Locations {
    /// The place of a key; of the nearest table around it, if the key is not there.
    pub(super) fn of_key(&self, path: &str) -> Option<Location> {
        let mut path = path;
        loop {
            if let Some(span) = self.keys.get(path).or_else(|| self.values.get(path)) {
                return Some(self.location(span.start));
            }
            path = path.rsplit_once(['.', '[']).map(|(table, _)| table)?;
        }
    }

    /// The place of a value.
    pub(super) fn of_value(&self, path: &str) -> Option<Location> {
        match self.values.get(path) {
            Some(span) => Some(self.location(span.start)),
            None => self.of_key(path),
        }
    }

    fn location(&self, offset: usize) -> Location {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_text = before.rsplit('\n').next().unwrap_or_default();
        Location { line: before.matches('\n').count() + 1, column: line_text.chars().count() + 1 }
    }

    fn table(&mut self, table: &DeTable<'_>, path: &str) -> Value {
        let mut map = Map::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = child(path, name);
            self.keys.insert(path.clone(), key.span());
            let value = self.value(value, &path);
            map.insert(name.to_owned(), value);
        }
        Value::Object(map)
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &str) -> Value {
        self.values.insert(path.to_owned(), value.span());
        match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(number) => integer(number),
            DeValue::Float(number) => {
                let parsed: Option<f64> = number.as_str().parse().ok();
                parsed.map_or(Value::Null, Value::from)
            }
            DeValue::Boolean(flag) => Value::Bool(*flag),
            DeValue::Datetime(time) => Value::String(time.to_string()),
            DeValue::Array(items) => {
                let items = items.iter().enumerate();
                Value::Array(items.map(|(i, item)| self.value(item, &element(path, i))).collect())
            }
            DeValue::Table(table) => self.table(table, path),
        }
    }
}

/// Integers too large for the file format's 64 bits become null, which no key accepts.
fn integer(number: &DeInteger<'_>) -> Value {
    i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
}

fn syntax_problem(error: &toml::de::Error, locations: &Locations) -> Problem {
    let mut problem = Problem::error("", format!("not valid TOML: {}", error.message()));
    problem.location = error.span().map(|span| locations.location(span.start));
    problem
}
