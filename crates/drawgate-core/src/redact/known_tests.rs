use super::*;

const VALUE: &str = "hunter-nG5ZFJoC6vWCBi";

#[track_caller]
fn check(value: &str, text: &str, expected: &str) {
    assert_eq!(Known::new([value]).mask(text), expected, "{text}");
}

#[test]
fn every_disguise_is_found() {
    check(VALUE, &format!("a {VALUE} b"), "a [REDACTED] b");
    check(VALUE, &hex::encode(VALUE), MASK);
    check(VALUE, &hex::encode_upper(VALUE), MASK);
    check(VALUE, &VALUE.chars().rev().collect::<String>(), MASK);
    check(VALUE, &VALUE.bytes().map(|b| format!("%{b:02x}")).collect::<Vec<_>>().concat(), MASK);
    check("a b/c\"d\\e", "a%20b%2Fc%22d%5Ce", MASK);
    check("a b/c\"d\\e", "a+b%2Fc%22d%5Ce", MASK);
    check("a b/c\"d\\e", r#"a b/c\"d\\e"#, MASK);
    check("a b/c\"d\\e", r#"a b/c\\\"d\\\\e"#, MASK);
    check("p\u{e4}ssw\u{f6}rd", "p\\u00e4ssw\\u00f6rd", MASK);
    check(
        VALUE,
        &VALUE.chars().map(|c| format!("{c}\0")).collect::<Vec<_>>().concat(),
        "[REDACTED]\0",
    );
}

#[test]
fn base64_is_found_at_each_alignment_with_its_edges() {
    for before in ["", "x", "xy", "xyz", "user:"] {
        for after in ["", "!", "!!", "!!!"] {
            let text = format!("{before}{VALUE}{after}");
            for encoded in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                let masked = Known::new([VALUE]).mask(&encoded).into_owned();
                let left = masked.replace(MASK, "").len();
                assert!(
                    masked.contains(MASK) && left <= before.len() * 2 + after.len() * 2,
                    "{masked}"
                );
            }
        }
    }
}

#[test]
fn overlapping_values_go_entirely() {
    let known = Known::new(["abcdefgh", "efghijkl"]);
    assert_eq!(known.mask("abcdefghijkl"), MASK);
    assert_eq!(known.mask("abcdefghabcdefgh"), MASK, "the number of secrets must not show");
}

#[test]
fn short_values_and_the_mask_itself_are_ignored() {
    assert!(Known::new(["", "a", "12345"]).is_nothing());
    let known = Known::new(["REDACTED"]);
    assert_eq!(known.mask("[REDACTED]"), "[REDACTED]");
}

#[test]
fn the_lines_of_a_long_value_are_found_alone() {
    let known = Known::new(["first-line-of-secret\nsecond-line-of-secret\n"]);
    assert_eq!(known.mask("x second-line-of-secret y"), "x [REDACTED] y");
}
