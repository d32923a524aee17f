use serde_json::json;

use super::*;

fn record() -> Record {
    Record {
        id: "t1".into(),
        principal: Principal::new("ann").unwrap(),
        surface: drawgate_core::model::Surface::EMBEDDED,
        status: Status::Working,
        created_at: 1_794_738_030_999,
        updated_at: 1_794_738_030_999,
        carried: Vec::new(),
        capabilities: Map::new(),
        call: ToolInvocation {
            tool_id: "srv__slow".into(),
            arguments: Map::from_iter([("password".to_owned(), json!("hunter2"))]),
            meta: Map::from_iter([("k".to_owned(), json!(1))]),
            ..ToolInvocation::default()
        },
        handle: Some("up-1".into()),
        outcome: None,
        questions: Map::new(),
        answers: Map::new(),
        state: None,
        rounds: 0,
    }
}

#[test]
fn a_record_is_kept_sealed_and_comes_back_whole() {
    let key = SealingKey::new(&[7; 32]).unwrap();
    let stored = record().seal(&key).unwrap();
    assert!(!stored.to_string().contains("hunter2"));
    let back = Record::open("t1", &stored, &key).unwrap();
    assert_eq!(back.call, record().call);
    assert_eq!(back.handle.as_deref(), Some("up-1"));
    assert!(Record::open("t2", &stored, &key).is_none(), "bound to its id");
    assert!(Record::open("t1", &stored, &SealingKey::new(&[8; 32]).unwrap()).is_none());
}
