use super::super::conversation::tests::{called, replied, said, step, tool_call};
use super::*;
use crate::model::Part;

/// A conversation of so many rounds of one call each.
fn rounds(count: u32) -> Vec<Step> {
    let mut steps = vec![step(0, said("do it"))];
    for round in 0..count {
        steps.push(step(round * 2 + 1, replied(vec![Part::Call(tool_call("c"))])));
        steps.push(step(round * 2 + 2, called("c", Some("result"))));
    }
    steps
}

fn next_seq(steps: &[Step]) -> u32 {
    u32::try_from(steps.len()).unwrap()
}

#[test]
fn old_results_go_first_then_a_summary_then_nothing_is_left() {
    let mut steps = rounds(4);
    assert_eq!(relief(&steps), Relief::Trim { before: 5 }, "the last two replies keep theirs");
    steps.push(step(next_seq(&steps), StepBody::Trimmed { before: 5 }));
    assert_eq!(relief(&steps), Relief::Summarize { before: 7 });
    let text = "so far".to_owned();
    steps.push(step(next_seq(&steps), StepBody::Summary { before: 7, text }));
    assert_eq!(relief(&steps), Relief::None);
}

#[test]
fn a_conversation_without_replies_can_not_be_made_shorter() {
    assert_eq!(relief(&rounds(0)), Relief::None);
    assert_eq!(relief(&rounds(1)), Relief::Summarize { before: 1 });
}

#[test]
fn four_fifths_of_the_context_are_full() {
    for (estimate, full) in [(79, false), (80, false), (81, true)] {
        assert_eq!(is_full(estimate, 100), full, "{estimate}");
    }
}
