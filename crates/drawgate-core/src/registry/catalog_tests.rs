use serde_json::json;

use super::*;

fn source(id: &str) -> SourceId {
    SourceId::new(id).unwrap()
}

fn offer(uris: &[&str], templates: &[&str], prompts: &[&str]) -> Offer {
    let with = |key: &str, list: &[&str]| list.iter().map(|text| json!({ key: text })).collect();
    Offer {
        resources: with("uri", uris),
        templates: with("uriTemplate", templates),
        prompts: with("name", prompts),
        ..Offer::default()
    }
}

fn catalog(offers: &[(&SourceId, Offer, Naming)]) -> SourceCatalog {
    SourceCatalog::of(offers.iter().map(|(id, offer, naming)| (*id, offer, *naming)))
}

fn at(source: &SourceId, own: &str) -> ItemMatch {
    ItemMatch::One(source.clone(), own.to_owned())
}

#[test]
fn a_uri_keeps_its_form_until_two_sources_have_it() {
    let (a, b) = (source("a"), source("b"));
    let both = catalog(&[
        (&a, offer(&["test://one", "test://both"], &[], &[]), Naming::Qualified),
        (&b, offer(&["test://both", "drawgate://artifacts/x"], &[], &[]), Naming::Qualified),
    ]);
    let shown: Vec<&str> = both.resources.iter().map(|item| item.shown.as_str()).collect();
    let expected = [
        "test://one",
        "drawgate://servers/a/test://both",
        "drawgate://servers/b/test://both",
        "drawgate://servers/b/drawgate://artifacts/x",
    ];
    assert_eq!(shown, expected);
    let open = BTreeSet::from([a.clone(), b.clone()]);
    for item in &both.resources {
        assert_eq!(both.resource(&item.shown, &open), at(&item.source, &item.own), "maps back");
    }
    let several = expected[1..3].iter().map(|text| (*text).to_owned()).collect();
    assert_eq!(both.resource("test://both", &open), ItemMatch::Several(several));
    let only_b = BTreeSet::from([b.clone()]);
    assert_eq!(
        both.resource("test://both", &only_b),
        at(&b, "test://both"),
        "as the caller sees it"
    );
    assert_eq!(both.resource("drawgate://servers/a/test://both", &only_b), ItemMatch::Missing);
    assert_eq!(both.shown_uri(&a, "test://both").as_deref(), Some(expected[1]));
    assert_eq!(both.shown_uri(&a, "test://one"), None);
}

#[test]
fn an_unlisted_uri_goes_to_the_one_source_that_may_know_it() {
    let (a, b) = (source("a"), source("b"));
    let both = catalog(&[
        (&a, offer(&[], &["test://t/{id}/data"], &[]), Naming::Qualified),
        (&b, offer(&["file:///x"], &["db://{+path}"], &[]), Naming::Qualified),
    ]);
    let open = BTreeSet::from([a.clone(), b.clone()]);
    for (uri, place) in [
        ("test://t/7/data", at(&a, "test://t/7/data")),
        ("test://other", at(&a, "test://other")),
        ("db://any/thing", at(&b, "db://any/thing")),
        ("FILE:///y", at(&b, "FILE:///y")),
        ("unknown://z", ItemMatch::Missing),
        ("", ItemMatch::Missing),
    ] {
        assert_eq!(both.resource(uri, &open), place, "{uri}");
    }
    let one = BTreeSet::from([a.clone()]);
    assert_eq!(both.resource("unknown://z", &one), at(&a, "unknown://z"), "there is only one");
    assert_eq!(both.template("test://t/{id}/data", &open), at(&a, "test://t/{id}/data"));
}

#[test]
fn prompts_follow_the_names_of_their_source() {
    let (a, b, c) = (source("a"), source("b"), source("c"));
    let all = catalog(&[
        (&a, offer(&[], &[], &["same", "own"]), Naming::Flat),
        (&b, offer(&[], &[], &["same"]), Naming::Flat),
        (&c, offer(&[], &[], &["third"]), Naming::Qualified),
    ]);
    let shown: Vec<&str> = all.prompts.iter().map(|item| item.shown.as_str()).collect();
    assert_eq!(shown, ["a__same", "own", "b__same", "c__third"]);
    let open = BTreeSet::from([a.clone(), b.clone(), c.clone()]);
    assert_eq!(all.prompt("own", &open), at(&a, "own"));
    assert_eq!(all.prompt("third", &open), at(&c, "third"), "a bare name that only one has");
    assert_eq!(all.prompt("c__third", &open), at(&c, "third"));
    assert_eq!(
        all.prompt("same", &open),
        ItemMatch::Several(vec!["a__same".into(), "b__same".into()])
    );
    assert_eq!(all.prompt("nope", &open), ItemMatch::Missing);
    assert_eq!(all.prompt("own", &BTreeSet::from([b])), ItemMatch::Missing);
}

#[test]
fn no_prompt_can_take_the_name_of_another() {
    let (a, b, c) = (source("a"), source("a__b"), source("c"));
    let all = catalog(&[
        (&a, offer(&[], &[], &["foo", "b__x"]), Naming::Qualified),
        (&b, offer(&[], &[], &["x", "y"]), Naming::Qualified),
        (&c, offer(&[], &[], &["a__foo", "c__own", "own"]), Naming::Flat),
    ]);
    let shown: Vec<&str> = all.prompts.iter().map(|item| item.shown.as_str()).collect();
    assert_eq!(
        shown,
        ["a__foo", "a__b__x", "a__b__y", "c__a__foo", "c__c__own", "own"],
        "`a__b__x` of the second source is left out"
    );
    let open = BTreeSet::from([a.clone(), b, c.clone()]);
    assert_eq!(all.prompt("a__foo", &open), at(&a, "foo"));
    assert_eq!(all.prompt("a__b__x", &open), at(&a, "b__x"));
    assert_eq!(all.prompt("c__a__foo", &open), at(&c, "a__foo"));
    let only_c = BTreeSet::from([c.clone()]);
    assert_eq!(all.prompt("a__foo", &only_c), ItemMatch::Missing, "not even for whom it is shut");
}

#[test]
fn names_stay_while_a_source_is_gone() {
    let (a, c) = (source("a"), source("c"));
    let mut all = catalog(&[
        (&a, offer(&["x:1"], &[], &["foo"]), Naming::Qualified),
        (&c, offer(&["x:1"], &[], &["a__foo"]), Naming::Flat),
    ]);
    all.hide(|source| *source == a);
    let shown =
        |items: &[Item]| -> Vec<String> { items.iter().map(|item| item.shown.clone()).collect() };
    assert_eq!(shown(&all.prompts), ["c__a__foo"]);
    assert_eq!(all.prompt("a__foo", &BTreeSet::from([c])), ItemMatch::Missing);
    assert_eq!(shown(&all.resources), ["drawgate://servers/c/x:1"]);
}

#[test]
fn names_with_hidden_characters_and_twins_are_left_out() {
    let a = source("a");
    let one = catalog(&[(&a, offer(&["x:\u{200b}", "x:1", "x:1", ""], &[], &[]), Naming::Flat)]);
    assert_eq!(one.resources.len(), 1);
}

#[test]
fn templates_match_in_one_pass() {
    for (uri, template, expected) in [
        ("a/b/c", "a/{x}/c", true),
        ("a/b/d", "a/{x}/c", false),
        ("a/b", "a/{x}", true),
        ("a/", "a/{x}", true),
        ("b/", "a/{x}", false),
        ("a/b?q=1", "a/{x}{?q}", true),
        ("fixed", "fixed", true),
        ("fixed2", "fixed", false),
    ] {
        assert_eq!(belongs(uri, template), expected, "{uri} {template}");
    }
    let hostile = format!("a{}", "{x}a".repeat(2000));
    assert!(!belongs(&"a".repeat(1500), &hostile));
}

#[test]
fn what_a_tool_refers_to_is_found_without_being_listed() {
    let (a, b) = (source("a"), source("b"));
    let mut both = catalog(&[
        (&a, offer(&["x:1"], &[], &[]), Naming::Qualified),
        (&b, offer(&["x:2"], &[], &[]), Naming::Qualified),
    ]);
    let open = BTreeSet::from([a.clone(), b.clone()]);
    both.refer(&b, "ui://view");
    assert_eq!(both.resource("ui://view", &open), at(&b, "ui://view"));
    assert_eq!(both.shown_uri(&b, "ui://view"), None);
    both.refer(&a, "ui://view");
    let shown = "ui://drawgate/servers/a/view";
    assert_eq!(both.shown_uri(&a, "ui://view").as_deref(), Some(shown), "hosts know it as a view");
    assert_eq!(both.resource(shown, &open), at(&a, "ui://view"));
}

#[test]
fn a_listed_view_that_another_refers_to_is_listed_with_its_source() {
    let (a, b) = (source("a"), source("b"));
    let mut both = catalog(&[
        (&a, offer(&["ui://view"], &[], &[]), Naming::Qualified),
        (&b, offer(&["x:2"], &[], &[]), Naming::Qualified),
    ]);
    let open = BTreeSet::from([a.clone(), b.clone()]);
    both.refer(&a, "ui://view");
    assert_eq!(both.resources[0].shown, "ui://view", "only one source has it");
    both.refer(&b, "ui://view");
    let shown = "ui://drawgate/servers/a/view";
    assert_eq!(both.resources[0].shown, shown);
    assert_eq!(both.resources[0].listing["uri"], shown);
    assert_eq!(both.resource(shown, &open), at(&a, "ui://view"));
}
