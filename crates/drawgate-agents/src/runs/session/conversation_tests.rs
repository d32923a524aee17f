use serde_json::Value;

use super::*;
use crate::model::{Api, Arguments, Part, Stop, Usage};
use crate::runs::pool::Amount;

pub(crate) fn step(seq: u32, body: StepBody) -> Step {
    Step { seq, at: 0, until: Some(0), body }
}

pub(crate) fn said(text: &str) -> StepBody {
    StepBody::Message { from: None, text: text.to_owned() }
}

pub(crate) fn tool_call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "t".to_owned(),
        arguments: Arguments::Object(serde_json::Map::new()),
    }
}

pub(crate) fn reply(parts: Vec<Part>) -> Reply {
    Reply { parts, stop: Stop::End, usage: Usage::default(), api: Api::Anthropic, raw: Value::Null }
}

pub(crate) fn replied(parts: Vec<Part>) -> StepBody {
    StepBody::Model {
        purpose: Purpose::Work,
        model: "m".to_owned(),
        reserved: Amount::default(),
        outcome: Some(ModelOutcome::Reply { reply: reply(parts), spent: Amount::default() }),
    }
}

pub(crate) fn called(id: &str, outcome: Option<&str>) -> StepBody {
    StepBody::Call { call: tool_call(id), outcome: outcome.map(CallOutcome::ok) }
}

fn call(id: &str) -> Part {
    Part::Call(tool_call(id))
}

/// The conversation in a short form: `u:` for the user, `m:` for the model, `r:` for results.
fn shown(messages: &[Message]) -> Vec<String> {
    let one = |message: &Message| match message {
        Message::User(text) => format!("u:{text}"),
        Message::Model(reply) => format!("m:{}+{}", reply.text(), reply.calls().count()),
        Message::Results(results) => {
            let texts: Vec<&str> = results.iter().map(|result| result.text.as_str()).collect();
            format!("r:{}", texts.join("|"))
        }
    };
    messages.iter().map(one).collect()
}

fn two_rounds() -> Vec<Step> {
    vec![
        step(0, said("do it")),
        step(1, replied(vec![Part::Text("first".to_owned()), call("a"), call("b")])),
        step(2, called("a", Some("A"))),
        step(3, called("b", Some("B"))),
        step(4, replied(vec![call("c")])),
        step(5, called("c", Some("C"))),
    ]
}

#[test]
fn results_follow_their_calls_together() {
    let messages = conversation(&[], &two_rounds());
    assert_eq!(shown(&messages), ["u:do it", "m:first+2", "r:A|B", "m:+1", "r:C"]);
}

#[test]
fn trimmed_results_and_summaries_take_their_place() {
    let mut steps = two_rounds();
    steps.push(step(6, StepBody::Trimmed { before: 4 }));
    let trimmed = shown(&conversation(&[], &steps));
    assert_eq!(trimmed[2], format!("r:{TRIMMED}|{TRIMMED}"));
    assert_eq!(trimmed[4], "r:C");
    steps.push(step(7, StepBody::Summary { before: 4, text: "did A and B".to_owned() }));
    let history = [Message::User("an earlier run".to_owned())];
    let summed = shown(&conversation(&history, &steps));
    assert_eq!(summed, ["u:do it", &format!("u:{SUMMARY}\n\ndid A and B"), "m:+1", "r:C"]);
}

#[test]
fn the_next_thing_to_do_is_read_off_the_steps() {
    let all = two_rounds();
    let next_after = |count: usize| next(&all[..count]);
    assert_eq!(next_after(1), Next::Think);
    assert!(matches!(next_after(2), Next::Call(_)));
    assert_eq!(next_after(4), Next::Think);
    let mut open = all.clone();
    open[5] = step(5, called("c", None));
    assert_eq!(next(&open), Next::Perform(vec![5]));
    let mut done = all;
    done.push(step(6, replied(vec![Part::Text("done".to_owned())])));
    assert!(matches!(next(&done), Next::Conclude(_)));
    done.push(step(7, said("one more thing")));
    assert_eq!(next(&done), Next::Think);
}

#[test]
fn a_request_without_an_answer_is_no_part_of_the_conversation() {
    let lost = StepBody::Model {
        purpose: Purpose::Work,
        model: "m".to_owned(),
        reserved: Amount::default(),
        outcome: Some(ModelOutcome::Failed {
            kind: None,
            message: "stopped".to_owned(),
            spent: Amount::default(),
        }),
    };
    let steps = vec![step(0, said("do it")), step(1, lost)];
    assert_eq!(next(&steps), Next::Think);
    assert_eq!(shown(&conversation(&[], &steps)), ["u:do it"]);
}

#[test]
fn a_program_is_known_by_its_answers() {
    let turn = |outcome| StepBody::Turn { session: Some("s".to_owned()), outcome: Some(outcome) };
    let answered = |text: &str| turn(TurnOutcome::Answered { text: text.to_owned() });
    let asked = |text: &str| StepBody::Model {
        purpose: Purpose::Relayed,
        model: "m".to_owned(),
        reserved: Amount::default(),
        outcome: Some(ModelOutcome::Reply {
            reply: reply(vec![Part::Text(text.to_owned()), call("x")]),
            spent: Amount::default(),
        }),
    };
    let mut steps = vec![
        step(0, said("do it")),
        step(1, answered("done")),
        step(2, asked("I look")),
        step(3, called("a", Some("ra"))),
        step(4, said("and that")),
        step(5, answered("done, too")),
        step(6, asked("I look again")),
    ];
    let conversation = conversation(&[], &steps);
    assert_eq!(shown(&conversation), ["u:do it", "m:done+0", "u:and that", "m:done, too+0"]);
    assert_eq!(last_text(&steps), "done, too");
    steps.push(step(7, turn(TurnOutcome::Failed { message: "402".to_owned() })));
    steps.push(step(8, asked("I look once more")));
    assert_eq!(last_text(&steps), "I look once more", "there is no better word of it");
}
