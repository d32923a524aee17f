//! Rules for single strings: ids, texts that people and models read, references to the environment,
//! addresses, headers.

use drawgate_core::model::shown_name;
use drawgate_core::registry::visible_text;
use drawgate_host::egress::ranges::is_public;
use drawgate_host::secrets::has_reference;
use http::{HeaderName, HeaderValue};
use unicode_script::{Script, UnicodeScript as _};
use unicode_security::MixedScript as _;
use unicode_security::confusable_detection::skeleton;
use url::{Host, Url};

use super::super::problem::Sink;
use crate::configure::is_reserved;

/// Longest description, in characters.
const MAX_TEXT: usize = 4096;
/// Longest argument, header, address or template.
const MAX_VALUE: usize = 8192;
/// What a reference to a variable begins with.
const REFERENCE: &str = "env:";
/// Variables of the gateway itself, which hold its keys and settings.
const OWN_VARIABLES: &str = "DRAWGATE_";

/// `[a-z0-9][a-z0-9_-]{0,63}`.
pub(super) fn check_id(path: &str, id: &str, sink: &mut Sink) {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let starts = id.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    if !starts || id.len() > 64 || !id.chars().all(legal) {
        let message = format!("`{}` is not an id", shown_name(id));
        sink.add(path, message, "use 1 to 64 of `a-z 0-9 _ -`, a letter or digit first");
    }
}

/// One line that people read, not empty.
pub(super) fn check_line(path: &str, text: &str, most: usize, sink: &mut Sink) {
    if text.trim().is_empty() {
        sink.add(path, "it is empty", "say in a few words what it is");
    } else if text.chars().count() > most {
        sink.add(path, format!("it is longer than {most} characters"), "shorten it");
    }
    if text.contains(['\n', '\r', '\t']) || visible_text(text) != text {
        hidden(path, sink);
    }
    if is_disguised(text) {
        sink.add(
            path,
            "it has letters of another script that look like Latin ones",
            "write each word in one script",
        );
    }
}

/// Whether a name could be taken for another one: a word mixes scripts, or letters that are not Latin look
/// like ASCII ones throughout.
fn is_disguised(name: &str) -> bool {
    let words = name.split(|c: char| !c.is_alphanumeric());
    let is_foreign = |c: char| c.is_alphabetic() && c.script() != Script::Latin;
    words.into_iter().any(|word| !word.is_single_script())
        || (name.chars().any(is_foreign) && skeleton(name).all(|c| c.is_ascii()))
}

/// A text that people or models read. Lines may be broken.
pub(super) fn check_text(path: &str, text: &str, sink: &mut Sink) {
    if text.chars().count() > MAX_TEXT {
        sink.add(path, format!("it is longer than {MAX_TEXT} characters"), "shorten it");
    }
    if visible_text(text) != text {
        hidden(path, sink);
    }
}

fn hidden(path: &str, sink: &mut Sink) {
    sink.add(
        path,
        "it has control or invisible characters, which hide something from people who read it",
        "remove them",
    );
}

/// A value for a program or a request: a reference, or text without control characters.
pub(super) fn check_value(path: &str, text: &str, sink: &mut Sink) {
    if check_reference(path, text, sink) {
        return;
    }
    if text.len() > MAX_VALUE {
        sink.add(path, format!("it is longer than {MAX_VALUE} bytes"), "shorten it");
    }
    if text.contains(char::is_control) {
        sink.add(path, "it has control characters", "remove them");
    }
}

/// A word of a command line, which holds no secret.
pub(super) fn check_word(path: &str, text: &str, sink: &mut Sink) {
    if has_reference(text) {
        let message = "`env:NAME` can't stand in a command line, which other users can read";
        let advice = "write it in `env`, in a header of a connector with `url`, or in a file that the program reads";
        return sink.add(path, message, advice);
    }
    check_value(path, text, sink);
}

/// Whether it is a reference to the environment; a bad one is reported.
pub(super) fn check_reference(path: &str, text: &str, sink: &mut Sink) -> bool {
    let Some(name) = text.strip_prefix(REFERENCE) else { return false };
    check_variable(path, name, sink);
    true
}

/// Whether every program can have a variable of this name, and no shell takes it for a function.
pub(super) fn is_variable_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The name of a variable.
pub(super) fn check_variable(path: &str, name: &str, sink: &mut Sink) {
    if !is_variable_name(name) {
        let message = format!("`{}` is not a variable's name", shown_name(name));
        sink.add(path, message, "write one such as `env:API_TOKEN`, with nothing around it");
    } else if name.starts_with(OWN_VARIABLES) {
        let message = format!("`{}` is a variable of the gateway itself", shown_name(name));
        sink.add(path, message, "use a variable of the pack's own");
    }
}

/// The variable that a string refers to.
pub(crate) fn is_reference(text: &str) -> Option<&str> {
    text.strip_prefix(REFERENCE)
}

/// Headers, each a name and a value.
pub(super) fn check_header(path: &str, name: &str, value: &str, sink: &mut Sink) {
    let legal = HeaderName::try_from(name).ok().filter(|header| !is_reserved(header));
    if legal.is_none() {
        let message = format!("the gateway can't send a header named `{}`", shown_name(name));
        sink.add(path, message, "remove it, or correct its name");
    }
    if check_reference(path, value, sink) {
        return;
    }
    if value.split_ascii_whitespace().any(|word| word.starts_with(REFERENCE)) {
        let message = "a reference to a variable must be the whole value";
        sink.add(path, message, "put the rest, such as `Bearer `, into the variable");
    } else if HeaderValue::try_from(value).is_err() || value.len() > MAX_VALUE {
        sink.add(path, "the value can't stand in a header", "use one line of plain text");
    }
}

/// An address of HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::toolpack) struct Address {
    /// A name in lower case, or an address without brackets.
    pub(in crate::toolpack) host: String,
    pub(in crate::toolpack) port: u16,
    /// Whether it lies on this machine or in a private network, as far as its text tells.
    pub(in crate::toolpack) inner: bool,
    rule: String,
}

impl Address {
    /// As a rule about hosts: `api.example.com`, `127.0.0.1:8080`.
    pub(in crate::toolpack) fn rule(&self) -> &str {
        &self.rule
    }
}

/// Understands an address, or says what is wrong with it.
pub(in crate::toolpack) fn address(text: &str) -> Result<Address, &'static str> {
    const BAD: &str = "not an absolute address; use one such as `https://api.example.com/v1`";
    let url = Url::parse(text).map_err(|_| BAD)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only `http` and `https` addresses can be reached");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not contain a user name or password; use `headers` with `env:NAME`");
    }
    let (host, port) = (url.host().ok_or(BAD)?, url.port_or_known_default().ok_or(BAD)?);
    let (name, shown, inner) = match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_owned();
            let inner = name == "localhost" || name.ends_with(".localhost");
            (name.clone(), name, inner)
        }
        Host::Ipv4(address) => {
            (address.to_string(), address.to_string(), !is_public(address.into()))
        }
        Host::Ipv6(address) => {
            (address.to_string(), format!("[{address}]"), !is_public(address.into()))
        }
    };
    let rule = if matches!(port, 80 | 443) { shown } else { format!("{shown}:{port}") };
    Ok(Address { host: name, port, inner, rule })
}

#[cfg(test)]
mod tests {
    use super::is_disguised;

    #[test]
    fn names_in_any_script_pass_and_imitations_do_not() {
        for name in
            ["GitHub tools 2", "Größe", "Kapı", "日本語テスト GitHub", "Рост и сор", "ελληνικά"]
        {
            assert!(!is_disguised(name), "{name}");
        }
        for name in ["G\u{456}tHub", "\u{440}\u{430}\u{443}", "GitHub \u{430}\u{440}\u{440}"] {
            assert!(is_disguised(name), "{}", name.escape_unicode());
        }
    }
}
