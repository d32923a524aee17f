//! What bounds leave, up a tree of runs and by names.

use serde_json::{Value, json};

use super::*;
use crate::model::ToolOutput;
use crate::registry::{Naming, Origin, Registration, Registry, SourceTerms};
use crate::testing::{FakeSource, caller, run_of, tool};

fn caps(list: &[&str]) -> Vec<Capability> {
    list.iter().map(|text| Capability::new(text).unwrap()).collect()
}

type Names<'a> = &'a [&'a str];

/// A run below others, from the root down; `None` for a run without a ceiling.
fn below(ceilings: &[Option<Names<'_>>]) -> Arc<Lineage> {
    let run = ceilings.iter().fold(caller("ann"), |above, ceiling| {
        let ceiling = ceiling.map(caps);
        run_of(&above, "p", Bounds { ceiling, ..Bounds::default() })
    });
    run.lineage.unwrap()
}

#[test]
fn a_capability_must_be_below_every_ceiling() {
    let cases: [(&[Option<Names<'_>>], &str, bool); 12] = [
        (&[None], "file.read", true),
        (&[None, None, None], "anything", true),
        (&[Some(&["file.*"])], "file.read", true),
        (&[Some(&["file.*"])], "net", false),
        (&[Some(&[])], "file.read", false),
        (&[Some(&["a", "file.read"])], "file.read", true),
        // Whatever a run below says, it is held to what is above it.
        (&[Some(&["file.read"]), Some(&["*"])], "file.read", true),
        (&[Some(&["file.read"]), Some(&["*"])], "file.write", false),
        (&[Some(&["file.read"]), None, Some(&["*"])], "file.write", false),
        (&[Some(&["*"]), Some(&["file.*"]), None], "file.write", true),
        (&[Some(&["file.*"]), Some(&["net"])], "file.read", false),
        (&[Some(&["file.*"]), Some(&["net"])], "net", false),
    ];
    for (ceilings, required, left) in cases {
        let found = below(ceilings).leaves(&Capability::new(required).unwrap());
        assert_eq!(found, left, "{required} below {ceilings:?}");
    }
}

#[test]
fn what_is_left_of_capabilities() {
    let cases: [(Names<'_>, Names<'_>, Names<'_>); 9] = [
        (&["*"], &["file.*"], &["file.*"]),
        (&["file.*"], &["*"], &["file.*"]),
        (&["file.*", "net"], &["file.read"], &["file.read"]),
        (&["file.read"], &["file.*", "net"], &["file.read"]),
        (&["file.*"], &["file.a.*", "file.b"], &["file.a.*", "file.b"]),
        (&["file.read"], &["file.write"], &[]),
        (&["file*"], &["file.read"], &[]),
        (&["*"], &[], &[]),
        (&[], &["*"], &[]),
    ];
    for (held, ceiling, left) in cases {
        let found = below(&[Some(ceiling)]).limit(caps(held).into_iter().collect());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), caps(left), "{held:?} below {ceiling:?}");
    }
}

/// Every set of two out of these, held and as two ceilings: lists filter by what is left, calls by
/// each ceiling in turn.
#[test]
fn lists_and_calls_agree_about_what_is_left() {
    let all = ["*", "file.*", "file.a.*", "file.a.b", "file.a", "file", "file*", "net"];
    let pairs: Vec<[&str; 2]> =
        all.iter().flat_map(|one| all.iter().map(move |other| [*one, *other])).collect();
    let mut left_something = 0;
    for held in &pairs {
        for ceiling in &pairs {
            for above in all {
                let run = below(&[Some(&[above]), Some(ceiling)]);
                let left = run.limit(caps(held).into_iter().collect());
                for required in caps(&all) {
                    let holds = caps(held).iter().any(|own| own.covers(&required));
                    let called = holds && run.leaves(&required);
                    let listed = left.iter().any(|own| own.covers(&required));
                    assert_eq!(
                        listed, called,
                        "{required}: {held:?} below {above} and {ceiling:?}"
                    );
                    left_something += usize::from(listed);
                }
            }
        }
    }
    assert!(left_something > 1000, "{left_something}");
}

/// A tool `read` of the source `files`, under a name for models.
fn entry(naming: Naming) -> Arc<Entry> {
    let tools = vec![tool("read", &Value::Null)];
    let source = FakeSource::new("files", tools, |_, _| Ok(ToolOutput::text("")));
    let terms = SourceTerms { naming, ..SourceTerms::default() };
    let (registry, manifest) = (Registry::default(), source.describe());
    let origin = Origin::Discovered;
    registry.replace(Registration { manifest, terms, origin, source }).unwrap();
    let entry = registry.snapshot().entries().next().cloned();
    entry.unwrap()
}

#[test]
fn tools_are_chosen_by_any_of_their_names() {
    let entry = entry(Naming::Qualified);
    let cases: [(Option<Names<'_>>, Names<'_>, bool); 14] = [
        (None, &[], true),
        (Some(&[]), &[], false),
        (Some(&["read"]), &[], true),
        (Some(&["files:read"]), &[], true),
        (Some(&["files__read"]), &[], true),
        (Some(&["files__*"]), &[], true),
        (Some(&["write", "r?ad"]), &[], true),
        (Some(&["rea"]), &[], false),
        (Some(&["files"]), &[], false),
        // What is denied stays denied, by whichever name.
        (None, &["files:*"], false),
        (Some(&["files__read"]), &["read"], false),
        (Some(&["*"]), &["files__r*"], false),
        (None, &["write"], true),
        (Some(&["*"]), &["write", "files"], true),
    ];
    for (allowed, denied, admitted) in cases {
        let chosen = allowed.map(|list| ToolPatterns::only(list.iter().copied()).unwrap());
        let chosen = chosen.unwrap_or_default().without(denied.iter().copied()).unwrap();
        assert_eq!(chosen.admits(&entry), admitted, "{allowed:?} without {denied:?}");
        let kept: ToolPatterns =
            serde_json::from_value(serde_json::to_value(&chosen).unwrap()).unwrap();
        assert_eq!((kept.admits(&entry), &kept), (admitted, &chosen), "as it is kept");
    }
}

#[test]
fn what_is_no_pattern_is_named() {
    let long = "x".repeat(1025);
    for bad in ["", long.as_str()] {
        for error in [
            ToolPatterns::only(["good", bad]).unwrap_err(),
            ToolPatterns::default().without([bad]).unwrap_err(),
        ] {
            let shown: String = bad.chars().take(80).collect();
            assert!(error.to_string().starts_with(&format!("`{shown}` can't be used")), "{error}");
        }
    }
    for bad in [json!({ "allowed": [""] }), json!({ "denid": ["x"] }), json!({ "denied": "x" })] {
        assert!(serde_json::from_value::<ToolPatterns>(bad.clone()).is_err(), "{bad}");
    }
}
