//! One operation as a tool: its definition, and all that a call needs of the document.

use std::collections::BTreeMap;

use drawgate_core::model::{Annotations, Category, McpToolSpec, ToolAnnotations};
use http::Method;
use serde_json::{Map, Value, json};
use url::Url;

use super::auth::Requirement;
use super::body::BodyPlan;
use super::document::{Document, Operation, ServerError};
use super::origins::Origins;
use super::parameter::{self, BODY, Described, Parameter, PlanError, Provided};
use super::schema;

/// Characters of a tool's description.
const MAX_DESCRIPTION: usize = 1_000;
/// Characters of its first sentence.
const MAX_SUMMARY: usize = 300;
/// Characters of an argument's description.
const MAX_ARGUMENT_TEXT: usize = 500;
const SHORTENED: &str = "The schema is shortened; the API's own documentation has the rest.";

/// What a call needs.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) method: Method,
    pub(super) path: Vec<Piece>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<BodyPlan>,
    pub(super) server: Url,
    /// Alternatives; none at all means that nothing is needed.
    pub(super) security: Vec<Requirement>,
}

/// A part of a path template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// As it is.
    Text(String),
    /// The value of the parameter of this name.
    Slot(String),
}

/// Where requests go, and what the connector sets by itself.
pub(super) struct Setting<'a> {
    pub(super) origins: &'a Origins<'a>,
    pub(super) provided: &'a Provided,
}

impl Document {
    /// The tool of an operation: description, schema and hints.
    pub fn definition(&self, operation: &Operation, name: &str) -> Result<McpToolSpec, PlanError> {
        let provided = Provided::new();
        let draft = Draft::of(self, operation, &provided)?;
        draft.definition(self, operation, name)
    }

    /// The tool of an operation, and how it is called.
    pub(super) fn plan(
        &self,
        operation: &Operation,
        name: &str,
        setting: &Setting<'_>,
    ) -> Result<(McpToolSpec, Plan), PlanError> {
        let draft = Draft::of(self, operation, setting.provided)?;
        let definition = draft.definition(self, operation, name)?;
        let Origins { base, fetched, .. } = setting.origins;
        let server = match base {
            Some(base) => (*base).clone(),
            None => self.server(operation, *fetched)?,
        };
        setting.origins.check(&server).map_err(ServerError::Stray)?;
        let plan = Plan {
            method: operation.method.clone(),
            path: draft.path,
            parameters: draft.parameters.into_iter().map(|one| one.parameter).collect(),
            body: draft.body.map(|(plan, _)| plan),
            server,
            security: draft.security,
        };
        Ok((definition, plan))
    }
}

struct Draft<'a> {
    node: &'a Map<String, Value>,
    path: Vec<Piece>,
    parameters: Vec<Described<'a>>,
    body: Option<(BodyPlan, Option<&'a Value>)>,
    security: Vec<Requirement>,
}

impl<'a> Draft<'a> {
    fn of(
        document: &'a Document,
        operation: &'a Operation,
        provided: &Provided,
    ) -> Result<Self, PlanError> {
        let (item, node) = document.node(operation)?;
        let path = template(&operation.path)?;
        let slots: Vec<&str> = slots(&operation.path);
        let parameters = parameter::collect(document, item, node, &slots, provided)?;
        let body = BodyPlan::of(document, node)?;
        let stated = node.get("security").or_else(|| document.root().get("security"));
        Ok(Self { node, path, parameters, body, security: Requirement::list(stated) })
    }

    fn definition(
        &self,
        document: &Document,
        operation: &Operation,
        name: &str,
    ) -> Result<McpToolSpec, PlanError> {
        let (input_schema, shortened) = self.input(document)?;
        Ok(McpToolSpec {
            name: name.to_owned(),
            description: description(self.node, operation, shortened),
            input_schema,
            annotations: Some(Annotations::Own(annotations(&operation.method))),
            metadata: None,
            rest: Map::new(),
        })
    }

    /// One object of all parameters and the body.
    fn input(&self, document: &Document) -> Result<(Value, bool), PlanError> {
        let anything = Value::Object(Map::new());
        let text = json!({ "type": "string" });
        let mut schemas = BTreeMap::new();
        for one in &self.parameters {
            let schema = one.schema.unwrap_or(&text);
            schemas.insert(one.parameter.argument.clone(), schema);
        }
        let stated = self.body.as_ref().map(|(plan, schema)| (plan, schema.unwrap_or(&anything)));
        let base64 = json!({ "type": "string", "contentEncoding": "base64" });
        if let Some((plan, schema)) = stated {
            let schema = if plan.is_text() {
                &text
            } else if plan.is_binary() {
                &base64
            } else {
                schema
            };
            schemas.insert(BODY.to_owned(), schema);
        }
        let mut converted = schema::convert(document.root(), document.dialect(), &schemas)?;
        self.annotate(&mut converted.properties);
        let properties: Map<String, Value> = self.ordered(converted.properties);
        let mut input = Map::new();
        input.insert("type".to_owned(), "object".into());
        input.insert("properties".to_owned(), properties.into());
        let required = self.required();
        if !required.is_empty() {
            input.insert("required".to_owned(), required.into());
        }
        input.insert("additionalProperties".to_owned(), false.into());
        if !converted.definitions.is_empty() {
            input.insert("$defs".to_owned(), converted.definitions.into());
        }
        Ok((input.into(), converted.shortened))
    }

    /// In the order of the document, the body last.
    fn ordered(&self, mut properties: BTreeMap<String, Value>) -> Map<String, Value> {
        let names = self.parameters.iter().map(|one| one.parameter.argument.as_str());
        names
            .chain([BODY])
            .filter_map(|name| Some((name.to_owned(), properties.remove(name)?)))
            .collect()
    }

    fn required(&self) -> Vec<Value> {
        let parameters = self.parameters.iter().filter(|one| one.parameter.required);
        let names = parameters.map(|one| one.parameter.argument.as_str().into());
        let body = self.body.as_ref().is_some_and(|(plan, _)| plan.required);
        names.chain(body.then(|| BODY.into())).collect()
    }

    /// What the schema of a parameter does not say.
    fn annotate(&self, properties: &mut BTreeMap<String, Value>) {
        for one in &self.parameters {
            let Parameter { name, argument, place, .. } = &one.parameter;
            let renamed = (name != argument).then(|| {
                format!("Sent as `{}` in the {}.", super::document::shown(name), place.as_str())
            });
            let text: Vec<&str> = one.description.into_iter().chain(renamed.as_deref()).collect();
            if let Some(Value::Object(schema)) = properties.get_mut(argument) {
                describe(schema, &text.join(" "));
            }
        }
        if let (Some((plan, _)), Some(Value::Object(schema))) =
            (&self.body, properties.get_mut(BODY))
        {
            describe_body(schema, plan);
        }
    }
}

fn describe(schema: &mut Map<String, Value>, text: &str) {
    if !text.trim().is_empty() {
        schema.insert("description".to_owned(), cut(text, MAX_ARGUMENT_TEXT).into());
    }
}

/// A body that has a description of its own keeps it.
fn describe_body(schema: &mut Map<String, Value>, plan: &BodyPlan) {
    plan.mark_files(schema);
    let own = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = format!("{} {own}", plan.note());
    schema.insert("description".to_owned(), cut(&text, MAX_ARGUMENT_TEXT).into());
}

fn description(node: &Map<String, Value>, operation: &Operation, shortened: bool) -> String {
    let text = |key: &str| node.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let (summary, more) = (text("summary"), text("description"));
    let place = format!("`{} {}`", operation.method, super::document::shown(&operation.path));
    let mut parts = Vec::new();
    if operation.deprecated {
        parts.push("Deprecated.".to_owned());
    }
    if !summary.is_empty() {
        parts.push(cut(summary, MAX_SUMMARY));
    }
    if !more.is_empty() && more != summary {
        parts.push(cut(more, MAX_DESCRIPTION));
    }
    if shortened {
        parts.push(SHORTENED.to_owned());
    }
    parts.push(place);
    parts.join("\n\n")
}

/// Hints from the method, as HTTP defines it.
fn annotations(method: &Method) -> ToolAnnotations {
    let reads = method.is_safe();
    let mut rest = Map::new();
    rest.insert("readOnlyHint".to_owned(), reads.into());
    rest.insert("destructiveHint".to_owned(), (method == Method::DELETE).into());
    rest.insert("idempotentHint".to_owned(), method.is_idempotent().into());
    rest.insert("openWorldHint".to_owned(), true.into());
    ToolAnnotations {
        category: Some(Category::External),
        read_only: reads.then_some(true),
        rest,
        ..ToolAnnotations::default()
    }
}

fn cut(text: &str, most: usize) -> String {
    let text = text.trim();
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    text.chars().take(most).chain(['…']).collect()
}

fn template(path: &str) -> Result<Vec<Piece>, PlanError> {
    let bad = || PlanError::Template(path.to_owned());
    let mut pieces = Vec::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(bad)?;
        if name.is_empty() || before.contains('}') || name.contains('{') {
            return Err(bad());
        }
        pieces.push(Piece::Text(super::request::literal(before)));
        pieces.push(Piece::Slot(name.to_owned()));
        rest = after;
    }
    if rest.contains('}') {
        return Err(bad());
    }
    pieces.push(Piece::Text(super::request::literal(rest)));
    Ok(pieces)
}

fn slots(path: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for part in path.split('{').skip(1) {
        if let Some((name, _)) = part.split_once('}')
            && !found.contains(&name)
        {
            found.push(name);
        }
    }
    found
}
