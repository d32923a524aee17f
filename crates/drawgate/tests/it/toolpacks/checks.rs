//! `validate` and `doctor`: each problem named, with what to do, and an exit code that says so.

use serde_json::{Value, json};

use super::notes::Notes;
use super::remote::{self, Remote};
use super::{commands, example_at, install, install_and_enable, write};
use crate::support::{TestFolder, eventually, reserved_port, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doctor_names_what_is_wrong_and_what_to_do() {
    let (remote, api) = (Remote::start(&[("search", "Searches.")]).await, Notes::start().await);
    let (_nobody, dead) = reserved_port();
    let place = TestFolder::new("");
    install(&place, &write(&place, &remote::pack("dead", &dead, &[("dead_tool", "search")])));
    let mut wanting = remote::pack("wanting", &remote.address, &[("wanting_tool", "search")]);
    wanting["connectors"][0]["mcp"]["headers"] = json!({ "Authorization": "env:PACK_TEST_UNSET" });
    install(&place, &write(&place, &wanting));
    let stale = [("stale_tool", "serch"), ("fresh_tool", "search")];
    install(&place, &write(&place, &remote::pack("stale", &remote.address, &stale)));
    install(
        &place,
        &write(&place, &commands("nowhere", &[("nowhere_tool", "no-such-program-at-all {{a}}")])),
    );
    let spec = example_at(&place, "openapi-local", "127.0.0.1:8087", &api.address);
    install(&place, &spec);

    for (id, subject, words) in [
        ("dead", "connector main", &[dead.as_str(), "no connection"][..]),
        ("wanting", "variable PACK_TEST_UNSET", &["PACK_TEST_UNSET"]),
        ("stale", "tool stale_tool", &["serch", "search"]),
        ("nowhere", "program no-such-program-at-all", &["no-such-program-at-all"]),
    ] {
        let output = place.run(&["toolpacks", "doctor", id]);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{id}: {said}{}", text(&output.stderr));
        let failed: Vec<&str> = said.lines().filter(|line| line.contains("FAIL")).collect();
        assert!(failed.iter().any(|line| line.contains(subject)), "{id}: {said}");
        for word in words {
            assert!(said.contains(word), "{id}: {word}: {said}");
        }
        let report = place.run(&["toolpacks", "doctor", id, "--json"]);
        assert_eq!(report.status.code(), Some(1));
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let findings = report[0]["findings"].as_array().unwrap();
        let bad = findings.iter().find(|one| one["ok"] == false).unwrap();
        let advice = bad["advice"].as_str().unwrap_or_default();
        assert!(!advice.is_empty(), "what to do about it: {bad}");
    }
    let well = place.ok(&["toolpacks", "doctor", "openapi-local"]);
    assert!(well.starts_with("openapi-local: ok") && well.contains("ok"), "{well}");
    let all = place.run(&["toolpacks", "doctor"]);
    assert_eq!(all.status.code(), Some(1));
    assert!(text(&all.stdout).contains("openapi-local: ok"), "{all:?}");
    assert!(text(&all.stdout).contains("dead: has problems"), "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doctor_finds_an_api_that_is_down() {
    let (_nobody, dead) = reserved_port();
    let place = TestFolder::new("");
    let spec = example_at(&place, "openapi-local", "127.0.0.1:8087", &dead);
    install_and_enable(&place, &spec);
    // Its tools are known without the API, and are listed.
    for args in [&["toolpacks", "doctor"][..], &["servers", "doctor", "openapi-local"]] {
        let output = place.run(args);
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}{}", text(&output.stderr));
        assert!(said.contains(&format!("no connection to `{dead}`")), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_operation_is_refused_with_the_nearest_name() {
    let api = Notes::start().await;
    let place = TestFolder::new("");
    let folder = example_at(&place, "openapi-local", "\"getNote\"", "\"getNoet\"");
    // Only the manifest says it wrongly.
    let spec = folder.join("spec/notes.json");
    let text_of = std::fs::read_to_string(&spec).unwrap();
    std::fs::write(&spec, text_of.replace("getNoet", "getNote")).unwrap();
    let refused = place.run(&["toolpacks", "validate", folder.to_str().unwrap()]);
    let said = text(&refused.stdout);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("$.tools[1]"), "{said}");
    assert!(said.contains("getNoet") && said.contains("did you mean `getNote`"), "{said}");
    let refused = super::refusal(&place.run(&["toolpacks", "install", folder.to_str().unwrap()]));
    assert!(refused.contains("getNoet"), "{refused}");

    // A document that only its server knows is asked by the doctor.
    let document = std::fs::read_to_string(&spec).unwrap();
    let served = super::github::serve(vec![(
        "/spec.json",
        document.replace("127.0.0.1:8087", &api.address),
    )])
    .await;
    let pack = json!({
        "id": "served", "name": "Served", "version": "1.0.0",
        "permissions": { "hosts": [served.address, api.address] },
        "connectors": [{ "id": "notes", "type": "openapi", "openapi": { "spec_url": format!("http://{}/spec.json", served.address) } }],
        "tools": [
            { "name": "served_list", "type": "openapi", "connector_id": "notes", "operation_id": "listNotes" },
            { "name": "served_lost", "type": "openapi", "connector_id": "notes", "operation_id": "listNote" },
        ],
    });
    install(&place, &write(&place, &pack));
    let doctor = place.run(&["toolpacks", "doctor", "served"]);
    let said = text(&doctor.stdout);
    assert_eq!(doctor.status.code(), Some(1), "{said}");
    assert!(
        said.contains("FAIL") && said.contains("listNote") && said.contains("listNotes"),
        "{said}"
    );
}

#[test]
fn validate_reports_everything_at_once() {
    let place = TestFolder::new("");
    let bad = json!({
        "id": "Bad Id", "version": "1.0.0", "colour": "red",
        "connectors": [{ "id": "a", "type": "mcp" }, { "id": "a", "type": "graphql" }],
        "tools": [
            { "name": "X", "type": "command" },
            { "name": "vfs_read", "type": "command", "command_template": "cat -- {{file}}" },
            { "name": "twice", "type": "mcp", "connector_id": "nobody" },
            { "name": "twice", "type": "command", "command_template": "sh -c {{code}}",
              "parameters": { "type": "object", "properties": { "code": { "type": "string" } } } },
        ],
    });
    let folder = place.path().join("bad");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("toolpack.json"), bad.to_string()).unwrap();
    let output = place.run(&["toolpacks", "validate", "./bad", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = report[0]["problems"].as_array().unwrap();
    let at =
        |path: &str| problems.iter().any(|one| one["path"].as_str().unwrap().starts_with(path));
    for path in [
        "$.id",
        "$.name",
        "$.colour",
        "$.connectors[1]",
        "$.tools[0].name",
        "$.tools[0].command_template",
        "$.tools[1]",
        "$.tools[2].connector_id",
        "$.tools[3]",
    ] {
        assert!(at(path), "{path}: {report:#}");
    }
    let printed = text(&place.run(&["toolpacks", "validate", "./bad"]).stdout);
    assert!(printed.starts_with(&format!("./bad: {} problems", problems.len())), "{printed}");
}

#[test]
fn validate_finds_what_would_keep_a_folder_from_being_installed() {
    let place = TestFolder::new("");
    place.ok(&["toolpacks", "new", "my-pack"]);
    for way in ["./my-pack", "my-pack", "my-pack/toolpack.json"] {
        assert_eq!(place.ok(&["toolpacks", "validate", way]), format!("{way}: valid\n"));
    }
    let link = place.path().join("my-pack/deep/er");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", link).unwrap();
    let refused = place.run(&["toolpacks", "validate", "./my-pack"]);
    let said = text(&refused.stdout);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("`deep/er` is a symbolic link"), "{said}");
    assert!(!place.run(&["toolpacks", "install", "./my-pack"]).status.success());
}

#[test]
fn the_published_schema_is_current() {
    let place = TestFolder::new("");
    let printed = place.ok(&["toolpacks", "schema"]);
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/toolpack.schema.json");
    let published = std::fs::read_to_string(published).unwrap();
    assert!(
        printed == published,
        "write it with `drawgate toolpacks schema > docs/toolpack.schema.json`"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_that_fails_later_says_so() {
    let remote = Remote::start(&[("search", "Searches.")]).await;
    let place = TestFolder::new("");
    let gateway = place.serve();
    let pack = remote::pack("far", &remote.address, &[("far_search", "search")]);
    install_and_enable(&place, &write(&place, &pack));
    super::listed(&gateway, "far_search").await;
    drop(remote);
    let result = gateway.call(&gateway.token, "far_search", json!({})).await;
    assert_eq!(result["isError"], true, "{result}");
    let doctor = place.run(&["toolpacks", "doctor", "far"]);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_whose_server_never_came_is_answered_with_the_reason() {
    let (_nobody, address) = reserved_port();
    let place = TestFolder::new("");
    let gateway = place.serve();
    let alone = remote::pack("far", &address, &[("search", "search")]);
    let mut beside = remote::pack("half", &address, &[("find", "search")]);
    beside["tools"].as_array_mut().unwrap().push(json!({
        "name": "greet", "type": "command", "description": "Greets.", "command_template": "echo hello",
        "parameters": { "type": "object" },
    }));
    for pack in [alone, beside] {
        let installed = install(&place, &write(&place, &pack));
        // It is enabled, and the command says that something in it does not work.
        place.run(&["toolpacks", "enable", installed["id"].as_str().unwrap()]);
    }
    super::listed(&gateway, "greet").await;
    for (tool, words) in [("search", "`far` failed"), ("find", "`half` does not offer it")] {
        let said = eventually(tool, async || {
            let params = json!({ "name": tool, "arguments": {} });
            let answer = gateway.rpc(&gateway.token, "tools/call", params).await;
            answer.get("result").map(ToString::to_string)
        });
        let said = said.await;
        assert!(said.contains("UNAVAILABLE") && said.contains(words), "{said}");
        assert!(said.contains("no connection"), "{said}");
    }
    let params = json!({ "name": "nothing", "arguments": {} });
    let answer = gateway.rpc(&gateway.token, "tools/call", params).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}
