//! Values from the environment: they reach whom they are for, and are seen nowhere else.

use std::path::Path;

use serde_json::json;

use super::remote::{self, Remote};
use super::{commands, install, install_and_enable, listed, path_with, program, said, write};
use crate::support::{TestFolder, text, unless_gone};

/// Put together here, so that this file does not hold it.
fn canary(what: &str) -> String {
    format!("canary-{what}-{}", "5f3b".repeat(5))
}

/// Every file below a folder that holds some bytes.
fn holding(folder: &Path, needle: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(data) = unless_gone(path.symlink_metadata()) else { continue };
        if data.is_dir() {
            holding(&path, needle, found);
        } else if data.is_file()
            && unless_gone(std::fs::read(&path)).is_some_and(|data| text(&data).contains(needle))
        {
            found.push(path.display().to_string());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_the_environment_is_shown_nowhere() {
    let (header, variable) = (canary("header"), canary("variable"));
    let remote = Remote::start(&[("search", "Searches.")]).await;
    let place = TestFolder::new("");
    let bin = program(
        &place,
        "teller",
        "#!/bin/sh\necho \"it is $TELLER_TOKEN\"\necho \"told $TELLER_TOKEN\" >&2\nexit 3\n",
    );
    let gateway = place.serve_with(|command| {
        command.env("PATH", path_with(&bin));
        command.env("FAR_TOKEN", format!("Bearer {header}")).env("TELLER_TOKEN", &variable);
    });
    let mut far = remote::pack("far", &remote.address, &[("far_search", "search")]);
    far["connectors"][0]["mcp"]["headers"] = json!({ "Authorization": "env:FAR_TOKEN" });
    let mut teller = commands("teller", &[("tell", "teller now")]);
    teller["permissions"] = json!({ "env": ["TELLER_TOKEN"] });
    let mut outputs = Vec::new();
    for pack in [&far, &teller] {
        outputs.push(install_and_enable(&place, &write(&place, pack)).to_string());
    }
    listed(&gateway, "far_search").await;
    listed(&gateway, "tell").await;
    let result = gateway.call(&gateway.token, "far_search", json!({})).await;
    assert_eq!(said(&result), "called search");
    assert!(remote.authorization().contains(&format!("Bearer {header}")), "it reaches its server");
    let told = gateway.call(&gateway.token, "tell", json!({})).await;
    assert!(told.to_string().contains("told "), "{told}");
    outputs.push(told.to_string());

    // A server that repeats what it was told, and a pack that can't be reached any more.
    remote.describe(&[("search", &format!("Searches for {header}."))]);
    place.ok(&["toolpacks", "disable", "far"]);
    outputs.push(text(&place.run(&["toolpacks", "enable", "far"]).stdout));
    outputs.push(text(&place.run(&["servers", "review", "far"]).stdout));
    drop(remote);
    let failed = gateway.call(&gateway.token, "far_search", json!({})).await;
    outputs.push(failed.to_string());
    for args in [
        &["toolpacks", "doctor"][..],
        &["toolpacks", "show", "far"],
        &["toolpacks", "show", "teller"],
        &["toolpacks", "list", "--json"],
        &["toolpacks", "lock", "verify"],
        &["servers", "list", "--json"],
        &["servers", "doctor"],
        &["tools", "list", "--json"],
        &["audit", "export", "--json"],
    ] {
        let output = place.run(args);
        outputs.push(text(&output.stdout) + &text(&output.stderr));
    }
    for secret in [&header, &variable] {
        for output in &outputs {
            assert!(!output.contains(secret.as_str()), "{output}");
        }
        let mut found = Vec::new();
        holding(place.path(), secret, &mut found);
        assert_eq!(found, [""; 0], "on disk");
    }
}

#[test]
fn a_missing_variable_is_named_and_its_pack_left_out() {
    let place = TestFolder::new(
        "[servers.wanting]\nurl = \"http://127.0.0.1:9/mcp\"\nheaders = { Authorization = \"env:SERVER_TEST_UNSET\" }\n",
    );
    let mut pack = remote::pack("far", "127.0.0.1:9", &[("far_search", "search")]);
    pack["connectors"][0]["mcp"]["headers"] = json!({ "Authorization": "env:PACK_TEST_UNSET" });
    install(&place, &write(&place, &pack));
    let gateway = place.serve();
    let enabled = place.run(&["toolpacks", "enable", "far"]);
    assert_eq!(enabled.status.code(), Some(1), "{enabled:?}");
    assert!(text(&enabled.stdout).contains("PACK_TEST_UNSET"), "{enabled:?}");
    // A variable's name is no secret, whatever stands beside it.
    for args in [
        &["toolpacks", "list"][..],
        &["toolpacks", "show", "far", "--json"],
        &["toolpacks", "doctor", "far"],
        &["servers", "list", "--json"],
        &["servers", "doctor"],
    ] {
        let said = text(&place.run(args).stdout);
        assert!(
            said.contains("`PACK_TEST_UNSET` is not set") || said.contains("PACK_TEST_UNSET` in"),
            "{args:?}: {said}"
        );
        let is_configured = args[0] == "servers";
        assert!(
            !is_configured || said.contains("`SERVER_TEST_UNSET` is not set"),
            "{args:?}: {said}"
        );
    }
    let log = place.log();
    assert!(log.contains("PACK_TEST_UNSET") && log.contains("SERVER_TEST_UNSET"), "{log}");
    drop(gateway);
}
