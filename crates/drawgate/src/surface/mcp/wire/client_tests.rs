use super::*;

fn client(capabilities: &Value) -> Client {
    let params = json!({ "capabilities": capabilities });
    of_session(params.as_object().unwrap()).unwrap_or_else(|error| panic!("{}", error.message))
}

#[test]
fn a_client_is_asked_what_it_said_it_answers() {
    let form = json!({ "method": "elicitation/create", "params": { "mode": "form" } });
    let plain = json!({ "method": "elicitation/create", "params": {} });
    let url = json!({ "method": "elicitation/create", "params": { "mode": "url" } });
    let sample = json!({ "method": "sampling/createMessage", "params": {} });
    let tools = json!({ "method": "sampling/createMessage", "params": { "tools": [] } });
    let roots = json!({ "method": "roots/list" });
    let other = json!({ "method": "tools/call" });
    let questions = [&form, &plain, &url, &sample, &tools, &roots, &other];
    for (capabilities, expected) in [
        (json!({}), [false; 7]),
        (json!({ "elicitation": {} }), [true, true, false, false, false, false, false]),
        (json!({ "elicitation": { "form": {} } }), [true, true, false, false, false, false, false]),
        (json!({ "elicitation": { "url": {} } }), [false, false, true, false, false, false, false]),
        (
            json!({ "elicitation": { "form": {}, "url": {} } }),
            [true, true, true, false, false, false, false],
        ),
        (json!({ "sampling": {} }), [false, false, false, true, false, false, false]),
        (json!({ "sampling": { "tools": {} } }), [false, false, false, true, true, false, false]),
        (
            json!({ "roots": { "listChanged": true } }),
            [false, false, false, false, false, true, false],
        ),
        (json!({ "roots": false, "sampling": null }), [false; 7]),
    ] {
        let client = client(&capabilities);
        let answered = questions.map(|question| answers(&client, question));
        assert_eq!(answered, expected, "{capabilities}");
    }
}

#[test]
fn what_is_declared_is_bounded() {
    for (capabilities, fits) in [
        (json!({ "experimental": { "x": "y".repeat(MAX_CAPABILITIES / 2) } }), true),
        (json!({ "experimental": { "x": "y".repeat(MAX_CAPABILITIES) } }), false),
        (json!([]), false),
    ] {
        let params = json!({ "capabilities": capabilities });
        assert_eq!(of_session(params.as_object().unwrap()).is_ok(), fits);
    }
}

#[test]
fn logs_are_wanted_from_a_level_on() {
    let with =
        |level: Option<&str>| Client { log_level: level.map(str::to_owned), ..Client::default() };
    for (era, level, message, wanted) in [
        (Era::Sessions, None, "debug", true),
        (Era::Stateless, None, "emergency", false),
        (Era::Sessions, Some("warning"), "notice", false),
        (Era::Sessions, Some("warning"), "warning", true),
        (Era::Stateless, Some("warning"), "critical", true),
        (Era::Stateless, Some("debug"), "no level", false),
    ] {
        let message = json!(message);
        assert_eq!(wants_log(era, &with(level), Some(&message)), wanted, "{level:?} {message}");
    }
}
