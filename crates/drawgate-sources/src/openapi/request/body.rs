//! The body from its argument.

use base64::Engine as _;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::multipart::{self, Content};
use super::shadow::{Beside, SHADOWS};
use super::{ArgumentError, style};
use crate::openapi::body::{BodyKind, BodyPlan, Form, FormField, Part};
use crate::openapi::parameter::{BODY, Place, Reserved, Style, Writing};
use std::collections::BTreeMap;

/// Models forget the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The media type and the bytes.
pub(super) fn write(
    plan: &BodyPlan,
    value: &Value,
    boundary: &str,
) -> Result<(String, Bytes), ArgumentError> {
    let media = plan.media.clone();
    let bytes = match &plan.kind {
        BodyKind::Json => value.to_string().into(),
        BodyKind::Form(form) => write_form(object(value)?, form)?.into(),
        BodyKind::Multipart(parts) => {
            let body = multipart::write(&contents(object(value)?, parts)?, boundary);
            return Ok((format!("{media}; boundary={boundary}"), body));
        }
        BodyKind::Text => style::plain(value).into(),
        BodyKind::Binary => decoded(BODY, value)?,
    };
    Ok((media, bytes))
}

fn object(value: &Value) -> Result<&Map<String, Value>, ArgumentError> {
    value.as_object().ok_or_else(|| ArgumentError::value(BODY, "must be an object"))
}

/// What the document does not say about a field: lists are repeated, objects are JSON.
fn write_form(map: &Map<String, Value>, form: &Form) -> Result<String, ArgumentError> {
    let mut pairs = Vec::new();
    let others = map.keys().chain(&form.names).map(String::as_str).collect();
    let mut beside = Beside { place: Place::Query, own: "", others, provided: None };
    for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let stated = form.fields.get(name).copied();
        let unstated = FormField { writing: usual(value), reserved: Reserved::Encoded };
        let FormField { writing, reserved } = stated.unwrap_or(unstated);
        beside.own = name;
        if beside.is_shadowed_by(value, writing) {
            return Err(ArgumentError::value(name, SHADOWS));
        }
        pairs.extend(style::field(name, value, writing, reserved));
    }
    Ok(pairs.join("&"))
}

fn usual(value: &Value) -> Writing {
    match value {
        Value::Object(_) => Writing::Json,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Writing::Styled { style: Style::Form, explode: true }
        }
    }
}

fn contents<'a>(
    map: &'a Map<String, Value>,
    parts: &'a BTreeMap<String, Part>,
) -> Result<Vec<Content<'a>>, ArgumentError> {
    let mut found = Vec::new();
    for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let part = parts.get(name);
        match value {
            Value::Array(list) => {
                for item in list {
                    found.push(content(name, item, part)?);
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_) => found.push(content(name, value, part)?),
        }
    }
    Ok(found)
}

fn content<'a>(
    name: &'a str,
    value: &Value,
    part: Option<&'a Part>,
) -> Result<Content<'a>, ArgumentError> {
    let media = part.and_then(|part| part.media.as_deref());
    if part.is_some_and(|part| part.is_file) {
        let bytes = decoded(name, value)?;
        let media = Some(media.unwrap_or("application/octet-stream"));
        return Ok(Content { name, file: true, media, bytes });
    }
    let is_json = value.is_object() || value.is_array();
    let media = media.or(is_json.then_some("application/json"));
    let text = match media {
        Some(media) if crate::openapi::media::is_json(media) => value.to_string(),
        _ => style::plain(value),
    };
    Ok(Content { name, file: false, media, bytes: text.into() })
}

fn decoded(name: &str, value: &Value) -> Result<Bytes, ArgumentError> {
    let text = value.as_str().map(|text| text.split_whitespace().collect::<String>());
    let bytes = text.and_then(|text| BASE64.decode(text).ok());
    bytes.map(Bytes::from).ok_or_else(|| ArgumentError::value(name, "must be text in base64"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// How many fields a caller sends, and how many members one of them has.
    const MANY: usize = 20_000;

    /// Comparing each member with each field would not end.
    #[test]
    fn many_members_stand_beside_many_fields() {
        let members = (0..MANY).map(|n| (format!("member{n}"), json!(n))).collect();
        let mut map: Map<String, Value> =
            (0..MANY).map(|n| (format!("field{n}"), json!([n]))).collect();
        map.insert("apart".to_owned(), Value::Object(members));
        let writing = Writing::Styled { style: Style::Form, explode: true };
        let apart = FormField { writing, reserved: Reserved::Encoded };
        let form = Form {
            fields: [("apart".to_owned(), apart)].into(),
            names: ["known".to_owned()].into(),
        };

        let written = write_form(&map, &form).unwrap();
        assert_eq!(written.split('&').count(), 2 * MANY);

        for taken in ["field19999", "FIELD0", "known[]"] {
            let mut map = map.clone();
            map["apart"][taken] = json!(1);
            let refused = ArgumentError::value("apart", SHADOWS);
            assert_eq!(write_form(&map, &form), Err(refused), "{taken}");
        }
    }
}
