//! Messages that can't be parsed: whose answer one was, so that its call fails at once and does not
//! wait for its deadline.

use drawgate_core::json::{self, JsonError, Outermost};
use drawgate_core::source::SourceError;
use serde_json::Value;

use super::wire::Envelope;

/// A message that can't be parsed.
#[derive(Debug)]
pub struct Unreadable {
    /// Whose answer it was.
    pub whose: Whose,
    error: JsonError,
}

/// Whose answer an unreadable message was.
#[derive(Debug, PartialEq, Eq)]
pub enum Whose {
    /// That of the request with this id.
    Request(u64),
    /// An answer, but its id can't be found.
    Unclear,
    /// No answer: a request or a notification of the server's, or no message of the protocol.
    Nobodys,
}

impl Unreadable {
    /// For the call that the message answered.
    #[must_use]
    pub fn to_error(&self) -> SourceError {
        let fault = self.error.about_answer();
        SourceError::Protocol(format!("the server's answer can't be read: {fault}"))
    }
}

/// The messages in one text: a single one, or a batch, as revision 2025-03-26 of MCP lets servers send.
#[derive(Debug)]
pub struct Messages {
    first: Option<Envelope>,
    batch: std::vec::IntoIter<Value>,
}

impl Iterator for Messages {
    type Item = Envelope;

    fn next(&mut self) -> Option<Envelope> {
        self.first.take().or_else(|| self.batch.next().map(Envelope::from))
    }
}

/// Parses what a server sent at once.
pub fn read(bytes: &[u8]) -> Result<Messages, Unreadable> {
    let read = json::parse_members_lossy(bytes, Envelope::MEMBERS);
    let (first, batch) = match read.map_err(|error| Unreadable { whose: whose(bytes), error })? {
        Outermost::Object(members) => (Some(Envelope::of(members)), Vec::new()),
        Outermost::Other(Value::Array(batch)) => (None, batch),
        Outermost::Other(_) => (Some(Envelope::default()), Vec::new()),
    };
    Ok(Messages { first, batch: batch.into_iter() })
}

/// Looks at the members of the outermost object, as far as they can be told apart: nothing but nesting
/// and strings is understood. Servers write to their output by mistake too, so what does not have the
/// members of an answer is none.
fn whose(bytes: &[u8]) -> Whose {
    let (mut id, mut answers) = (None, false);
    let mut depth = 0_usize;
    let mut rest = bytes.trim_ascii_start();
    let outermost = match rest.first() {
        Some(b'{') => 1,
        // A batch. Which of its answers is at fault can't be told.
        Some(b'[') => 2,
        _ => return Whose::Nobodys,
    };
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let (text, tail) = string(rest);
                rest = tail;
                let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else { continue };
                match text {
                    _ if depth != outermost => {}
                    b"result" | b"error" => answers = true,
                    b"method" if outermost == 1 => return Whose::Nobodys,
                    b"id" if outermost == 1 => id = number(value),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    match (answers, id) {
        (true, Some(id)) => Whose::Request(id),
        (true, None) => Whose::Unclear,
        (false, _) => Whose::Nobodys,
    }
}

/// A string after its first quotation mark, and what follows it.
fn string(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let end = bytes.iter().position(|byte| {
        let ends = !escaped && *byte == b'"';
        escaped = !escaped && *byte == b'\\';
        ends
    });
    let (text, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    (text, rest.strip_prefix(b"\"").unwrap_or(rest))
}

fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii_start();
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    std::str::from_utf8(value.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_found_in_what_can_not_be_parsed() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let cases = [
            (
                format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"id":8,"x":{deep}}}}}"#),
                Whose::Request(7),
            ),
            (format!(r#"{{"result":{{"x":{deep}}},"jsonrpc":"2.0","id" : 7}}"#), Whose::Request(7)),
            (format!(r#"{{"error":{deep},"id":7}}"#), Whose::Request(7)),
            (r#"{"id":7,"result":{"text":"\"id\":9, cut off"#.to_owned(), Whose::Request(7)),
            (r#"{"id":7,"id":7,"result":{}}"#.to_owned(), Whose::Request(7)),
            (r#"{"id":"7","result":1e999}"#.to_owned(), Whose::Request(7)),
            (r#"{"id":7,"result":NaN}"#.to_owned(), Whose::Request(7)),
            (r#"{"jsonrpc":"2.0","result":{"text":"cut off"#.to_owned(), Whose::Unclear),
            (format!(r#"{{"method":"ping","id":7,"params":{deep}}}"#), Whose::Nobodys),
            (format!(r#"{{"params":{deep},"id":7,"method":"ping"}}"#), Whose::Nobodys),
            (r"{ id: 7, result: 1 }".to_owned(), Whose::Nobodys),
            ("{".to_owned(), Whose::Nobodys),
            (r#"Server says "id": 7, "result": 1"#.to_owned(), Whose::Nobodys),
            (format!(r#"[{{"id":7,"result":{deep}}}]"#), Whose::Unclear),
            (r#"[INFO] {"id":7,"result":1}"#.to_owned(), Whose::Nobodys),
        ];
        for (text, expected) in cases {
            let read = read(text.as_bytes()).map(drop);
            assert_eq!(read.map_err(|error| error.whose), Err(expected), "{text}");
        }
    }
}
