//! The types of the members that protocols define on definitions and results.
//!
//! Many clients check a whole list at once and lose all of it, the tools of every source, if one member
//! of one definition has the wrong type. What does not fit these tables is left out before it reaches a
//! caller. Members that no table names pass as they are: later revisions of protocols add some.

use std::fmt;

use serde_json::{Map, Value};

use super::{Operation, ToolOutput};

/// Most items that are left out of a list one by one; with more, the list is left out. Each costs memory, and a
/// move of all items behind it.
const MAX_UNFIT: usize = 64;

/// The members of an object, in groups that tables share.
pub type Form = &'static [&'static [Member]];

/// A member that a protocol defines.
pub struct Member {
    name: &'static str,
    need: Need,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Need {
    /// Without it, or with another type, the object itself does not fit.
    Required,
    /// It is left out if it does not fit.
    Optional,
}

enum Kind {
    Text,
    /// A text that begins with a scheme, as in `file:`.
    Uri,
    /// A picture's address, `http:`, `https:` or `data:`. A client may show it, and any other scheme could do more.
    Picture,
    /// `2026-01-31T12:00:00Z`, with any offset.
    Time,
    Flag,
    Number,
    Integer,
    /// A number from 0 to 1.
    Share,
    TextOrNumber,
    Choice(&'static [&'static str]),
    Object(Form),
    List(&'static Kind, Whole),
    /// A content block, whose `type` says which members it has.
    Block,
}

/// Whether each item of a list stays.
#[derive(Clone, Copy, PartialEq)]
enum Whole {
    /// It is what an answer consists of.
    Yes,
    /// What does not fit is left out.
    No,
}

const fn required(name: &'static str, kind: Kind) -> Member {
    Member { name, need: Need::Required, kind }
}

const fn optional(name: &'static str, kind: Kind) -> Member {
    Member { name, need: Need::Optional, kind }
}

/// A tool. Its schemas are checked where they are compiled.
pub const TOOL: Form = &[
    DESCRIBED,
    &[
        NAMED,
        optional("annotations", Kind::Object(TOOL_ANNOTATIONS)),
        optional("execution", Kind::Object(&[&[optional("taskSupport", TASK_SUPPORT)]])),
    ],
];
/// What protocols say about a tool.
pub const TOOL_ANNOTATIONS: Form = &[&[
    optional("title", Kind::Text),
    optional("readOnlyHint", Kind::Flag),
    optional("destructiveHint", Kind::Flag),
    optional("idempotentHint", Kind::Flag),
    optional("openWorldHint", Kind::Flag),
]];
/// A resource.
pub const RESOURCE: Form = &[
    DESCRIBED,
    FILE,
    &[PERHAPS_NAMED, required("uri", Kind::Uri), optional("size", Kind::Integer)],
];
/// A family of resources.
pub const TEMPLATE: Form =
    &[DESCRIBED, FILE, &[PERHAPS_NAMED, required("uriTemplate", Kind::Text)]];
/// A prompt.
pub const PROMPT: Form = &[
    DESCRIBED,
    &[NAMED, optional("arguments", Kind::List(&Kind::Object(PROMPT_ARGUMENT), Whole::No))],
];
/// A report on a running call.
pub const PROGRESS: Form = &[&[
    required("progress", Kind::Number),
    optional("total", Kind::Number),
    optional("message", Kind::Text),
    META,
]];
/// A message for a caller's log.
pub const LOG_MESSAGE: Form =
    &[&[required("level", Kind::Text), optional("logger", Kind::Text), META]];

const TASK_SUPPORT: Kind = Kind::Choice(&["required", "optional", "forbidden"]);
const META: Member = optional("_meta", Kind::Object(&[]));
const ANNOTATIONS: Member = optional(
    "annotations",
    Kind::Object(&[&[
        optional("audience", Kind::List(&ROLE, Whole::No)),
        optional("priority", Kind::Share),
        optional("lastModified", Kind::Time),
    ]]),
);
const ROLE: Kind = Kind::Choice(&["user", "assistant"]);
const NAMED: Member = required("name", Kind::Text);
/// A resource that has no name is listed under its URI.
const PERHAPS_NAMED: Member = optional("name", Kind::Text);
const DESCRIBED: &[Member] = &[
    optional("title", Kind::Text),
    optional("description", Kind::Text),
    optional("icons", Kind::List(&Kind::Object(ICON), Whole::No)),
    META,
];
const FILE: &[Member] = &[optional("mimeType", Kind::Text), ANNOTATIONS];
const ICON: Form = &[&[
    required("src", Kind::Picture),
    optional("mimeType", Kind::Text),
    optional("sizes", Kind::List(&Kind::Text, Whole::No)),
    optional("theme", Kind::Choice(&["light", "dark"])),
]];
const PROMPT_ARGUMENT: Form = &[&[
    required("name", Kind::Text),
    optional("title", Kind::Text),
    optional("description", Kind::Text),
    optional("required", Kind::Flag),
]];

const TEXT_BLOCK: Form = &[&[required("text", Kind::Text), ANNOTATIONS, META]];
const BINARY_BLOCK: Form =
    &[&[required("data", Kind::Text), required("mimeType", Kind::Text), ANNOTATIONS, META]];
const RESOURCE_BLOCK: Form = &[&[required("resource", Kind::Object(CONTENTS)), ANNOTATIONS, META]];
/// What is in a resource: one of `text` and `blob`.
const CONTENTS: Form = &[&[
    required("uri", Kind::Text),
    optional("mimeType", Kind::Text),
    optional("text", Kind::Text),
    optional("blob", Kind::Text),
    META,
]];

/// The members of every result, and how long it may be kept.
const RESULT: &[Member] = &[
    optional(
        "_meta",
        Kind::Object(&[&[
            optional("progressToken", Kind::TextOrNumber),
            optional(
                "io.modelcontextprotocol/related-task",
                Kind::Object(&[&[required("taskId", Kind::Text)]]),
            ),
        ]]),
    ),
    optional("ttlMs", Kind::Integer),
    optional("cacheScope", Kind::Choice(&["public", "private"])),
];
/// What a tool's result has beside its content.
const TOOL_RESULT: Form = &[RESULT, &[optional("isError", Kind::Flag)]];
const READ_RESULT: Form =
    &[RESULT, &[optional("contents", Kind::List(&Kind::Object(CONTENTS), Whole::Yes))]];
const PROMPT_RESULT: Form = &[
    RESULT,
    &[
        optional("description", Kind::Text),
        optional("messages", Kind::List(&Kind::Object(PROMPT_MESSAGE), Whole::Yes)),
    ],
];
const PROMPT_MESSAGE: Form = &[&[required("role", ROLE), required("content", Kind::Block)]];
const COMPLETION_RESULT: Form = &[
    RESULT,
    &[optional(
        "completion",
        Kind::Object(&[&[
            required("values", Kind::List(&Kind::Text, Whole::No)),
            optional("total", Kind::Integer),
            optional("hasMore", Kind::Flag),
        ]]),
    )],
];
const PLAIN_RESULT: Form = &[RESULT];

/// What does not fit, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    place: Vec<Step>,
    why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Member(&'static str),
    Item(usize),
}

impl fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut place = String::new();
        for step in &self.place {
            match step {
                Step::Member(name) if place.is_empty() => place.push_str(name),
                Step::Member(name) => place = format!("{place}.{name}"),
                Step::Item(index) => place = format!("{place}[{index}]"),
            }
        }
        match place.as_str() {
            "" => formatter.write_str(&self.why),
            place => write!(formatter, "`{place}` {}", self.why),
        }
    }
}

/// What must be left out of a definition; an error if it does not fit as a whole.
pub fn misfits(form: Form, value: &Value) -> Result<Vec<Misfit>, Misfit> {
    let mut found = Vec::new();
    match object(form, value, &mut found) {
        Ok(()) => Ok(found),
        Err(why) => Err(Misfit { place: Vec::new(), why }),
    }
}

/// Leaves out what does not fit; an error if the whole does not.
pub fn fit(form: Form, value: &mut Value) -> Result<(), Misfit> {
    let found = misfits(form, value)?;
    remove(value, &found);
    Ok(())
}

/// The same for what has one reader: what does not fit as a whole is passed on as it is.
pub fn fit_members(form: Form, members: &mut Map<String, Value>) {
    let mut value = Value::Object(std::mem::take(members));
    let _unfit = fit(form, &mut value);
    if let Value::Object(fitting) = value {
        *members = fitting;
    }
}

/// Leaves out of a source's answer what does not fit.
pub(crate) fn fit_output(operation: Operation, output: &mut ToolOutput) {
    let form = match operation {
        Operation::CallTool => TOOL_RESULT,
        Operation::ReadResource => READ_RESULT,
        Operation::GetPrompt => PROMPT_RESULT,
        Operation::Complete => COMPLETION_RESULT,
        Operation::Subscribe | Operation::Unsubscribe | Operation::SetLogLevel => PLAIN_RESULT,
    };
    for content in &mut output.content {
        let mut found = Vec::new();
        if block(content, &mut found).is_ok() {
            remove(content, &found);
        }
    }
    if !output.rest.is_empty() {
        fit_members(form, &mut output.rest);
    }
}

/// Notes what must be left out of an object, or says why it does not fit itself.
fn object(form: Form, value: &Value, found: &mut Vec<Misfit>) -> Result<(), String> {
    let Value::Object(map) = value else { return Err("must be an object".to_owned()) };
    for Member { name, need, kind } in form.iter().copied().flatten() {
        let Some(value) = map.get(*name) else {
            match need {
                Need::Required => return Err(format!("has no `{name}`")),
                Need::Optional => continue,
            }
        };
        let before = found.len();
        if let Err(why) = check(kind, value, found) {
            found.truncate(before);
            match need {
                Need::Required => return Err(format!("has a `{name}` that {why}")),
                Need::Optional => found.push(Misfit { place: Vec::new(), why }),
            }
        }
        within(Step::Member(name), before, found);
    }
    Ok(())
}

fn list(kind: &Kind, items: &[Value], whole: Whole, found: &mut Vec<Misfit>) -> Result<(), String> {
    let mut unfit = 0;
    for (index, item) in items.iter().enumerate() {
        let before = found.len();
        if let Err(why) = check(kind, item, found) {
            found.truncate(before);
            if whole == Whole::No {
                unfit += 1;
                if unfit > MAX_UNFIT {
                    return Err(format!("has more than {MAX_UNFIT} items that do not fit"));
                }
                found.push(Misfit { place: Vec::new(), why });
            }
        }
        within(Step::Item(index), before, found);
    }
    Ok(())
}

/// A kind that is not known may come with a later revision.
fn block(value: &Value, found: &mut Vec<Misfit>) -> Result<(), String> {
    let form = match value.get("type").and_then(Value::as_str) {
        Some("text") => TEXT_BLOCK,
        Some("image" | "audio") => BINARY_BLOCK,
        Some("resource") => RESOURCE_BLOCK,
        Some("resource_link") => RESOURCE,
        Some(_) | None => return Ok(()),
    };
    object(form, value, found)
}

fn check(kind: &Kind, value: &Value, found: &mut Vec<Misfit>) -> Result<(), String> {
    let fits = match (kind, value) {
        (Kind::Object(form), _) => return object(form, value, found),
        (Kind::Block, _) => return block(value, found),
        (Kind::List(kind, whole), Value::Array(items)) => {
            return list(kind, items, *whole, found);
        }
        (Kind::Text, Value::String(_))
        | (Kind::Flag, Value::Bool(_))
        | (Kind::Number, Value::Number(_))
        | (Kind::TextOrNumber, Value::String(_) | Value::Number(_)) => true,
        (Kind::Choice(known), Value::String(text)) => known.contains(&text.as_str()),
        (Kind::Uri, Value::String(text)) => is_uri(text),
        (Kind::Picture, Value::String(text)) => is_picture(text),
        (Kind::Time, Value::String(text)) => is_time(text),
        (Kind::Integer, Value::Number(number)) => {
            number.is_u64() || number.is_i64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        (Kind::Share, Value::Number(number)) => {
            number.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share))
        }
        _ => false,
    };
    if fits { Ok(()) } else { Err(kind.demand()) }
}

impl Kind {
    /// What a value must be, as the end of a sentence.
    fn demand(&self) -> String {
        let what = match self {
            Self::Text => "a text",
            Self::Uri => "a URI with a scheme",
            Self::Picture => "a URI with `http:`, `https:` or `data:`",
            Self::Time => "a time such as `2026-01-31T12:00:00Z`",
            Self::Flag => "`true` or `false`",
            Self::Number => "a number",
            Self::Integer => "a whole number",
            Self::Share => "a number from 0 to 1",
            Self::TextOrNumber => "a text or a number",
            Self::Choice(known) => return format!("must be one of `{}`", known.join("`, `")),
            Self::Object(_) | Self::Block => "an object",
            Self::List(..) => "a list",
        };
        format!("must be {what}")
    }
}

/// What was found since `before` stands one step further in.
fn within(step: Step, before: usize, found: &mut [Misfit]) {
    for misfit in found.iter_mut().skip(before) {
        misfit.place.insert(0, step);
    }
}

/// Removes from the end, so that the places of those before stay what they are.
fn remove(value: &mut Value, found: &[Misfit]) {
    for Misfit { place, .. } in found.iter().rev() {
        let Some((last, before)) = place.split_last() else { continue };
        let holder = before.iter().try_fold(&mut *value, |value, step| match step {
            Step::Member(name) => value.get_mut(*name),
            Step::Item(index) => value.get_mut(*index),
        });
        match (holder, last) {
            (Some(Value::Object(map)), Step::Member(name)) => drop(map.shift_remove(*name)),
            (Some(Value::Array(items)), Step::Item(index)) if *index < items.len() => {
                items.remove(*index);
            }
            _ => {}
        }
    }
}

fn is_picture(text: &str) -> bool {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let known = ["http", "https", "data"];
    scheme.is_some_and(|scheme| known.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
        && !rest.is_empty()
}

/// Whether this is a time of RFC 3339 with its date, perhaps without seconds.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once('T') else { return false };
    let (clock, offset) = match time.strip_suffix('Z') {
        Some(clock) => (clock, "00:00"),
        None => match time.split_once(['+', '-']) {
            Some((clock, offset)) => (clock, offset),
            None => return false,
        },
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    let is_clock = match numbers(clock, ':').as_deref() {
        Some([hour, minute]) => *hour < 24 && *minute < 60 && fraction == "0",
        Some([hour, minute, second]) => *hour < 24 && *minute < 60 && *second < 60 && is_fraction,
        _ => false,
    };
    let is_offset = matches!(numbers(offset, ':').as_deref(), Some([hour, minute]) if *hour < 24 && *minute < 60);
    is_date(date) && is_clock && is_offset
}

fn is_date(date: &str) -> bool {
    let is_year = |year: &str| year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let Some((year, rest)) = date.split_once('-').filter(|(year, _)| is_year(year)) else {
        return false;
    };
    let rest = numbers(rest, '-');
    let (Ok(year), Some([month, day])) = (year.parse::<u16>(), rest.as_deref()) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(day)
}

/// Numbers of two digits each.
fn numbers(text: &str, between: char) -> Option<Vec<u8>> {
    let number = |part: &str| {
        let is_number = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse().ok().filter(|_| is_number)
    };
    text.split(between).map(number).collect()
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
