//! The walk: references, depth, and how much there may be.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use super::keywords;
use crate::openapi::document::{Dialect, ReferenceError, reference};

/// How many schemas one tool may have, so that work on what exceeds the size limit ends early.
const MAX_SCHEMAS: usize = 4_000;
/// How deep a schema that is referred to once may be put in its place.
const MAX_INLINE: usize = 6;
/// How many references may follow each other where all are put in their place.
const MAX_HOPS: usize = 16;

/// How far the walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Everything, with `$defs`.
    Whole,
    /// So many levels, each reference put in its place.
    Cut(usize),
}

/// Why the walk ended.
#[derive(Debug)]
pub(super) enum Stop {
    TooLarge,
    Reference(ReferenceError),
}

impl From<ReferenceError> for Stop {
    fn from(error: ReferenceError) -> Self {
        Self::Reference(error)
    }
}

pub(super) struct Converter<'a> {
    root: &'a Value,
    pub(super) dialect: Dialect,
    depth: Depth,
    level: usize,
    hops: usize,
    schemas: usize,
    /// How often each reference is used.
    uses: HashMap<&'a str, usize>,
    /// Names in `$defs`.
    named: HashMap<&'a str, String>,
    taken: BTreeSet<String>,
    /// References that have a name and no definition yet.
    waiting: Vec<&'a str>,
}

impl<'a> Converter<'a> {
    pub(super) fn new(
        root: &'a Value,
        dialect: Dialect,
        depth: Depth,
        schemas: impl Iterator<Item = &'a Value>,
    ) -> Self {
        let mut converter = Self {
            root,
            dialect,
            depth,
            level: 0,
            hops: 0,
            schemas: 0,
            uses: HashMap::new(),
            named: HashMap::new(),
            taken: BTreeSet::new(),
            waiting: Vec::new(),
        };
        if depth == Depth::Whole {
            converter.count(schemas.collect());
        }
        converter
    }

    /// One schema. A list of what is still to be looked at, and no recursion from reference to
    /// reference: a chain of them may be as long as the document.
    fn count(&mut self, mut queue: Vec<&'a Value>) {
        let mut seen = 0;
        while let Some(schema) = queue.pop() {
            seen += 1;
            if seen > MAX_SCHEMAS * 4 {
                return;
            }
            queue.extend(keywords::parts(schema));
            if let Some(reference) = reference::of(schema) {
                let uses = self.uses.entry(reference).or_default();
                *uses += 1;
                if *uses == 1 {
                    queue.extend(reference::target(self.root, reference).ok());
                }
            }
        }
    }

    /// The schema of a value.
    pub(super) fn convert(&mut self, schema: &'a Value) -> Result<Value, Stop> {
        self.schemas += 1;
        if self.schemas > MAX_SCHEMAS {
            return Err(Stop::TooLarge);
        }
        let Value::Object(map) = schema else {
            // `true`, `false`, and whatever can't be a schema.
            return Ok(if schema == &Value::Bool(false) { json!(false) } else { json!({}) });
        };
        if let Some(reference) = reference::of(schema) {
            return self.follow(reference, map);
        }
        if let Depth::Cut(most) = self.depth
            && self.level >= most
        {
            return Ok(keywords::outline(map, self.dialect));
        }
        self.level += 1;
        let converted = keywords::convert(self, map);
        self.level -= 1;
        converted
    }

    /// `$defs`, once every schema was converted.
    pub(super) fn definitions(&mut self) -> Result<Map<String, Value>, Stop> {
        let mut definitions = Map::new();
        while let Some(reference) = self.waiting.pop() {
            self.level = 1;
            let target = reference::target(self.root, reference)?;
            let converted = self.convert(target)?;
            let name = self.named.get(reference).cloned().unwrap_or_default();
            definitions.insert(name, converted);
        }
        definitions.sort_keys();
        Ok(definitions)
    }

    /// Whether the schema, or what it refers to, is only ever part of an answer.
    pub(super) fn is_read_only(&self, schema: &'a Value) -> bool {
        let resolved = reference::resolve(self.root, schema).unwrap_or(schema);
        [schema, resolved].iter().any(|one| one.get("readOnly") == Some(&Value::Bool(true)))
    }

    fn follow(&mut self, reference: &'a str, map: &'a Map<String, Value>) -> Result<Value, Stop> {
        let target = reference::target(self.root, reference)?;
        let inline = match self.depth {
            Depth::Cut(_) => true,
            Depth::Whole => self.uses.get(reference) == Some(&1) && self.level < MAX_INLINE,
        };
        let mut converted = if inline {
            self.hops += 1;
            if self.hops > MAX_HOPS && self.depth != Depth::Whole {
                return Err(ReferenceError::Loop(reference.to_owned()).into());
            }
            // In the document a reference is no level of its own, but a chain of them has an end.
            let converted = self.inline(target);
            self.hops -= 1;
            converted?
        } else {
            json!({ "$ref": format!("#/$defs/{}", self.name(reference)) })
        };
        if let (Some(Value::String(text)), Some(converted)) =
            (map.get("description"), converted.as_object_mut())
        {
            converted.insert("description".to_owned(), keywords::text(text).into());
        }
        Ok(converted)
    }

    fn inline(&mut self, target: &'a Value) -> Result<Value, Stop> {
        self.level += usize::from(self.depth == Depth::Whole);
        let converted = self.convert(target);
        self.level -= usize::from(self.depth == Depth::Whole);
        converted
    }

    fn name(&mut self, reference: &'a str) -> String {
        if let Some(name) = self.named.get(reference) {
            return name.clone();
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
        let short: String = last.chars().take(64).map(plain).collect();
        let mut name = short.clone();
        let mut number = 1;
        while name.is_empty() || !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{short}_{number}");
        }
        self.named.insert(reference, name.clone());
        self.waiting.push(reference);
        name
    }
}
