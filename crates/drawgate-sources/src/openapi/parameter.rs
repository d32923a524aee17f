//! Parameters of an operation: where they stand in a request, and how they are written there.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::document::{Document, ReferenceError, reference, shown};
use crate::reserved;

/// Parameters of one operation.
const MAX_PARAMETERS: usize = 500;
/// Characters of an argument's name; model APIs take no more.
const MAX_ARGUMENT: usize = 64;
/// The argument that holds the body.
pub(super) const BODY: &str = "body";

/// Headers that belong to the answer's form or to the credentials.
const RESERVED_HEADERS: [&str; 3] = ["accept", "authorization", "cookie"];

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

impl Place {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Path, Self::Query, Self::Header, Self::Cookie]
            .into_iter()
            .find(|place| place.as_str() == text)
    }
}

/// How lists and objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    SpaceDelimited,
    PipeDelimited,
    DeepObject,
}

impl Style {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "simple" => Self::Simple,
            "label" => Self::Label,
            "matrix" => Self::Matrix,
            "form" => Self::Form,
            "spaceDelimited" => Self::SpaceDelimited,
            "pipeDelimited" => Self::PipeDelimited,
            "deepObject" => Self::DeepObject,
            _ => return None,
        })
    }

    /// Whether lists and objects are written apart by default.
    pub(super) fn explodes(self) -> bool {
        matches!(self, Self::Form | Self::DeepObject)
    }

    fn fits(self, place: Place) -> bool {
        match place {
            Place::Path => matches!(self, Self::Simple | Self::Label | Self::Matrix),
            Place::Query => !matches!(self, Self::Simple | Self::Label | Self::Matrix),
            Place::Header => self == Self::Simple,
            Place::Cookie => self == Self::Form,
        }
    }
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// By a style.
    Styled {
        /// Which.
        style: Style,
        /// Whether each item or member is written apart.
        explode: bool,
    },
    /// As one JSON text.
    Json,
}

/// What becomes of characters that mean something in an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reserved {
    /// They are encoded.
    Encoded,
    /// They stay, but for those that would end the value.
    Kept,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameter {
    /// Its name in the request.
    pub(super) name: String,
    /// Its name among the arguments.
    pub(super) argument: String,
    pub(super) place: Place,
    pub(super) writing: Writing,
    pub(super) reserved: Reserved,
    pub(super) required: bool,
}

/// A parameter with what only its definition needs.
pub(super) struct Described<'a> {
    pub(super) parameter: Parameter,
    pub(super) schema: Option<&'a Value>,
    pub(super) description: Option<&'a str>,
}

/// Why an operation can't be offered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A reference leads nowhere.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// There is no address to send it to.
    #[error(transparent)]
    Server(#[from] super::document::ServerError),
    /// A parameter can't be written.
    #[error("parameter `{}`: {reason}", shown(name))]
    Parameter {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The path is not a template.
    #[error("the path `{}` is not a template; each `{{` needs its `}}`", shown(.0))]
    Template(String),
    /// There are too many parameters.
    #[error("the operation has more than {MAX_PARAMETERS} parameters")]
    TooMany,
}

/// What the connector itself sets, which no caller can: names as [`folded`] gives them.
pub(super) type Provided = BTreeSet<(Place, String)>;

/// A name as the most careless server compares it. In a query, some look at no case, take `name[x]`
/// and `name` for one, cut at a zero, or read `.` and a space as `_`; in headers, `_` as `-`.
pub(super) fn folded(place: Place, name: &str) -> String {
    match place {
        Place::Path => name.to_owned(),
        Place::Header => reserved::folded(name),
        Place::Query | Place::Cookie => {
            let bare = name.trim().split(['[', '\0']).next().unwrap_or_default();
            bare.to_ascii_lowercase().replace(['.', ' '], "_")
        }
    }
}

/// The parameters of an operation: its own, and those of its path that it does not replace.
pub(super) fn collect<'a>(
    document: &'a Document,
    item: &'a Map<String, Value>,
    node: &'a Map<String, Value>,
    slots: &[&'a str],
    provided: &Provided,
) -> Result<Vec<Described<'a>>, PlanError> {
    let mut found: Vec<Described<'a>> = Vec::new();
    for source in [node, item] {
        for value in source.get("parameters").and_then(Value::as_array).into_iter().flatten() {
            let value = reference::resolve(document.root(), value)?;
            let Some(described) = describe(document, value)? else { continue };
            let is_known = found.iter().any(|other| same(&other.parameter, &described.parameter));
            if !is_known && is_offered(&described.parameter, slots, provided) {
                found.push(described);
            }
            if found.len() > MAX_PARAMETERS {
                return Err(PlanError::TooMany);
            }
        }
    }
    // Authors forget to declare what stands in the path.
    for slot in slots {
        let stands =
            |one: &Described<'_>| one.parameter.place == Place::Path && one.parameter.name == *slot;
        if !found.iter().any(stands) {
            found.push(undeclared(slot));
        }
    }
    name_arguments(&mut found);
    Ok(found)
}

fn same(left: &Parameter, right: &Parameter) -> bool {
    left.place == right.place
        && match left.place {
            Place::Header => left.name.eq_ignore_ascii_case(&right.name),
            Place::Path | Place::Query | Place::Cookie => left.name == right.name,
        }
}

fn is_offered(parameter: &Parameter, slots: &[&str], provided: &Provided) -> bool {
    let name = folded(parameter.place, &parameter.name);
    let is_possible = match parameter.place {
        Place::Path => slots.contains(&parameter.name.as_str()),
        Place::Header => {
            let header = http::HeaderName::try_from(&parameter.name);
            let is_free = header.is_ok_and(|header| !reserved::is_of_gateway(&header));
            is_free && !RESERVED_HEADERS.contains(&name.as_str())
        }
        Place::Query | Place::Cookie => true,
    };
    is_possible && !provided.contains(&(parameter.place, name))
}

fn describe<'a>(
    document: &'a Document,
    value: &'a Value,
) -> Result<Option<Described<'a>>, PlanError> {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let (Some(name), Some(place)) = (text("name"), text("in").and_then(Place::parse)) else {
        return Ok(None);
    };
    let bad = |reason| PlanError::Parameter { name: name.to_owned(), reason };
    if place == Place::Header && http::HeaderName::try_from(name).is_err() {
        return Err(bad("its name can't be the name of a header"));
    }
    let is_true = |key: &str| value.get(key) == Some(&Value::Bool(true));
    let content = value.get("content").and_then(Value::as_object).and_then(|map| map.iter().next());
    let (writing, schema) = match content {
        Some((media, inner)) => {
            let inner = reference::resolve(document.root(), inner)?;
            let writing = if super::media::is_json(media) { Writing::Json } else { plain(place) };
            (writing, inner.get("schema"))
        }
        None => (styled(place, value).map_err(bad)?, value.get("schema")),
    };
    let reserved = if is_true("allowReserved") && place == Place::Query {
        Reserved::Kept
    } else {
        Reserved::Encoded
    };
    Ok(Some(Described {
        parameter: Parameter {
            name: name.to_owned(),
            argument: String::new(),
            place,
            writing,
            reserved,
            required: is_true("required") || place == Place::Path,
        },
        schema,
        description: text("description"),
    }))
}

fn styled(place: Place, value: &Value) -> Result<Writing, &'static str> {
    let style = match value.get("style") {
        None | Some(Value::Null) => usual(place),
        Some(style) => style
            .as_str()
            .and_then(Style::parse)
            .filter(|style| style.fits(place))
            .ok_or("its `style` is unknown, or not for where it stands")?,
    };
    let explode = value.get("explode").and_then(Value::as_bool).unwrap_or(style.explodes());
    Ok(Writing::Styled { style, explode })
}

const fn usual(place: Place) -> Style {
    match place {
        Place::Path | Place::Header => Style::Simple,
        Place::Query | Place::Cookie => Style::Form,
    }
}

const fn plain(place: Place) -> Writing {
    Writing::Styled { style: usual(place), explode: false }
}

fn undeclared(slot: &str) -> Described<'_> {
    let parameter = Parameter {
        name: slot.to_owned(),
        argument: String::new(),
        place: Place::Path,
        writing: plain(Place::Path),
        reserved: Reserved::Encoded,
        required: true,
    };
    Described { parameter, schema: None, description: None }
}

/// Each argument gets the parameter's own name, made legal; where two would have the same, each says
/// where it stands: `path_id`, `query_id`.
fn name_arguments(found: &mut [Described<'_>]) {
    let plain: Vec<String> = found.iter().map(|one| legal(&one.parameter.name)).collect();
    let mut taken = BTreeSet::from([BODY.to_owned()]);
    let uses = |name: &str| plain.iter().filter(|other| *other == name).count();
    for (one, name) in found.iter_mut().zip(&plain) {
        let place = one.parameter.place.as_str();
        let clashes = name == BODY || name.is_empty() || uses(name) > 1;
        let stem = if clashes { format!("{place}_{name}") } else { name.clone() };
        let mut argument: String = stem.chars().take(MAX_ARGUMENT).collect();
        let mut number = 1;
        while !taken.insert(argument.clone()) {
            number += 1;
            let head: String = stem.chars().take(MAX_ARGUMENT - 5).collect();
            argument = format!("{head}_{number}");
        }
        one.parameter.argument = argument;
    }
}

/// Letters, digits, `_`, `.` and `-`, which all model APIs take.
fn legal(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    let replaced: String = name.chars().take(MAX_ARGUMENT).map(plain).collect();
    if replaced == name { replaced } else { replaced.trim_matches('_').to_owned() }
}
