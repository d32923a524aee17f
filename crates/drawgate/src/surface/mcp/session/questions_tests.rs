use serde_json::json;

use super::*;

#[test]
fn questions_are_bounded_and_forgotten() {
    let questions = Arc::new(Questions::default());
    let open: Vec<Question> =
        (0..).map_while(|number: u32| questions.open(number.to_string())).collect();
    assert_eq!(open.len(), MAX_OPEN);
    drop(open);
    assert!(questions.0.lock().is_empty());
}

#[tokio::test]
async fn an_answer_reaches_who_asked_once() {
    let questions = Arc::new(Questions::default());
    let mut question = questions.open("a".to_owned()).unwrap();
    questions.answered(&RequestId::Text("b".to_owned()), Some(json!(1)));
    questions.answered(&RequestId::Number(1.into()), Some(json!(1)));
    questions.answered(&RequestId::Text("a".to_owned()), Some(json!({ "x": 1 })));
    questions.answered(&RequestId::Text("a".to_owned()), Some(json!({ "x": 2 })));
    assert_eq!((&mut question.received).await.unwrap(), Some(json!({ "x": 1 })));
}
