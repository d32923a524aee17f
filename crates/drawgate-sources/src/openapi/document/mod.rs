//! An `OpenAPI` document: which operations it has, and where they are.
//!
//! The document comes from a stranger. Parsing bounds its size and depth; what one operation needs is
//! looked at when that operation is planned, so that a fault in one does not take the others away.

mod collect;
mod read;
pub(super) mod reference;
mod servers;

use std::path::Path;

use drawgate_core::json::JsonError;
use http::Method;
pub(super) use read::MAX_DOCUMENT;
pub use reference::ReferenceError;
use serde_json::{Map, Value};
pub use servers::ServerError;
pub(super) use servers::{join, usable};
use url::Url;

use super::names;
use crate::suggest::nearest;

/// The revision of the specification, as far as it changes what a schema means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// 3.0: a dialect of its own, with `nullable` and boolean `exclusiveMinimum`.
    V30,
    /// 3.1 and 3.2: JSON Schema 2020-12.
    V31,
}

/// The members of an object of the document.
pub(super) type Members<'a> = &'a Map<String, Value>;

/// A parsed document.
#[derive(Debug)]
pub struct Document {
    root: Value,
    dialect: Dialect,
    operations: Vec<Operation>,
}

/// One path with one method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its `operationId`, or a name made of method and path where it has none of its own.
    pub id: String,
    /// The method.
    pub method: Method,
    /// The path template.
    pub path: String,
    /// The summary, or the beginning of the description.
    pub summary: String,
    /// Whether the document advises against it.
    pub deprecated: bool,
    /// Its tags.
    pub tags: Vec<String>,
    tool: String,
}

impl Operation {
    /// The name of its tool when a whole document is imported: `[a-z][a-z0-9_]{1,47}`, unique in the
    /// document.
    #[must_use]
    pub fn tool_name(&self, prefix: Option<&str>) -> String {
        names::with_prefix(prefix.unwrap_or_default(), &self.tool)
    }
}

/// Why a document can't be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The file can't be read.
    #[error("`{path}` can't be read: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// Too many bytes.
    #[error("the OpenAPI document is larger than {} MiB", .0 / (1024 * 1024))]
    TooLarge(usize),
    /// Not JSON.
    #[error("the OpenAPI document is not valid JSON: {0}")]
    Json(JsonError),
    /// Not YAML.
    #[error("the OpenAPI document is not valid YAML: {0}")]
    Yaml(String),
    /// Not an object with a version.
    #[error("this is not an OpenAPI document: it has no `openapi` version at its top")]
    NotOpenApi,
    /// The older format.
    #[error("this is a Swagger 2.0 document; convert it to OpenAPI 3.0 or 3.1 first")]
    Swagger,
    /// A revision that is not known.
    #[error("OpenAPI `{0}` is not supported; use 3.0 or 3.1")]
    Version(String),
    /// No operations at all.
    #[error("the OpenAPI document has no operations; `paths` is missing or empty")]
    Empty,
    /// More operations than a document may have.
    #[error("the OpenAPI document has more than {0} operations")]
    TooMany(usize),
}

/// An operation that the document does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown operation `{}`{}", shown(id), meant(suggestion.as_deref()))]
pub struct UnknownOperation {
    id: String,
    suggestion: Option<String>,
}

impl UnknownOperation {
    /// The operation that may have been meant.
    #[must_use]
    pub fn suggestion(&self) -> Option<&str> {
        self.suggestion.as_deref()
    }
}

impl Document {
    /// Parses JSON or YAML.
    pub fn parse(bytes: &[u8]) -> Result<Self, DocumentError> {
        let root = read::value(bytes)?;
        let dialect = dialect(&root)?;
        let operations = collect::operations(&root)?;
        if operations.is_empty() {
            return Err(DocumentError::Empty);
        }
        Ok(Self { root, dialect, operations })
    }

    /// Reads a file, which must be a regular one and no link.
    pub fn read(path: &Path) -> Result<Self, DocumentError> {
        Self::parse(&read::file(path)?)
    }

    /// Every operation, in the order of the document.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operation of this id.
    pub fn operation(&self, id: &str) -> Result<&Operation, UnknownOperation> {
        self.operations.iter().find(|operation| operation.id == id).ok_or_else(|| {
            let known = self.operations.iter().map(|operation| operation.id.as_str());
            UnknownOperation {
                id: id.to_owned(),
                suggestion: nearest(id, known).map(str::to_owned),
            }
        })
    }

    /// Where requests go by default: the first of `servers`, its variables at their defaults.
    pub fn base_url(&self) -> Result<Url, ServerError> {
        servers::first(self.root.get("servers"), None)
    }

    /// Every address in it that calls could go to: servers, and where tokens are fetched.
    #[must_use]
    pub fn addresses(&self) -> Vec<Url> {
        servers::all(&self.root)
    }

    /// The names of its security schemes.
    #[must_use]
    pub fn schemes(&self) -> Vec<String> {
        self.scheme_table().map(|table| table.keys().cloned().collect()).unwrap_or_default()
    }

    /// `info.title` and `info.version`.
    #[must_use]
    pub fn title(&self) -> (Option<&str>, Option<&str>) {
        let info = |key| self.root.get("info")?.get(key)?.as_str();
        (info("title"), info("version"))
    }

    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(super) fn scheme_table(&self) -> Option<&Map<String, Value>> {
        self.root.get("components")?.get("securitySchemes")?.as_object()
    }

    /// The path item and the operation object.
    pub(super) fn node(
        &self,
        operation: &Operation,
    ) -> Result<(Members<'_>, Members<'_>), ReferenceError> {
        let missing = || ReferenceError::Dangling(operation.path.clone());
        let item = self.root.get("paths").and_then(|paths| paths.get(&operation.path));
        let item = reference::resolve(&self.root, item.ok_or_else(missing)?)?;
        let item = item.as_object().ok_or_else(missing)?;
        let key = operation.method.as_str().to_ascii_lowercase();
        let node = item.get(&key).and_then(Value::as_object).ok_or_else(missing)?;
        Ok((item, node))
    }

    /// Where an operation's requests go: its own servers, its path's, the document's.
    pub(super) fn server(
        &self,
        operation: &Operation,
        beside: Option<&Url>,
    ) -> Result<Url, ServerError> {
        let (item, node) = self.node(operation).map_err(|_| ServerError::Absent)?;
        let stated = |value: &&Value| value.as_array().is_some_and(|list| !list.is_empty());
        let own = [node.get("servers"), item.get("servers"), self.root.get("servers")];
        servers::first(own.into_iter().flatten().find(stated), beside)
    }
}

fn dialect(root: &Value) -> Result<Dialect, DocumentError> {
    if root.get("swagger").is_some() {
        return Err(DocumentError::Swagger);
    }
    let Some(version) = root.get("openapi").and_then(Value::as_str) else {
        return Err(DocumentError::NotOpenApi);
    };
    match version.split('.').take(2).collect::<Vec<_>>().as_slice() {
        ["3", "0"] => Ok(Dialect::V30),
        ["3", "1" | "2"] => Ok(Dialect::V31),
        _ => Err(DocumentError::Version(shown(version))),
    }
}

/// `; did you mean …?`, or nothing.
pub(super) fn meant(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean `{}`?", shown(name))).unwrap_or_default()
}

/// A name of a stranger in a message: short, and nothing hidden in it.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 100;
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
