//! The methods that clients may use. One table says what each is called, where it exists and what it needs.

use std::borrow::Cow;

use super::era::Era;

/// A method of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Initialize,
    Ping,
    Discover,
    SetLogLevel,
    ListTools,
    CallTool,
    ListResources,
    ListTemplates,
    ReadResource,
    Subscribe,
    Unsubscribe,
    Listen,
    ListPrompts,
    GetPrompt,
    Complete,
    GetTask,
    UpdateTask,
    CancelTask,
    Cancelled,
}

/// Whether a client waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Request,
    Notification,
}

/// What a method needs of the gateway, and of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Sources that have never listed anything are waited for.
    FirstLists,
    /// The request's `_meta` may narrow the call.
    Narrowing,
    /// Questions, progress and logs can reach the client before the answer.
    Reports,
    /// The audit log gets an outcome, whatever becomes of the request.
    Outcome,
    /// `Mcp-Name` repeats this parameter.
    NameHeader(&'static str),
    /// The same if the header is there. Some clients leave it out about tasks, and would lose every call
    /// that has become one.
    NameHeaderIfSent(&'static str),
}

/// A row of the table.
struct MethodSpec {
    method: Method,
    name: &'static str,
    eras: &'static [Era],
    form: Form,
    needs: &'static [Need],
}

const SESSIONS: &[Era] = &[Era::Sessions];
const STATELESS: &[Era] = &[Era::Stateless];
const BOTH: &[Era] = &[Era::Sessions, Era::Stateless];

/// What reaches a source and may take long: a call, and what is like one.
const CALL_BY_NAME: &[Need] =
    &[Need::Narrowing, Need::Reports, Need::Outcome, Need::NameHeader("name")];
const CALL_BY_URI: &[Need] =
    &[Need::Narrowing, Need::Reports, Need::Outcome, Need::NameHeader("uri")];
const LIST: &[Need] = &[Need::FirstLists];
const TASK: &[Need] = &[Need::NameHeaderIfSent("taskId")];

#[rustfmt::skip]
const METHODS: &[MethodSpec] = &[
    request(Method::Initialize,    "initialize",               SESSIONS,  &[]),
    request(Method::Ping,          "ping",                     SESSIONS,  &[]),
    request(Method::Discover,      "server/discover",          STATELESS, &[]),
    request(Method::SetLogLevel,   "logging/setLevel",         SESSIONS,  &[]),
    request(Method::ListTools,     "tools/list",               BOTH,      LIST),
    request(Method::CallTool,      "tools/call",               BOTH,      CALL_BY_NAME),
    request(Method::ListResources, "resources/list",           BOTH,      LIST),
    request(Method::ListTemplates, "resources/templates/list", BOTH,      LIST),
    request(Method::ReadResource,  "resources/read",           BOTH,      CALL_BY_URI),
    request(Method::Subscribe,     "resources/subscribe",      SESSIONS,  &[Need::Outcome]),
    request(Method::Unsubscribe,   "resources/unsubscribe",    SESSIONS,  &[]),
    request(Method::Listen,        "subscriptions/listen",     STATELESS, &[]),
    request(Method::ListPrompts,   "prompts/list",             BOTH,      LIST),
    request(Method::GetPrompt,     "prompts/get",              BOTH,      CALL_BY_NAME),
    request(Method::Complete,      "completion/complete",      BOTH,      &[Need::Narrowing, Need::Outcome]),
    request(Method::GetTask,       "tasks/get",                STATELESS, TASK),
    request(Method::UpdateTask,    "tasks/update",             STATELESS, TASK),
    request(Method::CancelTask,    "tasks/cancel",             STATELESS, TASK),
    notification(Method::Cancelled, CANCELLED,                 SESSIONS),
];

/// That a request is given up; the gateway says it of its own requests too.
pub(crate) const CANCELLED: &str = "notifications/cancelled";

const fn request(
    method: Method,
    name: &'static str,
    eras: &'static [Era],
    needs: &'static [Need],
) -> MethodSpec {
    MethodSpec { method, name, eras, form: Form::Request, needs }
}

const fn notification(method: Method, name: &'static str, eras: &'static [Era]) -> MethodSpec {
    MethodSpec { method, name, eras, form: Form::Notification, needs: &[] }
}

/// The method that a message names, whether or not it is one of the table.
#[derive(Clone)]
pub(crate) struct MethodName {
    text: Cow<'static, str>,
    spec: Option<&'static MethodSpec>,
}

impl MethodName {
    /// Looks a method up.
    pub(crate) fn new(text: String) -> Self {
        let spec = METHODS.iter().find(|spec| spec.name == text);
        let text = spec.map_or(Cow::Owned(text), |spec| Cow::Borrowed(spec.name));
        Self { text, spec }
    }

    /// As the message has it.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is this one.
    pub(crate) fn is(&self, method: Method) -> bool {
        self.spec.is_some_and(|spec| spec.method == method)
    }

    /// What it needs, in whichever era.
    pub(crate) fn needs(&self) -> &'static [Need] {
        self.spec.map_or(&[], |spec| spec.needs)
    }

    /// The request of this name, if the era has it.
    pub(crate) fn request_in(&self, era: Era) -> Option<Method> {
        let spec = self.spec.filter(|spec| spec.form == Form::Request && spec.eras.contains(&era));
        spec.map(|spec| spec.method)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_has_one_row_and_exists_in_the_eras_of_the_specification() {
        for (place, spec) in METHODS.iter().enumerate() {
            let earlier = METHODS.iter().take(place);
            for other in earlier {
                assert!(other.name != spec.name && other.method != spec.method, "{}", spec.name);
            }
        }
        for (name, sessions, stateless) in [
            ("initialize", true, false),
            ("tools/call", true, true),
            ("tasks/get", false, true),
            ("notifications/cancelled", false, false),
            ("unknown", false, false),
        ] {
            let name = MethodName::new(name.to_owned());
            let found = [Era::Sessions, Era::Stateless].map(|era| name.request_in(era).is_some());
            assert_eq!(found, [sessions, stateless], "{}", name.as_str());
        }
        assert!(MethodName::new(CANCELLED.to_owned()).is(Method::Cancelled));
    }
}
