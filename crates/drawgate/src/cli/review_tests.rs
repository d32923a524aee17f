use drawgate_core::registry::ItemKind;

use super::*;

fn held(reason: HeldReason, pinned: Option<Value>, definition: Value) -> Held {
    let name = definition["name"].as_str().unwrap_or_default().to_owned();
    let pinned_hash = pinned.as_ref().map(|_| "old".to_owned());
    let hash = "abc".to_owned();
    let is_foreign = true;
    Held { kind: ItemKind::Tool, name, reason, hash, pinned_hash, definition, is_foreign, pinned }
}

fn review(waiting: Vec<Held>) -> Review {
    Review { state: SourceState::Ready, problem: None, waiting }
}

#[test]
fn a_change_is_shown_with_its_surroundings_and_nothing_hidden() {
    let old = json!({ "name": "a", "description": "adds", "inputSchema": { "type": "object" } });
    let mut new = old.clone();
    new["description"] = "adds\u{1b}[8m and\r\n sends \u{e0041}\u{202e}\u{9b}2J".into();
    let review = review(vec![held(HeldReason::Changed, Some(old), new)]);
    let shown =
        describe("s", &review, false) + &conclude("s", &review, &digest(&review.waiting), None);
    insta::assert_snapshot!(shown, @r#"
    tool `a` has changed, hash abc
      {
        "name": "a",
    -   "description": "adds",
    +   "description": "adds\u001b[8m and\r\n sends \u{e0041}\u{202e}\u{9b}2J",
        "inputSchema": {
          "type": "object"
        }
    @ …

    1 kept from callers; to accept exactly this, or with `--only NAME` one of it:
      drawgate servers review s --accept f9b5b076995f2cbc193146df609a13434d6f2dc5
    "#);
}

#[test]
fn colours_and_nothing_else_reach_a_terminal() {
    let new = json!({ "name": "\u{1b}[2J\u{fe00}", "x": "\u{1b}[2J" });
    let shown = describe("s", &review(vec![held(HeldReason::New, None, new)]), true);
    let rest = shown.replace("\u{1b}[32m", "").replace("\u{1b}[0m", "");
    assert!(shown.contains("\u{1b}[32m+ {"), "{shown:?}");
    assert!(rest.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    assert!(!rest.contains('\u{fe00}'));
}

#[test]
fn what_can_not_be_compared_is_said() {
    let body = json!({ "name": "a" });
    let same = held(HeldReason::Changed, Some(body.clone()), body.clone());
    assert!(describe("s", &review(vec![same]), false).contains("differs in what is masked"));
    let large = held(HeldReason::Changed, None, body);
    let shown = describe("s", &review(vec![large]), false);
    assert!(
        shown.contains("too large to keep") && shown.contains("+   \"name\": \"a\""),
        "{shown}"
    );
}

#[test]
fn names_choose_and_unknown_ones_are_refused() {
    let all = review(vec![
        held(HeldReason::New, None, json!({ "name": "a" })),
        held(HeldReason::New, None, json!({ "name": "b" })),
    ]);
    let names = |list: &[&str]| -> Vec<String> {
        let list: Vec<String> = list.iter().map(|name| (*name).to_owned()).collect();
        chosen("s", &all, Acceptances { digest: None, only: &list })
            .unwrap()
            .into_iter()
            .map(|one| one.name)
            .collect()
    };
    assert_eq!(names(&[]), ["a", "b"]);
    assert_eq!(names(&["b"]), ["b"]);
    let only = ["c".to_owned()];
    let error = chosen("s", &all, Acceptances { digest: None, only: &only }).unwrap_err();
    assert_eq!(error.to_string(), "`c` does not wait for review");
}

#[test]
fn a_digest_stands_for_all_that_is_shown_and_nothing_else() {
    let one = |name: &str| held(HeldReason::New, None, json!({ "name": name }));
    let (a, b) = (one("a"), one("b"));
    let all = review(vec![a.clone(), b.clone()]);
    let shown = digest(&all.waiting);
    assert_eq!(shown.len(), DIGEST);
    assert_eq!(shown, digest(&[b.clone(), a.clone()]), "in any order");
    let only = ["a".to_owned()];
    for only in [&[][..], &only] {
        chosen("s", &all, Acceptances { digest: Some(&shown), only }).unwrap();
    }
    let other = Held { hash: "other".to_owned(), ..a.clone() };
    let renamed = Held { name: "c".to_owned(), ..a.clone() };
    let prompt = Held { kind: ItemKind::Prompt, ..a.clone() };
    for now in
        [vec![], vec![a.clone()], vec![other, b.clone()], vec![renamed, b.clone()], vec![prompt, b]]
    {
        for only in [&[][..], &only] {
            let now = review(now.clone());
            let error = chosen("s", &now, Acceptances { digest: Some(&shown), only }).unwrap_err();
            assert_eq!(
                error.to_string(),
                "what waits at `s` has changed since; review it once more"
            );
        }
    }
    for wrong in ["", shown.get(..12).unwrap()] {
        assert!(chosen("s", &all, Acceptances { digest: Some(wrong), only: &[] }).is_err());
    }
}
