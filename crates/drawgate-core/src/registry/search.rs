//! Finding tools by words: for callers with more tools than a model can be shown.
//!
//! A tool is a document of its name, its description and its parameters; a query is ranked by BM25
//! with a word of the name counting most. The index belongs to one revision of the registry.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::Entry;

/// What a word counts for, by where it stands.
const IN_NAME: f32 = 4.0;
const IN_TITLE: f32 = 2.0;
const IN_PARAMETERS: f32 = 1.5;
const IN_DESCRIPTION: f32 = 1.0;
/// The usual constants of BM25.
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.75;
/// Words of a query that count, and characters of a definition that are read.
const MAX_WORDS: usize = 32;
const MAX_TEXT: usize = 16 * 1024;

/// The words of all tools.
pub(super) struct Index {
    tools: Vec<Document>,
    /// For each word, the tools that have it and its weight there.
    words: HashMap<String, Vec<(usize, f32)>>,
    mean: f32,
}

struct Document {
    entry: Arc<Entry>,
    length: f32,
}

impl Index {
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Arc<Entry>>) -> Self {
        let mut index = Self { tools: Vec::new(), words: HashMap::new(), mean: 1.0 };
        for entry in entries {
            let weights = weights(entry);
            let at = index.tools.len();
            let length = weights.values().sum::<f32>().max(1.0);
            index.tools.push(Document { entry: Arc::clone(entry), length });
            for (word, weight) in weights {
                index.words.entry(word).or_default().push((at, weight));
            }
        }
        let total: f32 = index.tools.iter().map(|tool| tool.length).sum();
        index.mean = total / as_float(index.tools.len().max(1));
        index
    }

    /// The best tools for a query, best first; of equal ones, in order of their ids.
    pub(super) fn search(
        &self,
        query: &str,
        visible: impl Fn(&Entry) -> bool,
        limit: usize,
    ) -> Vec<Arc<Entry>> {
        let mut scores: BTreeMap<usize, f32> = BTreeMap::new();
        let mut asked = words(query);
        asked.truncate(MAX_WORDS);
        asked.sort_unstable();
        asked.dedup();
        for word in &asked {
            let Some(found) = self.words.get(word) else { continue };
            let (all, having) = (as_float(self.tools.len()), as_float(found.len()));
            let rarity = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
            for (at, weight) in found {
                let Some(tool) = self.tools.get(*at) else { continue };
                let norm = SATURATION * (1.0 - LENGTH + LENGTH * tool.length / self.mean);
                let score = rarity * weight * (SATURATION + 1.0) / (weight + norm);
                *scores.entry(*at).or_default() += score;
            }
        }
        let mut best: Vec<(usize, f32)> = scores
            .into_iter()
            .filter(|(at, _)| self.tools.get(*at).is_some_and(|tool| visible(&tool.entry)))
            .collect();
        best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let entry = |(at, _): (usize, f32)| Some(Arc::clone(&self.tools.get(at)?.entry));
        best.into_iter().take(limit).filter_map(entry).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of tools is small")]
fn as_float(count: usize) -> f32 {
    count as f32
}

fn weights(entry: &Entry) -> BTreeMap<String, f32> {
    let mut weights = BTreeMap::new();
    let mut add = |text: &str, weight: f32| {
        let text: String = text.chars().take(MAX_TEXT).collect();
        for word in words(&text) {
            *weights.entry(word).or_default() += weight;
        }
    };
    add(&entry.spec.name, IN_NAME);
    add(entry.id.source().as_str(), IN_NAME / 2.0);
    add(entry.listing["title"].as_str().unwrap_or_default(), IN_TITLE);
    add(entry.listing["description"].as_str().unwrap_or_default(), IN_DESCRIPTION);
    let parameters = entry.spec.input_schema["properties"].as_object();
    for (name, schema) in parameters.into_iter().flatten() {
        add(name, IN_PARAMETERS);
        add(schema["description"].as_str().unwrap_or_default(), IN_DESCRIPTION);
        for value in schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            add(value, IN_DESCRIPTION);
        }
    }
    weights
}

/// Words in lower case, `camelCase` and `snake_case` taken apart, endings taken off.
fn words(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut word = String::new();
    let mut before_lower = false;
    for c in text.chars() {
        let starts_new = !c.is_alphanumeric() || (c.is_uppercase() && before_lower);
        if starts_new && !word.is_empty() {
            all.push(stem(&std::mem::take(&mut word)));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before_lower = c.is_lowercase() || c.is_numeric();
    }
    if !word.is_empty() {
        all.push(stem(&word));
    }
    all
}

/// Forms of one word become the same: `files`, `file` and `filing` are all `fil`.
fn stem(word: &str) -> String {
    let cut = |word: &str, ending: &str| -> Option<String> {
        word.strip_suffix(ending).filter(|rest| rest.chars().count() >= 3).map(str::to_owned)
    };
    if word.ends_with("ss") {
        return word.to_owned();
    }
    if let Some(rest) = cut(word, "ies") {
        return format!("{rest}y");
    }
    let rest = cut(word, "ing").or_else(|| cut(word, "s")).unwrap_or_else(|| word.to_owned());
    cut(&rest, "e").unwrap_or(rest)
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
