//! Unpacking an answer, never more than the caller allows: limits count what comes out.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::header::{self, HeaderMap};

use super::error::EgressError;

/// Text packs to a tenth, and lists to a thirtieth; what grows by more is made to hurt.
const MAX_RATIO: u64 = 100;
/// Below this size the ratio says nothing.
const RATIO_FROM: u64 = 64 * 1024;
/// Packing makes nothing twice as large, but for a few bytes. Blocks without content could otherwise
/// be read for ever without filling the room.
const MAX_OVERHEAD: u64 = 64 * 1024;

/// The one layer of packing that is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip,
    Deflate,
}

impl Packing {
    /// What an answer's headers say.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, EgressError> {
        let values = headers.get_all(header::CONTENT_ENCODING).iter();
        let texts: Result<Vec<&str>, _> = values.map(http::HeaderValue::to_str).collect();
        let unreadable = |_| EgressError::Encoding("how it is packed can't be read".to_owned());
        let joined = texts.map_err(unreadable)?.join(",").to_ascii_lowercase();
        let mut layers =
            joined.split(',').map(str::trim).filter(|it| !it.is_empty() && *it != "identity");
        match (layers.next(), layers.next()) {
            (None, _) => Ok(Self::None),
            (Some("gzip" | "x-gzip"), None) => Ok(Self::Gzip),
            (Some("deflate"), None) => Ok(Self::Deflate),
            (Some(other), None) => {
                let shown: String = other.chars().take(20).collect();
                Err(EgressError::Encoding(format!("`{}` was not asked for", shown.escape_debug())))
            }
            (Some(_), Some(_)) => {
                Err(EgressError::Encoding("it is packed more than once".to_owned()))
            }
        }
    }
}

/// Whether there is room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Left,
    Full,
}

/// Takes an answer as it comes and keeps what it means.
pub(super) struct Unpacker {
    packing: Packing,
    state: State,
}

enum State {
    Start(Sink),
    Plain(Sink),
    Gzip(MultiGzDecoder<Sink>),
    Zlib(ZlibDecoder<Sink>),
    Deflate(DeflateDecoder<Sink>),
}

impl Unpacker {
    pub(super) fn new(packing: Packing, cap: usize) -> Self {
        let sink = Sink { cap, fed: 0, all: Vec::new(), stop: None };
        Self { packing, state: State::Start(sink) }
    }

    /// Takes the next piece.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<Room, EgressError> {
        let Some(first) = piece.first() else { return Ok(Room::Left) };
        self.begin(*first);
        self.sink().fed += piece.len() as u64;
        let written = match &mut self.state {
            State::Start(sink) | State::Plain(sink) => sink.write_all(piece),
            State::Gzip(decoder) => decoder.write_all(piece),
            State::Zlib(decoder) => decoder.write_all(piece),
            State::Deflate(decoder) => decoder.write_all(piece),
        };
        self.judge(written)
    }

    /// The end of the answer: what is packed must be whole.
    pub(super) fn finish(&mut self) -> Result<Room, EgressError> {
        let finished = match &mut self.state {
            State::Start(_) | State::Plain(_) => Ok(()),
            State::Gzip(decoder) => decoder.try_finish(),
            State::Zlib(decoder) => decoder.try_finish(),
            State::Deflate(decoder) => decoder.try_finish(),
        };
        // The checks of what is packed come last, and nothing comes after them.
        self.judge(finished).map_err(|error| match error {
            EgressError::Encoding(_) if self.sink().stop.is_none() => EgressError::Truncated,
            other => other,
        })
    }

    /// What has come out.
    pub(super) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.sink().all).into()
    }

    /// `deflate` means two things, which the first byte tells apart.
    fn begin(&mut self, first: u8) {
        let State::Start(sink) = &mut self.state else { return };
        let sink = std::mem::replace(sink, Sink { cap: 0, fed: 0, all: Vec::new(), stop: None });
        self.state = match self.packing {
            Packing::None => State::Plain(sink),
            Packing::Gzip => State::Gzip(MultiGzDecoder::new(sink)),
            Packing::Deflate if first & 0x0f == 8 => State::Zlib(ZlibDecoder::new(sink)),
            Packing::Deflate => State::Deflate(DeflateDecoder::new(sink)),
        };
    }

    fn sink(&mut self) -> &mut Sink {
        match &mut self.state {
            State::Start(sink) | State::Plain(sink) => sink,
            State::Gzip(decoder) => decoder.get_mut(),
            State::Zlib(decoder) => decoder.get_mut(),
            State::Deflate(decoder) => decoder.get_mut(),
        }
    }

    fn judge(&mut self, outcome: io::Result<()>) -> Result<Room, EgressError> {
        match (self.sink().stop, outcome) {
            (Some(Stop::Full), _) => Ok(Room::Full),
            (Some(Stop::Ratio), _) => Err(EgressError::Encoding(format!(
                "it grows to more than {MAX_RATIO} times its size"
            ))),
            (None, Ok(())) if self.sink().is_hollow() => {
                Err(EgressError::Encoding("it is packed to more than its size".to_owned()))
            }
            (None, Ok(())) => Ok(Room::Left),
            (None, Err(_)) => Err(EgressError::Encoding("it is damaged".to_owned())),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Stop {
    Full,
    Ratio,
}

/// Where bytes come out; refuses those that are too many.
struct Sink {
    cap: usize,
    /// Packed bytes so far.
    fed: u64,
    all: Vec<u8>,
    stop: Option<Stop>,
}

impl Sink {
    /// Whether much has gone in, and little come out.
    fn is_hollow(&self) -> bool {
        let out = self.all.len() as u64;
        self.fed > out.saturating_mul(2).saturating_add(MAX_OVERHEAD)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.cap.saturating_sub(self.all.len());
        let (fitting, rest) = bytes.split_at(bytes.len().min(room));
        self.all.extend_from_slice(fitting);
        let out = self.all.len() as u64;
        if out > RATIO_FROM && out > self.fed.saturating_mul(MAX_RATIO) {
            self.stop = Some(Stop::Ratio);
        } else if !rest.is_empty() {
            self.stop = Some(Stop::Full);
        }
        if self.stop.is_some() {
            return Err(io::Error::other("there is no more room"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
