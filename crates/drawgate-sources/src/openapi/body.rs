//! The body of a request: which of the offered media types is sent, and how its parts are written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::document::{Document, ReferenceError, reference};
use super::media;
use super::parameter::{PlanError, Reserved, Style, Writing};

/// How deep `allOf` is followed to find the parts of a form.
const MAX_ALL_OF: usize = 8;
/// Parts whose encoding is remembered.
const MAX_FIELDS: usize = 1_000;

/// How a body is made of its argument.
#[derive(Debug)]
pub(super) struct BodyPlan {
    /// As it is sent.
    pub(super) media: String,
    pub(super) kind: BodyKind,
    pub(super) required: bool,
}

/// The formats.
#[derive(Debug)]
pub(super) enum BodyKind {
    Json,
    /// `application/x-www-form-urlencoded`.
    Form(Form),
    /// `multipart/form-data`.
    Multipart(BTreeMap<String, Part>),
    Text,
    /// Bytes, which the argument holds in base64.
    Binary,
}

/// The fields of a form.
#[derive(Debug)]
pub(super) struct Form {
    /// Those whose encoding the document states.
    pub(super) fields: BTreeMap<String, FormField>,
    /// The names of all that the document knows.
    pub(super) names: BTreeSet<String>,
}

/// One field of a form.
#[derive(Debug, Clone, Copy)]
pub(super) struct FormField {
    pub(super) writing: Writing,
    pub(super) reserved: Reserved,
}

/// One part of a multipart body.
#[derive(Debug, Clone, Default)]
pub(super) struct Part {
    /// Its type, where the document names one.
    pub(super) media: Option<String>,
    /// Whether it is a file: the argument holds it in base64.
    pub(super) is_file: bool,
}

impl BodyPlan {
    /// The body of an operation, with the schema of its argument.
    pub(super) fn of<'a>(
        document: &'a Document,
        node: &'a Map<String, Value>,
    ) -> Result<Option<(Self, Option<&'a Value>)>, PlanError> {
        let Some(body) = node.get("requestBody") else { return Ok(None) };
        let root = document.root();
        let body = reference::resolve(root, body)?;
        let content = body.get("content").and_then(Value::as_object);
        let Some((name, media)) = content.and_then(preferred) else { return Ok(None) };
        let media = reference::resolve(root, media)?;
        let schema = media.get("schema");
        let encoding = media.get("encoding").and_then(Value::as_object);
        let fields = Fields { root, schema, encoding };
        let essence = media::essence(name);
        let kind = if media::is_json(name) {
            BodyKind::Json
        } else if essence == "application/x-www-form-urlencoded" {
            BodyKind::Form(fields.form()?)
        } else if essence.starts_with("multipart/") {
            BodyKind::Multipart(fields.parts()?)
        } else if media::is_text(name) {
            BodyKind::Text
        } else {
            BodyKind::Binary
        };
        let usual = match &kind {
            BodyKind::Json => "application/json",
            BodyKind::Form(_) => "application/x-www-form-urlencoded",
            BodyKind::Multipart(_) => "multipart/form-data",
            BodyKind::Text => "text/plain; charset=utf-8",
            BodyKind::Binary => "application/octet-stream",
        };
        let plan = Self {
            media: media::concrete(name).unwrap_or(usual).to_owned(),
            kind,
            required: body.get("required") == Some(&Value::Bool(true)),
        };
        Ok(Some((plan, schema)))
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self.kind, BodyKind::Text)
    }

    pub(super) fn is_binary(&self) -> bool {
        matches!(self.kind, BodyKind::Binary)
    }

    /// What a model should know about it.
    pub(super) fn note(&self) -> String {
        let media = super::document::shown(&self.media);
        match &self.kind {
            BodyKind::Json | BodyKind::Form(_) | BodyKind::Text => {
                format!("The body of the request (`{media}`).")
            }
            BodyKind::Multipart(parts) if parts.values().any(|part| part.is_file) => {
                format!("The body of the request (`{media}`); files in base64.")
            }
            BodyKind::Multipart(_) => format!("The body of the request (`{media}`)."),
            BodyKind::Binary => format!("The body of the request (`{media}`), in base64."),
        }
    }

    /// Says of files that they are written in base64, whatever the document calls them.
    pub(super) fn mark_files(&self, schema: &mut Map<String, Value>) {
        let BodyKind::Multipart(parts) = &self.kind else { return };
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
        for (name, _) in parts.iter().filter(|(_, part)| part.is_file) {
            let base64 = |description: Option<&Value>| {
                let mut file = Map::from_iter([
                    ("type".to_owned(), json!("string")),
                    ("contentEncoding".to_owned(), json!("base64")),
                ]);
                file.extend(description.map(|text| ("description".to_owned(), text.clone())));
                Value::Object(file)
            };
            match properties.get_mut(name) {
                Some(Value::Object(own)) if own.get("type") == Some(&json!("array")) => {
                    own.insert("items".to_owned(), base64(None));
                }
                Some(own) => *own = base64(own.get("description")),
                None => {}
            }
        }
    }
}

/// JSON before forms, forms before files.
fn preferred(content: &Map<String, Value>) -> Option<(&String, &Value)> {
    let rank = |name: &str| {
        let essence = media::essence(name);
        if essence == "application/json" {
            0
        } else if media::is_json(name) && essence != "*/*" {
            1
        } else if essence == "application/x-www-form-urlencoded" {
            2
        } else if essence.starts_with("multipart/") {
            3
        } else if media::is_text(name) {
            4
        } else if essence == "*/*" {
            5
        } else {
            6
        }
    };
    content.iter().min_by_key(|(name, _)| rank(name))
}

/// The parts of a form, and what the document says about their encoding.
struct Fields<'a> {
    root: &'a Value,
    schema: Option<&'a Value>,
    encoding: Option<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    fn form(&self) -> Result<Form, PlanError> {
        let mut properties = BTreeMap::new();
        self.properties(self.schema, MAX_ALL_OF, &mut properties)?;
        let names = properties.into_keys().map(str::to_owned).collect();
        let stated = self.encoding.into_iter().flatten().take(MAX_FIELDS);
        let fields = stated.map(|(name, encoding)| Ok((name.clone(), form_field(name, encoding)?)));
        Ok(Form { fields: fields.collect::<Result<_, PlanError>>()?, names })
    }

    fn parts(&self) -> Result<BTreeMap<String, Part>, PlanError> {
        let mut properties = BTreeMap::new();
        self.properties(self.schema, MAX_ALL_OF, &mut properties)?;
        let mut parts: BTreeMap<String, Part> = BTreeMap::new();
        for (name, schema) in properties {
            let is_file = self.is_file(schema)?;
            parts.insert(name.to_owned(), Part { is_file, media: None });
        }
        for (name, encoding) in self.encoding.into_iter().flatten().take(MAX_FIELDS) {
            let stated = encoding.get("contentType").and_then(Value::as_str);
            // A list of types leaves the choice to the client.
            let first = stated.and_then(|media| media.split(',').next()).map(str::trim);
            let media = first.and_then(media::concrete).map(str::to_owned);
            parts.entry(name.clone()).or_default().media = media;
        }
        Ok(parts)
    }

    fn properties(
        &self,
        schema: Option<&'a Value>,
        depth: usize,
        found: &mut BTreeMap<&'a str, &'a Value>,
    ) -> Result<(), ReferenceError> {
        let Some(schema) = schema.filter(|_| depth > 0) else { return Ok(()) };
        let schema = reference::resolve(self.root, schema)?;
        let own = schema.get("properties").and_then(Value::as_object);
        for (name, property) in own.into_iter().flatten().take(MAX_FIELDS) {
            found.entry(name).or_insert(property);
        }
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten().take(16) {
            self.properties(Some(part), depth - 1, found)?;
        }
        Ok(())
    }

    /// A file, or a list of files.
    fn is_file(&self, schema: &'a Value) -> Result<bool, ReferenceError> {
        let schema = reference::resolve(self.root, schema)?;
        let one = match schema.get("items") {
            Some(items) => reference::resolve(self.root, items)?,
            None => schema,
        };
        let is = |key: &str, value: &str| one.get(key).and_then(Value::as_str) == Some(value);
        let has_media =
            one.get("contentMediaType").is_some() && one.get("contentEncoding").is_none();
        Ok(is("format", "binary") || is("type", "file") || has_media)
    }
}

fn form_field(name: &str, encoding: &Value) -> Result<FormField, PlanError> {
    let stated = encoding.get("contentType").and_then(Value::as_str);
    let style = match encoding.get("style").and_then(Value::as_str) {
        Some(style) => Some(Style::parse(style).ok_or(PlanError::Parameter {
            name: name.to_owned(),
            reason: "the `style` of its encoding is unknown",
        })?),
        None => None,
    };
    let explode = encoding.get("explode").and_then(Value::as_bool);
    let writing = match (style, stated) {
        (None, Some(media)) if media::is_json(media) => Writing::Json,
        (style, _) => {
            let style = style.unwrap_or(Style::Form);
            Writing::Styled { style, explode: explode.unwrap_or(style.explodes()) }
        }
    };
    let kept = encoding.get("allowReserved") == Some(&Value::Bool(true));
    let reserved = if kept { Reserved::Kept } else { Reserved::Encoded };
    Ok(FormField { writing, reserved })
}
