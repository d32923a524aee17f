//! A request from a plan and arguments.
//!
//! Every value of a caller is encoded for the place where it stands: none can leave its segment of
//! the path, add a parameter, or begin a new header.

mod body;
mod encode;
mod multipart;
mod shadow;
mod style;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Map, Value};
use url::Url;

pub(super) use encode::{literal, unreserved};

use super::document::{join, shown};
use super::parameter::{BODY, Parameter, Place, Provided, Style, Writing};
use super::plan::{Piece, Plan};
use shadow::{Beside, SHADOWS};

/// Bytes of the path and the query together; servers take some 8,000.
const MAX_ADDRESS: usize = 64 * 1024;

/// A request, before credentials are put in.
#[derive(Debug, Clone, Default)]
pub(super) struct Draft {
    path: String,
    /// Encoded `name=value` pairs.
    pub(super) query: Vec<String>,
    pub(super) headers: HeaderMap,
    /// Encoded `name=value` pairs.
    pub(super) cookies: Vec<String>,
    pub(super) body: Bytes,
}

/// Why arguments can't be sent. Names the argument, never its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentError {
    #[error("`{0}` is missing")]
    Missing(String),
    #[error("`{name}`: {reason}")]
    Value { name: String, reason: &'static str },
    #[error("the arguments make an address of more than {MAX_ADDRESS} bytes")]
    TooLong,
}

impl ArgumentError {
    fn value(name: &str, reason: &'static str) -> Self {
        Self::Value { name: shown(name), reason }
    }
}

/// Writes the arguments where the plan says. `boundary` separates the parts of a multipart body and
/// must be unguessable.
pub(super) fn draft(
    plan: &Plan,
    provided: &Provided,
    arguments: &Map<String, Value>,
    boundary: &str,
) -> Result<Draft, ArgumentError> {
    let mut draft = Draft { path: path(plan, arguments)?, ..Draft::default() };
    for parameter in &plan.parameters {
        match arguments.get(&parameter.argument).filter(|value| !value.is_null()) {
            Some(value) => {
                check_names(plan, provided, parameter, value)?;
                draft.put(parameter, value)?;
            }
            None if parameter.required => {
                return Err(ArgumentError::Missing(shown(&parameter.argument)));
            }
            None => {}
        }
    }
    if let Some(body) = &plan.body {
        match arguments.get(BODY) {
            Some(value) => {
                let (media, bytes) = body::write(body, value, boundary)?;
                let media = HeaderValue::try_from(media)
                    .map_err(|_| ArgumentError::value(BODY, "its media type can't be sent"))?;
                draft.headers.insert(header::CONTENT_TYPE, media);
                draft.body = bytes;
            }
            None if body.required => return Err(ArgumentError::Missing(BODY.to_owned())),
            None => {}
        }
    }
    Ok(draft)
}

/// Refuses members that would pass for another parameter.
fn check_names(
    plan: &Plan,
    provided: &Provided,
    parameter: &Parameter,
    value: &Value,
) -> Result<(), ArgumentError> {
    let Parameter { place, name, writing, .. } = parameter;
    let has_names = match place {
        Place::Path => matches!(writing, Writing::Styled { style: Style::Matrix, .. }),
        Place::Header => false,
        Place::Query | Place::Cookie => true,
    };
    if !has_names || !(value.is_object() || value.is_array()) {
        return Ok(());
    }
    let others =
        plan.parameters.iter().filter(|other| other.place == *place && other.name != *name);
    let others = others.map(|other| other.name.as_str()).collect();
    let beside = Beside { place: *place, own: name, others, provided: Some(provided) };
    if beside.is_shadowed_by(value, *writing) {
        return Err(ArgumentError::value(&parameter.argument, SHADOWS));
    }
    Ok(())
}

impl Draft {
    fn put(&mut self, parameter: &Parameter, value: &Value) -> Result<(), ArgumentError> {
        match parameter.place {
            // The template has it already.
            Place::Path => {}
            Place::Query => self.query.extend(style::pairs(parameter, value)),
            Place::Cookie => self.cookies.extend(style::pairs(parameter, value)),
            Place::Header => {
                let bad = |reason| ArgumentError::value(&parameter.argument, reason);
                let name = HeaderName::try_from(&parameter.name)
                    .map_err(|_| bad("it can't be the name of a header"))?;
                let text = style::header(parameter, value);
                let value = HeaderValue::from_str(&text).ok().filter(|_| text.is_ascii());
                let value =
                    value.ok_or_else(|| bad("a header takes only visible ASCII characters"))?;
                self.headers.insert(name, value);
            }
        }
        Ok(())
    }

    /// The address, and the headers with the cookies among them.
    pub(super) fn finish(self, server: &Url) -> Result<(Url, HeaderMap, Bytes), ArgumentError> {
        let mut text = join(server, &self.path);
        if !self.query.is_empty() {
            text.push('?');
            text.push_str(&self.query.join("&"));
        }
        if text.len() > MAX_ADDRESS {
            return Err(ArgumentError::TooLong);
        }
        let url = Url::parse(&text)
            .map_err(|_| ArgumentError::value("path", "it does not make an address"))?;
        let mut headers = self.headers;
        if !self.cookies.is_empty() {
            let cookies = HeaderValue::try_from(self.cookies.join("; "));
            let mut cookies =
                cookies.map_err(|_| ArgumentError::value("cookie", "the cookies can't be sent"))?;
            cookies.set_sensitive(true);
            headers.insert(header::COOKIE, cookies);
        }
        Ok((url, headers, self.body))
    }
}

/// The path, each parameter in its place. A segment with a parameter in it may become neither empty
/// nor `.` nor `..`, nor hold one of them for who decodes it: the server would see another path.
fn path(plan: &Plan, arguments: &Map<String, Value>) -> Result<String, ArgumentError> {
    let mut path = String::new();
    // The parameter in the segment that is being written, and where the segment begins.
    let mut open: Option<&str> = None;
    let mut start = 0;
    for piece in &plan.path {
        match piece {
            Piece::Text(text) => {
                for (index, part) in text.split('/').enumerate() {
                    if index > 0 {
                        check_segment(path.get(start..), open.take())?;
                        path.push('/');
                        start = path.len();
                    }
                    path.push_str(part);
                }
            }
            Piece::Slot(name) => {
                let parameter = plan
                    .parameters
                    .iter()
                    .find(|one| one.place == Place::Path && one.name == *name)
                    .ok_or_else(|| ArgumentError::Missing(shown(name)))?;
                let value = arguments.get(&parameter.argument).filter(|value| !value.is_null());
                let value =
                    value.ok_or_else(|| ArgumentError::Missing(shown(&parameter.argument)))?;
                path.push_str(&style::path(parameter, value));
                open = Some(&parameter.argument);
            }
        }
    }
    check_segment(path.get(start..), open)?;
    Ok(path)
}

fn check_segment(segment: Option<&str>, parameter: Option<&str>) -> Result<(), ArgumentError> {
    let Some(parameter) = parameter else { return Ok(()) };
    let segment = segment.unwrap_or_default();
    if segment.is_empty() {
        return Err(ArgumentError::value(parameter, "must not be empty in a path"));
    }
    if has_dots(segment) {
        return Err(ArgumentError::value(parameter, "must not make `.` or `..` in a path"));
    }
    Ok(())
}

/// Whether a segment is, or holds, one that leads elsewhere, once it is decoded. Some servers read `\`
/// as `/`, and leave out what is behind a `;`.
fn has_dots(segment: &str) -> bool {
    let Some(text) = encode::decoded_fully(segment) else { return true };
    let bare = |part: &str| part.split(';').next().unwrap_or_default().trim().to_owned();
    text.split(['/', '\\']).any(|part| matches!(bare(part).as_str(), "." | ".."))
}
