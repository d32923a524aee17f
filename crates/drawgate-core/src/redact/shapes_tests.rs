use super::*;

fn letters(len: usize) -> String {
    "a1B2c3D4e5F6g7H8i9J0".chars().cycle().take(len).collect()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let mut spans = Spans::default();
    find(text, &mut spans);
    assert_eq!(spans.apply(text).as_deref().unwrap_or(text), expected);
}

#[test]
fn each_prefix_with_a_run_is_a_token() {
    for shape in SHAPES {
        let run = match shape.run {
            UpperDigit => "A1B2C3D4E5F6G7H8".to_owned(),
            Hex => "0123456789abcdef".repeat(3),
            Jwt => format!("{}.{}.{}", letters(20), letters(30), letters(43)),
            Alnum | Word | Dotted | Path => letters(60),
        };
        check(&format!("see {}{run} ok", shape.prefix), "see [REDACTED] ok");
        check(&format!("see {} ok", shape.prefix), &format!("see {} ok", shape.prefix));
    }
}

#[test]
fn a_token_inside_a_name_is_found() {
    check(&format!("x{}{}", "ghp_", letters(36)), "x[REDACTED]");
    check(&format!("mcp__{}{}__call", "ghp_", letters(36)), "mcp__[REDACTED]__call");
}

#[test]
fn a_token_over_lines_goes_entirely_and_nothing_after_it() {
    let token = letters(60);
    let (first, second) = token.split_at(25);
    for with in ["\n", "\r\n", "\n  ", "\\n"] {
        check(
            &format!("see ghp_{first}{with}{second}\nNext line 2"),
            "see [REDACTED]\nNext line 2",
        );
        check(&format!("see sk-ant-{first}{with}{second}\""), "see [REDACTED]\"");
    }
    for after in ["Finished", "line two", "rm -rf /", "v2"] {
        check(&format!("ghp_{token}\n{after}"), &format!("[REDACTED]\n{after}"));
    }
}

#[test]
fn the_secret_half_of_an_access_key_goes_with_it() {
    let id = format!("{}{}", "AKIA", "A1B2C3D4E5F6G7H8");
    check(&format!("{id} / {}", letters(40)), "[REDACTED] / [REDACTED]");
    check(
        &format!("commit {}", "94fbad5acee4e4716bff263a4c455dfd780e53a7"),
        "commit 94fbad5acee4e4716bff263a4c455dfd780e53a7",
    );
}

#[test]
fn ordinary_words_are_no_tokens() {
    for text in [
        "task-force-for-the-desk-and-risk-management",
        "sk-fading-circle and sk-learn",
        "npm_config_registry",
        "eyJ is how a header begins",
        "eyJhbGciOi.short",
        "SKU-12345678901234567890",
        "dg_audit_events_by_time",
        "ghp_ghp_ghp_",
        "https://discord.com/api/webhooks/",
    ] {
        check(text, text);
    }
}
