use super::*;

#[test]
fn plain_words_types_and_variables_are_no_secret() {
    for value in [
        "",
        "string,",
        "String;",
        "None",
        "&str",
        "Option<&str>",
        "$TOKEN",
        "${TOKEN}",
        "env:TOKEN",
    ] {
        assert!(is_no_secret(value), "{value}");
    }
    for value in ["hunter2", "$ecret", "env:hunter2", "strings", "$", "env:", "${"] {
        assert!(!is_no_secret(value), "{value}");
    }
}

#[test]
fn random_needs_length_and_two_kinds() {
    assert!(looks_random("hunter-a1b2c3", 12));
    assert!(!looks_random("hunter-abcdefgh", 12));
    assert!(!looks_random("a1B2", 12));
}
