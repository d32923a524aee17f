//! Connectors: each with the settings of its type, and of no other.

use std::collections::BTreeMap;

use drawgate_core::model::shown_name;
use drawgate_host::egress::Admission;
use serde_json::Value;

use super::super::problem::{Sink, element, member};
use super::super::types::Connector;
use super::Draft;
use super::programs::check_program;
use super::text::{
    address, check_header, check_id, check_reference, check_text, check_value, check_word,
    is_variable_name,
};
use super::variables::check_given;

/// Most arguments, headers and variables of a connector.
const MAX_VALUES: usize = 256;

pub(super) fn check(draft: &Draft, sink: &mut Sink) {
    let mut places: BTreeMap<&str, String> = BTreeMap::new();
    for (index, connector) in draft.connectors.iter().enumerate() {
        let path = element("$.connectors", index);
        let Some(connector) = connector else { continue };
        let id_path = member(&path, "id");
        if !sink.knows(&id_path) {
            check_id(&id_path, &connector.id, sink);
            if let Some(first) = places.get(connector.id.as_str()) {
                let message = format!("the id `{}` is used twice", shown_name(&connector.id));
                sink.add(&id_path, message, format!("the first is {first}; give each its own"));
            } else {
                places.insert(&connector.id, id_path);
            }
        }
        if let Some(description) = &connector.description {
            check_text(&member(&path, "description"), description, sink);
        }
        sections(draft, connector, &path, sink);
    }
}

fn sections(draft: &Draft, connector: &Connector, path: &str, sink: &mut Sink) {
    let kind = connector.kind.as_str();
    for other in connector.sections.keys().filter(|other| *other != kind) {
        let message = format!("it has no meaning in a connector of type `{kind}`");
        sink.add(&member(path, other), message, "remove it, or change `type`");
    }
    let path = member(path, kind);
    match (connector.settings(), draft.kinds.connector(kind)) {
        (Some(settings), _) => {
            settings.check(&mut ConnectorCheck::new(draft, connector, path, sink));
        }
        (None, Some(known)) if !sink.knows(&path) => {
            let message = format!("`{kind}` is missing; a connector of type `{kind}` needs it");
            sink.add(&path, message, format!("add `{}`", known.example()));
        }
        (None, Some(_) | None) => {}
    }
}

/// Collects what is wrong with the settings of one connector. Keys are members of the settings; an
/// empty one stands for the settings as a whole.
pub struct ConnectorCheck<'a> {
    draft: &'a Draft,
    connector: &'a Connector,
    path: String,
    sink: &'a mut Sink,
}

impl<'a> ConnectorCheck<'a> {
    pub(super) fn new(
        draft: &'a Draft,
        connector: &'a Connector,
        path: String,
        sink: &'a mut Sink,
    ) -> Self {
        Self { draft, connector, path, sink }
    }

    /// Adds a problem, with what to do about it.
    pub fn problem(&mut self, key: &str, message: impl Into<String>, advice: &str) {
        self.sink.add(&self.at(key), message, advice);
    }

    /// Adds a problem whose message says what to do.
    pub fn fault(&mut self, key: &str, message: impl Into<String>) {
        self.sink.fault(&self.at(key), message);
    }

    /// Adds a problem of one member of an object.
    pub fn fault_in(&mut self, key: &str, inner: &str, message: impl Into<String>) {
        self.sink.fault(&member(&self.at(key), inner), message);
    }

    /// Whether something is known to be wrong there, or inside.
    #[must_use]
    pub fn knows(&self, key: &str) -> bool {
        self.sink.knows(&self.at(key))
    }

    /// Checks the name or the path of a program.
    pub fn program(&mut self, key: &str, program: &str) {
        let path = self.at(key);
        check_word(&path, program, self.sink);
        if !self.sink.knows(&path) {
            check_program(self.draft, &path, program, self.sink);
        }
    }

    /// Checks the arguments of a program.
    pub fn words(&mut self, key: &str, words: &[String]) {
        let path = self.at(key);
        few(&path, words.len(), self.sink);
        for (index, word) in words.iter().enumerate() {
            check_word(&element(&path, index), word, self.sink);
        }
    }

    /// Checks the variables of a program.
    pub fn variables(&mut self, key: &str, env: &BTreeMap<String, String>) {
        let path = self.at(key);
        few(&path, env.len(), self.sink);
        for (name, value) in env {
            let path = member(&path, name);
            if is_variable_name(name) {
                check_given(&path, name, self.sink);
            } else {
                let message = format!("`{}` is not a variable's name", shown_name(name));
                self.sink.add(&path, message, "use letters, digits and `_`");
            }
            check_value(&path, value, self.sink);
        }
    }

    /// Checks the headers of requests.
    pub fn headers(&mut self, key: &str, headers: &BTreeMap<String, String>) {
        let path = self.at(key);
        few(&path, headers.len(), self.sink);
        for (name, value) in headers {
            check_header(&member(&path, name), name, value, self.sink);
        }
    }

    /// Whether a text is a reference to the environment; a bad one is reported.
    pub fn reference(&mut self, key: &str, text: &str) -> bool {
        check_reference(&self.at(key), text, self.sink)
    }

    /// Checks every text in a member as one that may be a reference to the environment.
    pub fn references(&mut self, key: &str) {
        let path = self.at(key);
        let written = self.connector.section().and_then(|section| section.get(key));
        let sink = &mut *self.sink;
        strings(written.unwrap_or(&Value::Null), &path, &mut |path, text| {
            check_reference(path, text, sink);
        });
    }

    /// Checks an address, or a reference to one.
    pub fn address(&mut self, key: &str, text: &str) {
        if !self.reference(key, text) {
            self.declared(key, text);
        }
    }

    /// Checks an address. One of this machine or of a private network must be declared, so that
    /// whoever installs the pack reads of it.
    pub fn declared(&mut self, key: &str, text: &str) {
        let path = self.at(key);
        match address(text) {
            Err(reason) => self.sink.fault(&path, reason),
            Ok(address) if address.inner => {
                let admitted = self.draft.reach().admits(&address.host, address.port);
                if admitted != Admission::Anywhere {
                    let rule = address.rule();
                    let message = format!("`{rule}` is on this machine or in a private network");
                    let advice =
                        format!("declare it: `\"permissions\": {{ \"hosts\": [\"{rule}\"] }}`");
                    self.sink.add(&path, message, advice);
                }
            }
            Ok(_) => {}
        }
    }

    fn at(&self, key: &str) -> String {
        if key.is_empty() { self.path.clone() } else { format!("{}.{key}", self.path) }
    }
}

fn strings(value: &Value, path: &str, look: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => look(path, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                strings(item, &element(path, index), look);
            }
        }
        Value::Object(map) => {
            for (key, value) in map {
                strings(value, &member(path, key), look);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn few(path: &str, count: usize, sink: &mut Sink) {
    if count > MAX_VALUES {
        sink.add(path, format!("{count} are too many"), format!("use at most {MAX_VALUES}"));
    }
}
