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

#[test]
fn a_question_to_a_page_has_a_name() {
    let url =
        json!({ "method": "elicitation/create", "params": { "mode": "url", "url": "https://a" } });
    assert_eq!(message_of("q", &url)["params"]["elicitationId"], "q");
    let roots = json!({ "method": "roots/list" });
    assert_eq!(
        message_of("q", &roots),
        json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" })
    );
}
