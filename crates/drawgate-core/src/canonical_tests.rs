use super::*;
use proptest::prelude::*;
use serde_json::json;

#[track_caller]
fn check(input: &str, expected: &str) {
    let value: Value = serde_json::from_str(input).unwrap();
    assert_eq!(to_string(&value), expected);
}

#[test]
fn the_example_of_section_3_2() {
    check(
        r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#,
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#,
    );
}

#[test]
fn the_sorting_example_of_section_3_2_3() {
    let value: Value = serde_json::from_str(
        r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#,
    )
    .unwrap();
    let sorted: Value = serde_json::from_str(&to_string(&value)).unwrap();
    let order: Vec<&str> = sorted.as_object().unwrap().values().filter_map(Value::as_str).collect();
    assert_eq!(
        order,
        [
            "Carriage Return",
            "One",
            "Control",
            "Latin Small Letter O With Diaeresis",
            "Euro Sign",
            "Emoji: Grinning Face",
            "Hebrew Letter Dalet With Dagesh",
        ]
    );
}

#[test]
fn the_numbers_of_appendix_b() {
    for (bits, expected) in [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        let mut out = Vec::new();
        write(&Value::from(f64::from_bits(bits)), &mut out);
        assert_eq!(into_text(out), expected, "{bits:x}");
    }
}

#[test]
fn integers_stay_exact() {
    check(
        "[18446744073709551615,-9223372036854775808,9007199254740993]",
        "[18446744073709551615,-9223372036854775808,9007199254740993]",
    );
    check("[1.0,1e2,-0,-0.0,0.0]", "[1,100,0,0,0]");
}

#[test]
fn nothing_is_normalised() {
    assert_ne!(hash(&json!("\u{e9}")), hash(&json!("e\u{301}")));
    check("\"\\u007f\\u2028\"", "\"\u{7f}\u{2028}\"");
    check(r#""\b\t\n\f\r\u0000\u001f""#, r#""\b\t\n\f\r\u0000\u001f""#);
}

#[test]
fn hashes_known_text() {
    assert_eq!(
        hash(&json!({})),
        "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().rev().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn is_json_and_its_own_canonical_form(value in any_json()) {
        let text = to_string(&value);
        let again = crate::json::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(to_string(&again), text);
    }

    #[test]
    fn doubles_survive(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
        let mut out = Vec::new();
        write(&Value::from(value), &mut out);
        let back: f64 = into_text(out).parse().unwrap();
        prop_assert_eq!(back.abs().to_bits(), value.abs().to_bits());
        prop_assert!(value == 0.0 || back.is_sign_negative() == value.is_sign_negative());
    }
}
