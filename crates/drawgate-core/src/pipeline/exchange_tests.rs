use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{ApprovalPage, CallOptions, GatewaySettings, PageRequest};
use crate::audit::EventKind;
use crate::model::{
    Client, Ending, ErrorCode, InputGiven, InputRequired, McpManifest, Offer, Operation, SourceId,
    ToolInvocation, ToolOutput, ToolResult,
};
use crate::policy::ApprovalState;
use crate::registry::{Origin, SourceTerms};
use crate::source::{CallContext, PermittedCall, SourceError, ToolSource};
use crate::testing::{TestGate, caller, operations, tool};

/// Asks for a name, and repeats it; reads resources by their URI.
struct Curious {
    id: SourceId,
    seen: Mutex<Vec<(Operation, Option<InputGiven>)>>,
    abandoned: Mutex<Vec<String>>,
}

#[async_trait]
impl ToolSource for Curious {
    fn id(&self) -> &SourceId {
        &self.id
    }

    async fn manifest(&self) -> Result<McpManifest, SourceError> {
        Ok(McpManifest {
            server_id: self.id.clone(),
            name: "curious".into(),
            version: "1".into(),
            description: None,
            tools: vec![
                tool("greet", &Value::Null),
                tool("careful", &json!({ "requiresConfirmation": true })),
            ],
            offer: Offer {
                resources: vec![json!({ "uri": "x:1" })],
                operations: operations([Operation::ReadResource]),
                ..Offer::default()
            },
        })
    }

    async fn call(&self, call: PermittedCall, cx: &CallContext) -> Result<ToolOutput, SourceError> {
        self.seen.lock().push((call.operation(), cx.input.clone()));
        if call.operation() == Operation::ReadResource {
            let contents = json!([{ "uri": call.arguments()["uri"], "text": "hello" }]);
            let rest = Map::from_iter([("contents".to_owned(), contents)]);
            return Ok(ToolOutput { rest, ..ToolOutput::default() });
        }
        if let Some(handle) = &cx.resume {
            return Ok(ToolOutput::text(format!("taken up {handle}")));
        }
        if let Some(progress) = &cx.progress {
            progress.handle("up-1");
        }
        match &cx.input {
            Some(input) if input.state.as_deref() == Some("inner") => {
                Ok(ToolOutput::text(format!("hello {}", input.responses["name"])))
            }
            _ => {
                let question = json!({ "method": "elicitation/create", "params": {} });
                let requests = Map::from_iter([("name".to_owned(), question)]);
                let state = Some("inner".to_owned());
                Ok(ToolOutput::question(InputRequired { requests, state }))
            }
        }
    }

    fn can_resume(&self) -> bool {
        true
    }

    fn abandon(&self, state: &str) {
        self.abandoned.lock().push(state.to_owned());
    }
}

struct Fixture {
    gate: TestGate,
    source: Arc<Curious>,
}

async fn fixture(terms: SourceTerms) -> Fixture {
    let gate = TestGate::new().await;
    let source = Arc::new(Curious {
        id: SourceId::new("srv").unwrap(),
        seen: Mutex::default(),
        abandoned: Mutex::default(),
    });
    let manifest = source.manifest().await.unwrap();
    gate.declare(source.clone(), manifest, terms, Origin::Discovered).unwrap();
    Fixture { gate, source }
}

fn client(capabilities: Value) -> CallOptions {
    let Value::Object(capabilities) = capabilities else { panic!("not an object") };
    CallOptions {
        page_request: capabilities["elicitation"].get("url").map(|_| page_request as PageRequest),
        client: Arc::new(Client { capabilities, ..Client::default() }),
        ..CallOptions::default()
    }
}

fn page_request(page: &ApprovalPage<'_>) -> Value {
    json!({ "method": "open", "params": { "mode": "url", "url": page.url } })
}

fn able() -> CallOptions {
    client(json!({ "elicitation": {} }))
}

fn invocation(name: &str, arguments: Value, input: Option<InputGiven>) -> ToolInvocation {
    let Value::Object(arguments) = arguments else { panic!("not an object") };
    ToolInvocation { tool_id: name.into(), arguments, input, ..ToolInvocation::default() }
}

fn answer(state: &str) -> InputGiven {
    let responses = Map::from_iter([("name".to_owned(), json!("ann"))]);
    InputGiven { responses, state: Some(state.to_owned()) }
}

fn state_of(result: &ToolResult) -> String {
    result.input_required.as_ref().unwrap().state.clone().unwrap()
}

impl Fixture {
    async fn call(&self, who: &str, call: ToolInvocation, options: CallOptions) -> ToolResult {
        self.gate.gateway.call(&caller(who), call, options).await
    }
}

fn code(result: &ToolResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

#[tokio::test]
async fn a_question_reaches_the_caller_and_its_answer_the_source() {
    let fixture = fixture(SourceTerms::default()).await;
    let asked = fixture.call("ann", invocation("greet", json!({ "a": 1 }), None), able()).await;
    assert!(asked.error.is_none() && asked.content.is_empty());
    assert_eq!((asked.success, asked.ending()), (false, Ending::Asked), "it has done nothing yet");
    assert!(asked.input_required.as_ref().unwrap().requests.contains_key("name"));
    let state = state_of(&asked);
    assert_ne!(state, "inner", "sealed");
    let again = invocation("greet", json!({ "a": 1 }), Some(answer(&state)));
    let done = fixture.call("ann", again, able()).await;
    assert_eq!(done.content[0]["text"], "hello \"ann\"");
    let events = fixture.gate.store.events();
    let outcomes: Vec<&str> = events
        .iter()
        .map(|event| event.body.as_str())
        .filter(|body| body.contains("\"inputRequired\":[\"elicitation/create\"]"))
        .collect();
    assert_eq!(outcomes.len(), 1, "the log shows who asked what kind of question");
    let ended: Vec<(Option<bool>, Option<String>)> = fixture
        .gate
        .events()
        .await
        .into_iter()
        .filter(|event| event.kind == EventKind::Outcome)
        .map(|event| (event.success, event.code))
        .collect();
    assert_eq!(ended, [(Some(false), Some("ASKED".to_owned())), (Some(true), None)]);
}

#[tokio::test]
async fn a_state_counts_for_its_own_call_only() {
    let fixture = fixture(SourceTerms::default()).await;
    let asked = fixture.call("ann", invocation("greet", json!({ "a": 1 }), None), able()).await;
    let state = state_of(&asked);
    let mut tampered = state.clone().into_bytes();
    tampered[5] ^= 1;
    let tampered = String::from_utf8(tampered).unwrap();
    let same = json!({ "a": 1 });
    let cases = [
        ("ann", "greet", json!({ "a": 2 }), state.as_str(), "other arguments"),
        ("bob", "greet", same.clone(), state.as_str(), "another caller"),
        ("ann", "careful", same.clone(), state.as_str(), "another tool"),
        ("ann", "greet", same.clone(), tampered.as_str(), "tampered"),
        ("ann", "greet", same.clone(), "inner", "the source's own"),
        ("ann", "greet", same.clone(), "", "empty"),
        ("ann", "greet", same.clone(), ".", "no parts"),
    ];
    for (who, name, arguments, state, what) in cases {
        let result =
            fixture.call(who, invocation(name, arguments, Some(answer(state))), able()).await;
        assert_eq!(code(&result), Some(ErrorCode::Conflict), "{what}");
        let details = result.error.unwrap().details.unwrap();
        assert_eq!(details["requestState"], "invalid", "{what}");
    }
    fixture.gate.clock.advance(16 * 60 * 1000);
    let late = fixture.call("ann", invocation("greet", same, Some(answer(&state))), able()).await;
    assert_eq!(code(&late), Some(ErrorCode::Conflict), "expired");
    assert_eq!(fixture.source.seen.lock().len(), 1, "none of them reached the source");
}

#[tokio::test]
async fn a_caller_that_cant_answer_gets_an_error() {
    let fixture = fixture(SourceTerms::default()).await;
    let result =
        fixture.call("ann", invocation("greet", json!({}), None), CallOptions::default()).await;
    assert_eq!(code(&result), Some(ErrorCode::ExecutionFailed));
    assert!(result.input_required.is_none());
}

#[tokio::test]
async fn an_abandoned_question_reaches_the_source() {
    let fixture = fixture(SourceTerms::default()).await;
    let asked = fixture.call("ann", invocation("greet", json!({}), None), able()).await;
    fixture.gate.gateway.abandon(&state_of(&asked));
    fixture.gate.gateway.abandon("nonsense");
    assert_eq!(*fixture.source.abandoned.lock(), ["inner"]);
}

#[tokio::test]
async fn an_approval_covers_the_whole_call_and_only_one() {
    let fixture = fixture(SourceTerms::default()).await;
    fixture.gate.hold(std::time::Duration::ZERO);
    let first = fixture.call("ann", invocation("careful", json!({}), None), able()).await;
    assert_eq!(code(&first), Some(ErrorCode::PermissionEscalationRequired));
    let approvals = &fixture.gate.control.parts().approvals;
    let id = approvals.list()[0].id.clone();
    fixture.gate.decide(&id, ApprovalState::Approved).await;
    let asked = fixture.call("ann", invocation("careful", json!({}), None), able()).await;
    let state = state_of(&asked);
    let again = || invocation("careful", json!({}), Some(answer(&state)));
    let done = fixture.call("ann", again(), able()).await;
    assert!(done.success, "{:?}", done.error);
    let replayed = fixture.call("ann", again(), able()).await;
    assert_eq!(code(&replayed), Some(ErrorCode::Conflict), "one approval, one call");
}

#[tokio::test]
async fn a_caller_that_can_open_pages_is_sent_to_the_approval() {
    let fixture = fixture(SourceTerms::default()).await;
    fixture.gate.hold(std::time::Duration::ZERO);
    let settings = &fixture.gate.control.parts().settings;
    let mut with_page = GatewaySettings::clone(&settings.load());
    with_page.approval_page = Some("http://here/approvals".into());
    settings.store(Arc::new(with_page));
    let pages = || client(json!({ "elicitation": { "url": {} } }));
    let asked = fixture.call("ann", invocation("careful", json!({}), None), pages()).await;
    let approvals = &fixture.gate.control.parts().approvals;
    let id = approvals.list()[0].id.clone();
    let params = &asked.input_required.as_ref().unwrap().requests["approval"]["params"];
    assert_eq!(params["url"], format!("http://here/approvals/{id}"));
    assert_eq!(params["mode"], "url");
    let state = state_of(&asked);
    let accepted = json!({ "action": "accept" });
    let again = || {
        let responses = Map::from_iter([("approval".to_owned(), accepted.clone())]);
        let input = InputGiven { responses, state: Some(state.clone()) };
        invocation("careful", json!({}), Some(input))
    };
    let early = fixture.call("ann", again(), pages()).await;
    assert_eq!(code(&early), Some(ErrorCode::PermissionEscalationRequired), "nobody has decided");
    fixture.gate.decide(&id, ApprovalState::Approved).await;
    let asked = fixture.call("ann", again(), pages()).await;
    assert!(asked.input_required.is_some(), "the tool's own question now: {:?}", asked.error);
    let seen = fixture.source.seen.lock().clone();
    assert_eq!(seen, [(Operation::CallTool, None)], "the gate's own answer is not passed on");
    let other = fixture.call("ann", again(), pages()).await;
    assert_eq!(code(&other), Some(ErrorCode::PermissionEscalationRequired), "used up");
}

#[tokio::test]
async fn what_is_no_tool_passes_the_same_gate() {
    let terms = SourceTerms {
        capabilities: vec![crate::model::Capability::new("docs").unwrap()],
        ..SourceTerms::default()
    };
    let fixture = fixture(terms).await;
    let read = || ToolInvocation {
        operation: Operation::ReadResource,
        ..invocation("srv", json!({ "uri": "x:1" }), None)
    };
    let refused = fixture.call("ann", read(), able()).await;
    assert_eq!(code(&refused), Some(ErrorCode::PermissionDenied), "nobody granted it");
    fixture.gate.grant("ann", "docs", None).await;
    let given = fixture.call("ann", read(), able()).await;
    assert_eq!(given.rest["contents"][0]["text"], "hello", "{:?}", given.error);
    let without = ToolInvocation { arguments: Map::new(), ..read() };
    let invalid = fixture.call("ann", without, able()).await;
    assert_eq!(code(&invalid), Some(ErrorCode::InvalidArguments));
    let absent = ToolInvocation { operation: Operation::GetPrompt, ..read() };
    let unknown = fixture.call("ann", absent, able()).await;
    assert_eq!(code(&unknown), Some(ErrorCode::ResourceNotFound));
    fixture.gate.policy(json!({ "version": "1.0", "rules": [
        { "id": "no", "action": "*", "when": { "toolId": "srv:@resources/*" }, "decision": "deny" },
    ] }));
    let denied = fixture.call("ann", read(), able()).await;
    assert_eq!(code(&denied), Some(ErrorCode::PermissionDenied));
    for name in ["srv:@resources/read", "@resources/read", "resources_read", "srv__resources_read"]
    {
        let result =
            fixture.call("ann", invocation(name, json!({ "uri": "x:1" }), None), able()).await;
        assert_eq!(code(&result), Some(ErrorCode::ResourceNotFound), "{name} is no tool");
    }
    let events = fixture.gate.store.events();
    let read = events.iter().filter(|event| event.body.contains("srv:@resources/read")).count();
    assert!(read >= 6, "decisions and outcomes, {read}");
}

fn fallback(decision: &str) -> Value {
    json!({ "version": "1.0", "defaults": { "fallback": decision } })
}

#[tokio::test]
async fn rules_are_asked_again_when_the_answer_to_a_question_comes() {
    let cases = [
        ("deny", Some(ErrorCode::PermissionDenied)),
        ("allow_with_confirm", Some(ErrorCode::PermissionEscalationRequired)),
        ("allow", None),
    ];
    for (change, expected) in cases {
        let fixture = fixture(SourceTerms::default()).await;
        fixture.gate.hold(std::time::Duration::ZERO);
        let asked = fixture.call("ann", invocation("greet", json!({}), None), able()).await;
        let state = state_of(&asked);
        fixture.gate.policy(fallback(change));
        let again = invocation("greet", json!({}), Some(answer(&state)));
        let done = fixture.call("ann", again, able()).await;
        assert_eq!(code(&done), expected, "{change}");
        let seen = fixture.source.seen.lock().len();
        assert_eq!(seen, 1 + usize::from(expected.is_none()), "{change}");
    }
}

#[tokio::test]
async fn rules_are_asked_again_when_a_call_is_taken_up_again() {
    let cases = [
        ("greet", "deny", Some(ErrorCode::PermissionDenied)),
        ("greet", "allow_with_confirm", Some(ErrorCode::PermissionEscalationRequired)),
        ("greet", "allow", None),
        ("careful", "deny", Some(ErrorCode::PermissionDenied)),
        // A person has approved it when it began.
        ("careful", "allow_with_confirm", None),
    ];
    for (name, change, expected) in cases {
        let fixture = fixture(SourceTerms::default()).await;
        fixture.gate.hold(std::time::Duration::ZERO);
        let approvals = &fixture.gate.control.parts().approvals;
        let call = || invocation(name, json!({}), None);
        if name == "careful" {
            fixture.call("ann", call(), able()).await;
            let id = approvals.list()[0].id.clone();
            fixture.gate.decide(&id, ApprovalState::Approved).await;
        }
        let handles = Arc::new(Handles::default());
        let options = CallOptions { progress: Some(handles.clone()), ..able() };
        fixture.call("ann", call(), options).await;
        let handle = handles.0.lock().clone().unwrap();
        fixture.gate.policy(fallback(change));
        let options = CallOptions { resume: Some(handle.into()), ..able() };
        let done = fixture.call("ann", call(), options).await;
        assert_eq!(code(&done), expected, "{name} {change}");
    }
}

#[derive(Default)]
struct Handles(Mutex<Option<String>>);

impl crate::source::ProgressSink for Handles {
    fn report(&self, _: Map<String, Value>) {}

    fn handle(&self, handle: &str) {
        *self.0.lock() = Some(handle.to_owned());
    }
}

#[tokio::test]
async fn a_call_is_taken_up_again_by_the_same_definition_only() {
    let fixture = fixture(SourceTerms::default()).await;
    fixture.gate.hold(std::time::Duration::ZERO);
    let approvals = &fixture.gate.control.parts().approvals;
    let call = || invocation("careful", json!({}), None);
    fixture.call("ann", call(), able()).await;
    fixture.gate.decide(&approvals.list()[0].id, ApprovalState::Approved).await;
    let handles = Arc::new(Handles::default());
    let options = CallOptions { progress: Some(handles.clone()), ..able() };
    fixture.call("ann", call(), options).await;
    let handle = handles.0.lock().clone().unwrap();
    let resume = |handle: &str| CallOptions { resume: Some(handle.into()), ..able() };
    let taken_up = fixture.call("ann", call(), resume(&handle)).await;
    assert_eq!(taken_up.content[0]["text"], "taken up up-1", "it had its approval when it began");
    let other = fixture.call("ann", invocation("greet", json!({}), None), resume(&handle)).await;
    assert_eq!(code(&other), Some(ErrorCode::Conflict), "another tool's");
    let bare = fixture.call("ann", call(), resume("up-1")).await;
    assert_eq!(code(&bare), Some(ErrorCode::Conflict), "not the gate's form");
}
