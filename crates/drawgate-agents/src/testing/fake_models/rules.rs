//! What the server answers, and when. In JSON, a script is a list of rules:
//! `[{"when": {"turn": 0}, "reply": {"calls": [{"name": "add", "arguments": {"a": 1}}]}}]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::Api;

/// An answer, and which requests get it. The first rule that fits counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The API of the request. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Api>,
    /// What else must be so.
    #[serde(default)]
    pub when: When,
    /// The answer.
    pub reply: Answer,
}

/// What must be so for a rule to fit. What is absent does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// How many replies of the model the conversation has.
    pub turn: Option<usize>,
    /// How many results of calls it has.
    pub results: Option<usize>,
    /// A tool that is offered.
    pub has_tool: Option<String>,
    /// A part of the last text of the user; results of calls are not looked at.
    pub contains: Option<String>,
    /// A part of the system prompt.
    pub system: Option<String>,
    /// The model.
    pub model: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// A reply of text.
    Text(String),
    /// A reply that asks for calls.
    Calls(Vec<Call>),
    /// Pages that a search found, for requests that search.
    Search(Vec<Page>),
    /// A status with a body.
    Status {
        /// The status.
        code: u16,
        /// Headers.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// The body.
        #[serde(default)]
        body: Value,
    },
    /// A stream of these bytes, piece by piece.
    Raw(Vec<String>),
    /// So many bytes of another answer's stream, and then the end of the connection.
    DropAfter {
        /// How many.
        bytes: usize,
        /// Of which answer.
        reply: Box<Answer>,
    },
    /// Another answer, once it is released by this name.
    Held {
        /// The name.
        until: String,
        /// The answer.
        reply: Box<Answer>,
    },
    /// Nothing at all.
    Hang,
}

/// A call that the model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// The arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// A page that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// Its address.
    pub url: String,
    /// What the answer takes from it.
    pub snippet: String,
}

impl Rule {
    /// A rule for every request.
    #[must_use]
    pub fn new(reply: Answer) -> Self {
        Self { provider: None, when: When::default(), reply }
    }

    /// Answers with text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::new(Answer::Text(text.to_owned()))
    }

    /// Answers with calls; arguments that are not an object count as none.
    #[must_use]
    pub fn calls<const N: usize>(calls: [(&str, Value); N]) -> Self {
        let call = |(name, arguments): (&str, Value)| Call {
            name: name.to_owned(),
            arguments: arguments.as_object().cloned().unwrap_or_default(),
        };
        Self::new(Answer::Calls(calls.map(call).into()))
    }

    /// Answers with a status.
    #[must_use]
    pub fn status(code: u16, headers: &[(&str, &str)], body: Value) -> Self {
        let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Self::new(Answer::Status { code, headers: headers.collect(), body })
    }

    /// Only for requests of this API.
    #[must_use]
    pub fn provider(self, api: Api) -> Self {
        Self { provider: Some(api), ..self }
    }

    /// Only for conversations with so many replies.
    #[must_use]
    pub fn at_turn(mut self, turn: usize) -> Self {
        self.when.turn = Some(turn);
        self
    }

    /// Only for conversations with so many results of calls.
    #[must_use]
    pub fn after_results(mut self, results: usize) -> Self {
        self.when.results = Some(results);
        self
    }

    /// Only where this tool is offered.
    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        self.when.has_tool = Some(tool.to_owned());
        self
    }

    /// Only where the last text of the user contains this.
    #[must_use]
    pub fn containing(mut self, text: &str) -> Self {
        self.when.contains = Some(text.to_owned());
        self
    }

    /// Only where the system prompt contains this.
    #[must_use]
    pub fn with_system(mut self, text: &str) -> Self {
        self.when.system = Some(text.to_owned());
        self
    }

    /// Only for this model.
    #[must_use]
    pub fn for_model(mut self, model: &str) -> Self {
        self.when.model = Some(model.to_owned());
        self
    }

    /// Breaks the answer off after so many bytes.
    #[must_use]
    pub fn dropped_after(mut self, bytes: usize) -> Self {
        self.reply = Answer::DropAfter { bytes, reply: Box::new(self.reply) };
        self
    }

    /// Holds the answer until [`super::FakeModels::release`] names it.
    #[must_use]
    pub fn held(mut self, until: &str) -> Self {
        self.reply = Answer::Held { until: until.to_owned(), reply: Box::new(self.reply) };
        self
    }
}
