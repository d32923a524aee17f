use super::*;
use crate::plugin::Hook;
use crate::tasks::record::Question;

fn record() -> TaskRecord {
    let profile =
        crate::profile::parse("a.md", "---\nname: a\ndescription: d\n---\n").unwrap().profile;
    TaskRecord {
        id: "t".to_owned(),
        parent_thread: "p".to_owned(),
        parent: None,
        plugin: "delegation".to_owned(),
        principal: drawgate_core::model::Principal::local(),
        carried: Vec::new(),
        profile,
        model: None,
        prompt: "do it".to_owned(),
        state: TaskState::Reviewing,
        iteration: 2,
        max_iterations: 5,
        runs: Vec::new(),
        result: None,
        feedback: None,
        questions: Vec::new(),
        messages: Vec::new(),
        created_at: 0,
        ended_at: None,
        settled: false,
    }
}

fn task(answers: &[Option<Said>]) -> TaskRecord {
    let question = |(number, answer): (usize, &Option<Said>)| Question {
        hook: Hook::OnTaskComplete,
        iteration: 2,
        plugin: format!("p{number}"),
        answer: answer.clone(),
    };
    let mut task = record();
    task.questions = answers.iter().enumerate().map(question).collect();
    // What was said about the try before does not count any more.
    task.questions.push(Question {
        hook: Hook::OnTaskComplete,
        iteration: 1,
        plugin: "p0".to_owned(),
        answer: Some(Said::Rejected { feedback: "old".to_owned() }),
    });
    task
}

#[test]
fn any_rejection_rejects_and_silence_is_no_acceptance() {
    let no = |text: &str| Some(Said::Rejected { feedback: text.to_owned() });
    let dead = Some(Said::Failed { reason: "gone".to_owned() });
    let (yes, nothing) = (Some(Said::Accepted), Some(Said::Nothing));
    let cases = [
        (vec![], Verdict::Accepted),
        (vec![yes.clone(), nothing.clone()], Verdict::Accepted),
        (vec![yes.clone(), dead.clone()], Verdict::Unreviewed("p1: gone".to_owned())),
        (vec![no("a"), yes, no("b")], Verdict::Rejected("p0: a\n\np2: b".to_owned())),
        (vec![dead, no("a")], Verdict::Rejected("p1: a".to_owned())),
    ];
    for (answers, expected) in cases {
        assert_eq!(verdict(&task(&answers)), expected, "{answers:?}");
    }
}

#[test]
fn long_feedback_is_cut_at_a_character() {
    assert_eq!(clipped("äöü", 3), "ä…");
    assert_eq!(clipped("äöü", 6), "äöü");
}
