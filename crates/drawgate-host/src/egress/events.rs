//! Event streams (`text/event-stream`): `data`, `event`, `id` and `retry`.

use std::time::Duration;

/// One event.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its lines of data, joined by line feeds.
    pub data: Vec<u8>,
    /// What kind of event it is; empty if the server did not say.
    pub name: Vec<u8>,
    /// Its id, by which a stream can be taken up again.
    pub id: Option<String>,
}

/// An event or a line was longer than allowed.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// Turns chunks of bytes into events.
#[derive(Debug)]
pub struct Parser {
    cap: usize,
    line: Vec<u8>,
    event: Event,
    has_data: bool,
    after_return: bool,
    retry: Option<Duration>,
}

/// Ids longer than this are not sent back.
const MAX_ID: usize = 1024;
/// The longest pause that a server may ask for.
const MAX_RETRY: Duration = Duration::from_secs(30);

impl Parser {
    /// A parser at the beginning of a stream, of which no event may be longer than `cap` bytes.
    #[must_use]
    pub fn new(cap: usize) -> Self {
        Self {
            cap,
            line: Vec::new(),
            event: Event::default(),
            has_data: false,
            after_return: false,
            retry: None,
        }
    }

    /// The pause before a reconnection that the server asked for.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Takes a chunk and hands every finished event to `found`.
    pub fn feed(&mut self, chunk: &[u8], mut found: impl FnMut(Event)) -> Result<(), TooLong> {
        let mut rest = chunk;
        // A line may end with CR, LF or both.
        if self.after_return && rest.first() == Some(&b'\n') {
            rest = rest.split_first().map_or(rest, |(_, rest)| rest);
        }
        self.after_return = false;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, tail) = rest.split_at(end);
            self.extend(line)?;
            self.finish_line(&mut found);
            rest = match tail {
                [b'\r', b'\n', tail @ ..] | [_, tail @ ..] => tail,
                [] => tail,
            };
            self.after_return = matches!(tail, [b'\r']);
        }
        self.extend(rest)
    }

    fn extend(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        // The event's data counts too, or many short lines would evade the bound.
        if self.line.len() + self.event.data.len() + piece.len() > self.cap {
            return Err(TooLong);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn finish_line(&mut self, found: &mut impl FnMut(Event)) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            if std::mem::take(&mut self.has_data) || event.id.is_some() {
                found(event);
            }
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.data(value),
            b"event" if value.len() <= MAX_ID => self.event.name = value.to_vec(),
            b"id" if value.len() <= MAX_ID => {
                self.event.id = String::from_utf8(value.to_vec()).ok();
            }
            b"retry" => self.retry = parse_retry(value),
            _ => {}
        }
    }

    fn data(&mut self, value: &[u8]) {
        if std::mem::replace(&mut self.has_data, true) {
            self.event.data.push(b'\n');
        }
        self.event.data.extend_from_slice(value);
    }
}

fn parse_retry(value: &[u8]) -> Option<Duration> {
    let milliseconds: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    Some(Duration::from_millis(milliseconds).min(MAX_RETRY))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str, chunk: usize) -> Vec<(String, Option<String>)> {
        let mut parser = Parser::new(1000);
        let mut all = Vec::new();
        for chunk in text.as_bytes().chunks(chunk) {
            parser
                .feed(chunk, |event| all.push((String::from_utf8(event.data).unwrap(), event.id)))
                .unwrap();
        }
        all
    }

    #[test]
    fn events_are_the_same_in_every_chunking_and_line_ending() {
        let text = "id: 1\ndata: a\n\n: comment\nevent: message\ndata:b\ndata: c\n\nid: 2\n\ndata: unfinished\n";
        let expected = [
            ("a".to_owned(), Some("1".to_owned())),
            ("b\nc".to_owned(), None),
            (String::new(), Some("2".to_owned())),
        ];
        for end in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', end);
            for chunk in 1..=text.len() {
                assert_eq!(events(&text, chunk), expected, "{end:?} in chunks of {chunk}");
            }
        }
    }

    #[test]
    fn length_is_bounded_by_line_and_by_event() {
        assert_eq!(Parser::new(10).feed(b"data: 0123456789", |_| ()), Err(TooLong));
        let mut parser = Parser::new(40);
        let outcome = (0..100).try_for_each(|_| parser.feed(b"data: 01\n", |_| ()));
        assert_eq!(outcome, Err(TooLong));
    }

    #[test]
    fn a_pause_is_understood_and_bounded() {
        let mut parser = Parser::new(100);
        parser.feed(b"retry: 250\n", |_| ()).unwrap();
        assert_eq!(parser.retry(), Some(Duration::from_millis(250)));
        parser.feed(b"retry: 99999999999\n", |_| ()).unwrap();
        assert_eq!(parser.retry(), Some(MAX_RETRY));
        parser.feed(b"retry: soon\n", |_| ()).unwrap();
        assert_eq!(parser.retry(), None);
    }
}
