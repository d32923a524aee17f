use super::*;

fn read(lines: &[Value]) -> Option<Result<String, String>> {
    let mut reader = Opencode.reader();
    for line in lines {
        let _ = reader.line(line);
    }
    reader.end()
}

#[test]
fn the_answer_is_the_text_of_the_last_step() {
    let start = json!({"type": "step_start", "sessionID": "s"});
    assert_eq!(Opencode.reader().line(&start).as_deref(), Some("s"));
    let said = |text| json!({"type": "text", "sessionID": "s", "part": {"text": text}});
    let finish = json!({"type": "step_finish", "sessionID": "s", "part": {"reason": "stop"}});
    let lines =
        [start.clone(), said("I look"), finish.clone(), start.clone(), said("it is"), finish];
    assert_eq!(read(&lines), Some(Ok("it is".to_owned())));
    let error = json!({"type": "error", "error": {"name": "APIError", "data": {"message": "402"}}});
    assert_eq!(read(&[start.clone(), error]), Some(Err("402".to_owned())));
    assert_eq!(read(&[start, said("half")]), None);
}

#[test]
fn every_api_has_a_package_of_the_program() {
    for api in Api::ALL {
        assert!(package(api).0.starts_with("@ai-sdk/"), "{api:?}");
    }
}
