//! What servers ask of their clients: a person's input, a list of roots, a model's words.
//!
//! The gateway has none of these itself. It passes a question on if the operator allows that and the
//! caller's program has said that it can answer; this file decides which questions those are. A page
//! that a server wants to be opened is a kind of its own: it could look like the gateway's own page.

use drawgate_core::model::Client;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::pages;
use super::tasks;
use super::wire::METHOD_NOT_FOUND;

const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
/// What a client answers when a person says no to a request for sampling.
const REJECTED: i64 = -1;

/// The extension by which tools bring a user interface along. It asks nothing of the gateway but to
/// pass resources on, so that it may always be declared.
const APPS: &str = "io.modelcontextprotocol/ui";
const APPS_MEDIA: &str = "text/html;profile=mcp-app";

/// A kind of question that a server may put to callers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ClientRequest {
    /// A person's input, by a form.
    Elicitation,
    /// A person's visit to a page of the server's choice.
    ElicitationUrl,
    /// The folders that the caller works in.
    Roots,
    /// An answer of the caller's language model.
    Sampling,
}

impl ClientRequest {
    /// What is allowed where the operator says nothing. Sampling is not: it spends the caller's
    /// money on a server's words. Nor are pages: one could imitate that on which calls are approved.
    pub const USUAL: [Self; 2] = [Self::Elicitation, Self::Roots];

    const ALL: [Self; 4] = [Self::Elicitation, Self::ElicitationUrl, Self::Roots, Self::Sampling];

    /// By the method alone, which does not tell forms from pages.
    pub(super) fn of(method: &str) -> Option<Self> {
        match method {
            "elicitation/create" => Some(Self::Elicitation),
            "roots/list" => Some(Self::Roots),
            "sampling/createMessage" => Some(Self::Sampling),
            _ => None,
        }
    }

    const fn capability(self) -> &'static str {
        match self {
            Self::Elicitation | Self::ElicitationUrl => "elicitation",
            Self::Roots => "roots",
            Self::Sampling => "sampling",
        }
    }

    /// Whether a caller's program can answer it.
    fn is_offered(self, client: &Client) -> bool {
        match self {
            // A client that names no mode means forms.
            Self::Elicitation => {
                client.can("elicitation.form")
                    || (client.can("elicitation") && !client.can("elicitation.url"))
            }
            Self::ElicitationUrl => client.can("elicitation.url"),
            Self::Roots | Self::Sampling => client.can(self.capability()),
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The kinds that the operator allows, by their bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Allowed(u8);

impl FromIterator<ClientRequest> for Allowed {
    fn from_iter<T: IntoIterator<Item = ClientRequest>>(kinds: T) -> Self {
        Self(kinds.into_iter().fold(0, |bits, kind| bits | kind.bit()))
    }
}

impl Allowed {
    pub(super) const fn has(self, kind: ClientRequest) -> bool {
        self.0 & kind.bit() != 0
    }

    /// Whether this caller may be asked anything at all.
    pub(super) fn reaches(self, client: &Client) -> bool {
        ClientRequest::ALL.into_iter().any(|kind| self.has(kind) && kind.is_offered(client))
    }

    /// The capabilities of the gateway itself, on behalf of all who call.
    pub(super) fn declared(self) -> Map<String, Value> {
        let mut declared = Map::new();
        let modes = Value::Object(self.modes().map(|mode| (mode.to_owned(), json!({}))).collect());
        if modes != json!({}) {
            declared.insert("elicitation".to_owned(), modes);
        }
        for kind in [ClientRequest::Roots, ClientRequest::Sampling] {
            if self.has(kind) {
                declared.insert(kind.capability().to_owned(), json!({}));
            }
        }
        let extensions = json!({ APPS: { "mimeTypes": [APPS_MEDIA] }, tasks::EXTENSION: {} });
        declared.insert("extensions".to_owned(), extensions);
        declared
    }

    /// The modes of elicitation that are allowed.
    fn modes(self) -> impl Iterator<Item = &'static str> {
        let kinds = [(ClientRequest::Elicitation, "form"), (ClientRequest::ElicitationUrl, "url")];
        kinds.into_iter().filter(move |(kind, _)| self.has(*kind)).map(|(_, mode)| mode)
    }

    /// What one caller declared about elicitation, without the modes that a server may not use.
    /// Nothing is left rather than an empty object, which would mean forms.
    fn elicitation_of(self, client: &Client, declared: &Map<String, Value>) -> Option<Value> {
        let kinds = [ClientRequest::Elicitation, ClientRequest::ElicitationUrl];
        if !kinds.into_iter().any(|kind| self.has(kind) && kind.is_offered(client)) {
            return None;
        }
        let mut left = declared.clone();
        let modes: Vec<&str> = self.modes().collect();
        left.retain(|mode, _| modes.contains(&mode.as_str()));
        Some(Value::Object(left))
    }

    /// What one caller declared, as far as a server may know of it.
    pub(super) fn of_client(self, client: &Client) -> Map<String, Value> {
        let mut declared = Map::new();
        if let Some(Value::Object(own)) = client.capabilities.get("elicitation")
            && let Some(left) = self.elicitation_of(client, own)
        {
            declared.insert("elicitation".to_owned(), left);
        }
        for kind in [ClientRequest::Roots, ClientRequest::Sampling] {
            if let Some(own @ Value::Object(_)) = client.capabilities.get(kind.capability())
                && self.has(kind)
            {
                declared.insert(kind.capability().to_owned(), own.clone());
            }
        }
        let extensions = client.capabilities.get("extensions").and_then(Value::as_object);
        let mut known = Map::new();
        for name in [APPS, tasks::EXTENSION] {
            if let Some(settings) = extensions.and_then(|all| all.get(name)) {
                known.insert(name.to_owned(), settings.clone());
            }
        }
        if !known.is_empty() {
            declared.insert("extensions".to_owned(), Value::Object(known));
        }
        declared
    }

    /// Why a question can't be put to a caller, if it can't.
    pub(super) fn refusal(
        self,
        client: &Client,
        method: &str,
        params: Option<&Value>,
    ) -> Option<(i64, &'static str)> {
        const UNKNOWN: &str = "this client offers no such method";
        let Some(kind) = ClientRequest::of(method) else {
            return Some((METHOD_NOT_FOUND, UNKNOWN));
        };
        let mut same = ClientRequest::ALL.into_iter();
        let is_known = same.any(|other| other.capability() == kind.capability() && self.has(other));
        if !is_known || !client.can(kind.capability()) {
            return Some((METHOD_NOT_FOUND, UNKNOWN));
        }
        let member = |key: &str| params.and_then(|params| params.get(key));
        match kind {
            ClientRequest::Elicitation | ClientRequest::ElicitationUrl => {
                let mode = member("mode").map_or(Some("form"), Value::as_str);
                let can = |kind: ClientRequest| self.has(kind) && kind.is_offered(client);
                match mode {
                    Some("form") if can(ClientRequest::Elicitation) => None,
                    Some("url") if can(ClientRequest::ElicitationUrl) => {
                        let is_fit =
                            member("url").and_then(Value::as_str).is_some_and(pages::is_fit);
                        (!is_fit).then_some((INVALID_PARAMS, pages::UNFIT))
                    }
                    _ => Some((INVALID_PARAMS, "this client does not offer this mode")),
                }
            }
            ClientRequest::Sampling => {
                let tools = member("tools").is_some() || member("toolChoice").is_some();
                let cannot = tools && !client.can("sampling.tools");
                cannot.then_some((INVALID_PARAMS, "this client does not offer tools in sampling"))
            }
            ClientRequest::Roots => None,
        }
    }
}

/// A request of a server's own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerRequest {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Option<Value>,
}

impl ServerRequest {
    /// As a caller gets to see it.
    pub(super) fn question(&self) -> Value {
        let mut question = Map::from_iter([("method".to_owned(), json!(self.method))]);
        if let Some(params) = &self.params {
            question.insert("params".to_owned(), params.clone());
        }
        Value::Object(question)
    }

    /// The answer that a caller gave, or what stands for one that it did not give.
    pub(super) fn answer(&self, given: Option<&Value>) -> Value {
        match (given, ClientRequest::of(&self.method)) {
            (Some(given @ Value::Object(_)), _) => self.result(given),
            (_, Some(ClientRequest::Elicitation | ClientRequest::ElicitationUrl)) => {
                self.result(&json!({ "action": "cancel" }))
            }
            (_, Some(ClientRequest::Sampling)) => self.error(REJECTED, "the request was declined"),
            (_, Some(ClientRequest::Roots) | None) => {
                self.error(INTERNAL_ERROR, "the client did not answer")
            }
        }
    }

    /// For a server that asks while calls of several clients are under way.
    pub(super) fn ambiguous(&self) -> Value {
        self.error(
            INTERNAL_ERROR,
            "several clients use this server at once, so that it can't be known whom it asks; \
             set `sessions = \"per_client\"` for it in the gateway's configuration",
        )
    }

    /// For a server that asks more than can be kept.
    pub(super) fn overflow(&self) -> Value {
        self.error(INTERNAL_ERROR, "too many questions wait for an answer")
    }

    pub(super) fn result(&self, result: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.id, "result": result })
    }

    pub(super) fn error(&self, code: i64, message: &str) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.id, "error": { "code": code, "message": message } })
    }
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
