use super::*;

#[test]
fn the_filters_compile_in_every_form() {
    for (no_loose_memory, no_affinity) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let programs = Filter { no_loose_memory, no_affinity }.programs().unwrap();
        assert_eq!(programs.len(), 4);
        assert!(programs.iter().all(|program| program.len() < 4096));
    }
}

#[test]
fn no_call_is_both_refused_and_missing() {
    let filter = Filter { no_loose_memory: true, no_affinity: true };
    let refused = filter.refused().unwrap();
    assert!(filter.missing().keys().all(|call| !refused.contains_key(call)));
    assert!(refused.keys().all(|call| *call <= c_long::from(LAST_KNOWN)));
}
