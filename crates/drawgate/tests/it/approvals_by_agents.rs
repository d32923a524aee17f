//! An agent with a shell tries to approve its own call, by every way that a person or a program has. From
//! inside the box none works; the same attempts without a box show that they are real.

use http::Method;
use serde_json::{Value, json};

use crate::load::offers;
use crate::support::{Gateway, PROGRAM, TestFolder, eventually};

/// One way to let a call pass. `$GATE` stands for the program with its folders, `$ID` for the approval.
struct Way {
    name: &'static str,
    command: &'static str,
    outside: Outside,
}

/// What becomes of it for a program of the gateway's own user without a sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outside {
    Works,
    Fails,
    /// It depends on what is faster.
    Varies,
}

use Outside::{Fails, Varies, Works};

const WAYS: &[Way] = &[
    Way {
        name: "the command, with nobody at a terminal",
        command: "$GATE approvals approve $ID",
        outside: Fails,
    },
    Way {
        name: "the command, with a yes from a pipe",
        command: "echo y | $GATE approvals approve $ID",
        outside: Fails,
    },
    Way {
        name: "the command, on a terminal of the agent's own",
        command: "python3 $BIN/person.py $GATE approvals approve $ID",
        outside: Works,
    },
    Way {
        name: "the command, by `script`",
        command: "echo y | script -qec '$GATE approvals approve $ID' /dev/null",
        outside: Varies,
    },
    Way {
        name: "the command, with the token's file",
        command: "$GATE approvals approve $ID --token-file $DATA/admin.token",
        outside: Works,
    },
    Way {
        name: "the command, with the token from standard input",
        command: "cat $DATA/admin.token | $GATE approvals approve $ID --token-file -",
        outside: Works,
    },
    Way {
        name: "variables of the environment that name the gateway",
        command: "DRAWGATE_DATA=$DATA DRAWGATE_CONFIG=$CONFIG $BIN/drawgate approvals approve $ID --token-file $DATA/admin.token",
        outside: Works,
    },
    Way { name: "a denial", command: "$GATE approvals deny $ID", outside: Fails },
    Way {
        name: "the exact arguments",
        command: "$GATE approvals show $ID --reveal",
        outside: Fails,
    },
    Way {
        name: "the control socket, without the token",
        command: r#"python3 $BIN/post.py $DATA/control.sock /approvals/$ID '{"approve":true}'"#,
        outside: Fails,
    },
    Way {
        name: "the control socket, with a made-up token",
        command: r#"python3 $BIN/post.py $DATA/control.sock /approvals/$ID '{"approve":true,"token":"x"}'"#,
        outside: Fails,
    },
    Way {
        name: "the control socket, with the token",
        command: r#"python3 $BIN/post.py $DATA/control.sock /approvals/$ID '{"approve":true,"token":"'$(cat $DATA/admin.token)'"}'"#,
        outside: Works,
    },
    Way {
        name: "a grant with an approval, over the control socket without the token",
        command: r#"python3 $BIN/post.py $DATA/control.sock /grants '{"capability":"file.write","scope":"workspace","lifetimeMs":null,"approvalId":"T-1"}'"#,
        outside: Fails,
    },
    Way {
        name: "the page, without the token",
        command: "python3 $BIN/post.py $ADDRESS /approvals/$ID decision=approve",
        outside: Fails,
    },
    Way {
        name: "the page, with a made-up token",
        command: "python3 $BIN/post.py $ADDRESS /approvals/$ID token=x",
        outside: Fails,
    },
    Way {
        name: "a grant with an approval, with nobody at a terminal",
        command: "$GATE grants add file.write --scope workspace --approval T-1",
        outside: Fails,
    },
    Way {
        name: "a grant with an approval, with the token's file",
        command: "$GATE grants add file.write --scope workspace --approval T-1 --token-file $DATA/admin.token",
        outside: Works,
    },
    Way { name: "a grant", command: "$GATE grants add '*' --scope workspace", outside: Works },
    Way {
        name: "an agent of its own",
        command: "$GATE agents add helper --capability '*'",
        outside: Works,
    },
    Way {
        name: "an edit of the configuration",
        command: "sed -i 's/^hold_seconds.*/mode = \"off\"/' $CONFIG || printf '\n[approvals]\nmode = \"off\"\n' > $CONFIG",
        outside: Works,
    },
    Way {
        name: "another configuration in its place",
        command: "printf '[approvals]\nmode = \"off\"\n' > new.toml && mv new.toml $CONFIG",
        outside: Works,
    },
    Way {
        name: "a gateway of its own on the same data",
        command: "$BIN/drawgate --config none --data $DATA approvals approve $ID",
        outside: Fails,
    },
];

/// Sends one request: to a Unix socket as JSON, or to an address as a form.
const POST: &str = r#"
import http.client, socket, sys
place, path, body = sys.argv[1:]
kind = "application/json"
if place.startswith("/"):
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(place)
    headers = {"content-type": "application/json"}
else:
    connection = http.client.HTTPConnection(place, timeout=5)
    headers = {"content-type": "application/x-www-form-urlencoded", "origin": "http://" + place}
connection.request("POST", path, body, headers)
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"#;

/// The shells: in the box, in one that may reach the gateway, as a program for each call; and in none.
const SHELLS: [(&str, &str); 4] = [
    ("boxed", ""),
    ("online", "sandbox = \"network\"\n"),
    ("once", "protocol = \"call\"\n"),
    ("free", "sandbox = \"none\"\n"),
];

/// Writing needs a person's yes.
const ASK: &str = "[approvals]\nhold_seconds = 0\n[policy.defaults]\nfallback = \"allow\"\n\
    [[policy.rules]]\nid = \"ask\"\naction = \"file.write\"\ndecision = \"allow_with_confirm\"\n";

fn config(place: &TestFolder, address: &str) -> String {
    let bin = place.path().join("bin");
    let mut text = ASK.to_owned();
    for (name, settings) in SHELLS {
        let script = bin.join("shell.py");
        let args = if name == "once" { json!([script, "call"]) } else { json!([script]) };
        let hosts = if name == "online" { json!([address]) } else { json!([]) };
        let permissions = if name == "free" {
            String::new()
        } else {
            format!("permissions = {{ read = [\"{}\"], hosts = {hosts} }}\n", bin.display())
        };
        let head = format!("[servers.{name}]\ncommand = \"python3\"\nargs = {args}\n");
        text.extend([head.as_str(), settings, &permissions]);
        if name == "once" {
            text.push_str(
                "[[servers.once.manifest]]\nname = \"run\"\ndescription = \"Runs a command.\"\n\
                 inputSchema = { type = \"object\", properties = { command = { type = \"string\" } } }\n",
            );
        }
    }
    text
}

/// A folder with the program, the shell and what attempts need, and a gateway.
fn prepare() -> (TestFolder, Gateway) {
    let place = TestFolder::new("");
    let bin = place.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    if std::fs::hard_link(PROGRAM, bin.join("drawgate")).is_err() {
        std::fs::copy(PROGRAM, bin.join("drawgate")).unwrap();
    }
    for (name, text) in [
        ("shell.py", include_str!("../fixtures/shell.py")),
        ("person.py", include_str!("../fixtures/person.py")),
        ("post.py", POST),
    ] {
        std::fs::write(bin.join(name), text).unwrap();
    }
    let gateway = place.serve();
    place.configure(&config(&place, &gateway.address));
    (place, gateway)
}

/// All that decides whether a call passes.
fn standing(place: &TestFolder, id: &str) -> Value {
    let approvals = place.json(&["approvals", "list", "--all"]);
    let approval = approvals.as_array().unwrap().iter().find(|one| one["id"] == id);
    json!({
        "approval": approval.map(|one| one["state"].clone()),
        "grants": place.json(&["grants", "list"]),
        "agents": place.json(&["agents", "list"]),
        "configuration": std::fs::read_to_string(place.path().join("drawgate.toml")).unwrap(),
    })
}

/// A call that waits for a person; its approval. An edit that was undone is in force again by then.
async fn ask(gateway: &Gateway, content: &str) -> String {
    eventually("a call that is asked about", async || {
        let arguments = json!({ "path": "a.txt", "content": content });
        let asked = gateway.call(&gateway.token, "vfs_write", arguments).await;
        let details = &asked["_meta"]["drawgate/error"]["details"];
        details["approvalId"].as_str().map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn an_agent_with_a_shell_can_not_approve_its_own_call() {
    let (place, gateway) = prepare();
    let mut wrong = Vec::new();
    // As long as nothing changes, each call begins where the one before did: its approval is pending.
    let mut known = None;
    for (shell, _) in SHELLS {
        let tool = format!("{shell}__run");
        for way in WAYS {
            offers(&gateway, &tool).await;
            let id = ask(&gateway, &format!("token=hunter2secret {shell} {}", way.name)).await;
            let before = known.take().unwrap_or_else(|| standing(&place, &id));
            let command = format!("{}{}", variables(&place, &gateway, &id), way.command);
            let said = gateway.call(&gateway.token, &tool, json!({ "command": command })).await;
            let printed = said["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{said}"));
            assert!(printed.contains("exit "), "{shell}, {}: {said}", way.name);
            let after = standing(&place, &id);
            let passed = after != before || printed.contains("hunter2secret");
            let is_expected = match (shell, way.outside) {
                ("free", Varies) => true,
                ("free", Works) => passed,
                ("free", Fails) | (_, Works | Fails | Varies) => !passed,
            };
            if !is_expected {
                wrong.push(format!("{shell}, {}: {printed}", way.name));
            }
            if after == before {
                known = Some(after);
            } else {
                undo(&place, &gateway);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// What commands of the table use.
fn variables(place: &TestFolder, gateway: &Gateway, id: &str) -> String {
    let (data, address) = (place.data().display().to_string(), &gateway.address);
    let [bin, config] =
        ["bin", "drawgate.toml"].map(|it| place.path().join(it).display().to_string());
    format!(
        "export BIN='{bin}' DATA='{data}' CONFIG='{config}' ADDRESS='{address}' ID='{id}'; \
         export GATE='{bin}/drawgate --config {config} --data {data}'; "
    )
}

/// Undoes what a program without a sandbox could do.
fn undo(place: &TestFolder, gateway: &Gateway) {
    place.configure(&config(place, &gateway.address));
    for grant in place.json(&["grants", "list"]).as_array().unwrap() {
        let id = grant["grantId"].as_str().unwrap();
        if id.starts_with("g_") {
            place.ok(&["grants", "revoke", id]);
        }
    }
    if place.ok(&["agents", "list"]).contains("helper") {
        place.ok(&["agents", "remove", "helper"]);
    }
}

#[tokio::test]
async fn the_model_is_told_where_a_person_decides_and_by_no_command() {
    let place = TestFolder::new(ASK);
    let gateway = place.serve();
    offers(&gateway, "vfs_write").await;
    let arguments = json!({ "path": "a.txt", "content": "x" });
    let asked = gateway.call(&gateway.token, "vfs_write", arguments).await;
    let said = asked["content"][0]["text"].as_str().unwrap();
    let id = asked["_meta"]["drawgate/error"]["details"]["approvalId"].as_str().unwrap();
    let page = format!("http://{}/approvals/{id}", gateway.address);
    assert!(said.contains(&page) && said.contains("a person must approve"), "{said}");
    let none = gateway.send(Method::POST, "/mcp", &[], "{}").await;
    let unknown = gateway.rpc(&gateway.token, "tools/call", json!({ "name": "no_such" })).await;
    let listed = gateway.rpc(&gateway.token, "tools/list", json!({})).await;
    for seen in [asked.to_string(), format!("{none:?}"), unknown.to_string(), listed.to_string()] {
        assert!(!seen.contains("drawgate approvals") && !seen.contains("`drawgate "), "{seen}");
        assert!(!seen.contains("--token-file") && !seen.contains("admin.token"), "{seen}");
    }
}
