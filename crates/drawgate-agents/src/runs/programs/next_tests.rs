use super::*;
use crate::runs::pool::Amount;
use crate::runs::record::Purpose;

/// Steps in order.
fn steps(bodies: Vec<StepBody>) -> Vec<Step> {
    let step = |(seq, body)| Step { seq, at: 0, until: None, body };
    (0..).zip(bodies).map(step).collect()
}

fn says(from: Option<&str>, text: &str) -> StepBody {
    StepBody::Message { from: from.map(str::to_owned), text: text.to_owned() }
}

fn turn(session: Option<&str>, outcome: impl Into<Option<TurnOutcome>>) -> StepBody {
    StepBody::Turn { session: session.map(str::to_owned), outcome: outcome.into() }
}

fn answered(text: &str) -> TurnOutcome {
    TurnOutcome::Answered { text: text.to_owned() }
}

fn asks() -> StepBody {
    let (model, reserved) = ("p/m".to_owned(), Amount::default());
    StepBody::Model { purpose: Purpose::Relayed, model, reserved, outcome: None }
}

fn work(session: Option<&str>, prompt: &str) -> Next {
    Next::Work(Work { session: session.map(str::to_owned), prompt: prompt.to_owned() })
}

fn check(bodies: Vec<StepBody>, expected: &Next) {
    assert_eq!(next(&steps(bodies)), *expected);
}

#[test]
fn a_run_begins_with_its_prompt() {
    check(vec![says(None, "do it")], &work(None, "do it"));
}

#[test]
fn an_answer_ends_it_unless_a_message_came() {
    let done = vec![says(None, "do it"), turn(Some("s"), answered("done")), asks()];
    check(done.clone(), &Next::Conclude { text: "done".to_owned() });
    let more = [done, vec![says(Some("child"), "found it"), says(None, "thanks")]].concat();
    check(more, &work(Some("s"), "[message from child]\nfound it\n\nthanks"));
}

#[test]
fn a_failure_ends_it() {
    let failed = Some(TurnOutcome::Failed { message: "no".to_owned() });
    let expected = Next::Failed { message: "no".to_owned() };
    check(vec![says(None, "do it"), turn(Some("s"), failed), asks()], &expected);
}

#[test]
fn an_interrupted_turn_is_resumed_by_its_name() {
    for outcome in [None, Some(TurnOutcome::Interrupted)] {
        let steps = vec![says(None, "do it"), turn(Some("s"), outcome), asks()];
        check(steps, &work(Some("s"), INTERRUPTED));
    }
}

#[test]
fn what_may_not_have_been_read_is_told_again() {
    // It has no name, or has asked nothing yet: there may be no conversation.
    for steps in [
        vec![says(None, "do it"), turn(None, None), asks()],
        vec![says(None, "do it"), turn(Some("s"), Some(TurnOutcome::Interrupted))],
    ] {
        check(steps, &work(None, "do it"));
    }
    let second = vec![
        says(None, "do it"),
        turn(Some("s"), answered("done")),
        asks(),
        says(Some("child"), "found it"),
        turn(Some("s"), None),
    ];
    let prompt = format!("{INTERRUPTED}\n\n[message from child]\nfound it");
    check(second, &work(Some("s"), &prompt));
}

#[test]
fn a_conversation_that_is_lost_begins_anew() {
    let failed = || TurnOutcome::Failed { message: "no such session".to_owned() };
    let call = |error| StepBody::Call {
        call: crate::model::ToolCall {
            id: "1".to_owned(),
            name: "pay".to_owned(),
            arguments: crate::model::Arguments::parse(""),
        },
        outcome: Some(crate::runs::record::CallOutcome { text: String::new(), error }),
    };
    let unknown = Some(drawgate_core::model::ErrorCode::Unavailable);
    let mut steps = vec![
        says(None, "do it"),
        turn(Some("s"), TurnOutcome::Interrupted),
        asks(),
        call(None),
        call(unknown),
        turn(Some("s"), failed()),
    ];
    let prompt = format!("do it\n\n{LOST} You have called:\n- `pay`: ok\n- `pay`: UNAVAILABLE");
    check(steps.clone(), &work(None, &prompt));
    // Once: what fails anew has failed, and so has one that could go on.
    steps.push(turn(Some("t"), failed()));
    check(steps.clone(), &Next::Failed { message: "no such session".to_owned() });
    steps.truncate(6);
    steps.push(asks());
    check(steps, &Next::Failed { message: "no such session".to_owned() });
}
