//! Searching the web: one request to a Gemini model that may use the provider's own search.
//!
//! The addresses are the provider's, which redirect to the pages.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::codec::{Fault, list, optional, optional_text, text};
use super::gemini::{method_url, usage};
use super::http::Provider;
use super::{ModelError, ModelErrorKind, Usage};

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchReply {
    /// The pages, the most relevant first.
    pub results: Vec<SearchResult>,
    /// What the request cost.
    pub usage: Usage,
}

/// A page that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchResult {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// What the answer to the query takes from it; may be empty.
    pub snippet: String,
}

pub(super) async fn search(
    provider: &Provider,
    model: &str,
    query: &str,
    max_results: usize,
) -> Result<SearchReply, ModelError> {
    let url = method_url(&provider.base, model, "generateContent");
    let answer = provider.whole(&url, Some(&request(query))).await?;
    read(&answer, max_results).map_err(|fault| {
        let what = match fault {
            Fault::Malformed(what) => what,
            Fault::Reported(_) | Fault::Unfinished => "it has no results".to_owned(),
        };
        let message = format!("provider `{}`: the answer to a search: {what}", provider.name);
        ModelError::new(ModelErrorKind::Malformed, message).begun()
    })
}

fn request(query: &str) -> Value {
    json!({
        "contents": [{"role": "user", "parts": [{"text": query}]}],
        "tools": [{"google_search": {}}],
    })
}

fn read(answer: &Value, max_results: usize) -> Result<SearchReply, Fault> {
    let grounding = list(answer, "candidates")?
        .first()
        .and_then(|candidate| optional(candidate, "groundingMetadata"))
        .unwrap_or(&Value::Null);
    let supports = list(grounding, "groundingSupports")?;
    let mut results = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, chunk) in list(grounding, "groundingChunks")?.iter().enumerate() {
        let Some(page) = optional(chunk, "web") else { continue };
        let url = text(page, "uri")?;
        if results.len() < max_results && seen.insert(url) {
            let title = optional_text(page, "title")?.unwrap_or_default().to_owned();
            let snippet = snippet(supports, index)?;
            results.push(SearchResult { title, url: url.to_owned(), snippet });
        }
    }
    Ok(SearchReply { results, usage: usage(answer)?.unwrap_or_default() })
}

/// The parts of the answer that a page supports.
fn snippet(supports: &[Value], index: usize) -> Result<String, Fault> {
    let mut pieces = Vec::new();
    for support in supports {
        let mut pages = list(support, "groundingChunkIndices")?.iter();
        if pages.any(|page| page.as_u64() == Some(index as u64))
            && let Some(segment) = optional(support, "segment")
        {
            pieces.extend(optional_text(segment, "text")?);
        }
    }
    Ok(pieces.join(" "))
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
