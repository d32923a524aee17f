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
    assert!(Known::new(["", "a", "123"]).is_nothing());
    let known = Known::new(["REDACTED"]);
    assert_eq!(known.mask("[REDACTED]"), "[REDACTED]");
}

#[test]
fn a_short_value_is_masked_where_it_stands_alone() {
    check(
        "4711",
        "pin 4711, not 47110 or x4711 or 4711\u{e4}",
        "pin [REDACTED], not 47110 or x4711 or 4711\u{e4}",
    );
    check("admin", "admin:admin@h administrator", "[REDACTED]:[REDACTED]@h administrator");
    check("1234567", &hex::encode("1234567"), &hex::encode("1234567"));
    check("12345678", "x12345678x", "x[REDACTED]x");
}

#[test]
fn a_value_is_found_over_lines_in_every_disguise() {
    let wrapped = |text: &str, width: usize, with: &str| {
        let chars: Vec<char> = text.chars().collect();
        chars
            .chunks(width)
            .map(|part| part.iter().collect::<String>())
            .collect::<Vec<_>>()
            .join(with)
    };
    for form in [VALUE.to_owned(), hex::encode(VALUE), STANDARD_NO_PAD.encode(VALUE)] {
        for with in ["\n", "\r\n", "\n    ", "\\n", "\\\\n", " \n\t"] {
            for width in [3, 7, 11] {
                let text = format!("a {}, b\n", wrapped(&form, width, with));
                assert_eq!(Known::new([VALUE]).mask(&text), "a [REDACTED], b\n", "{text}");
            }
        }
    }
    check("two words here", "x two\nwords here y", "x [REDACTED] y");
    check(VALUE, "hunter-\nnG5ZFJoC6vW\nother", "hunter-\nnG5ZFJoC6vW\nother");
}

#[test]
fn the_lines_of_a_long_value_are_found_alone() {
    let known = Known::new(["first-line-of-secret\nsecond-line-of-secret\n"]);
    assert_eq!(known.mask("x second-line-of-secret y"), "x [REDACTED] y");
}
