//! The acts: what each needs, how it is asked for, and by what one sees that it was done.

mod agents;

use drawgate_core::audit::EventKind;
use serde_json::{Value, json};

use self::agents::{
    plugin_added, plugin_configured, plugin_disabled, plugin_enabled, plugin_removed,
    profile_accepted, profile_removed,
};
use super::{Fixture, until};
use crate::peers::fixture::key;
use crate::support::TestFolder;

/// One kind of act.
pub(super) struct Act {
    /// The event that says that it was done.
    pub(super) kind: &'static str,
    /// `URL` stands for the protected server's address.
    pub(super) config: &'static str,
    /// Sees to it that the act can be done, for the n-th time.
    pub(super) prepare: fn(&Fixture, u32) -> Case,
}

/// Looks whether an act was done.
type Look = dyn Fn(&Fixture) -> Option<bool>;

/// One time that an act is done.
pub(super) struct Case {
    /// The command.
    pub(super) args: Vec<String>,
    /// Whether what the gateway lists has the change; `None` where it has a part of it.
    pub(super) is_done: Box<Look>,
    /// Tokens that count as long as the act is not done.
    pub(super) until_done: Vec<String>,
}

impl Case {
    fn new(args: &[&str], is_done: impl Fn(&Fixture) -> bool + 'static) -> Self {
        Self::of_two(args, move |fixture| [is_done(fixture); 2])
    }

    /// The same, where two things must agree.
    fn of_two(args: &[&str], are_done: impl Fn(&Fixture) -> [bool; 2] + 'static) -> Self {
        let is_done = move |fixture: &Fixture| match are_done(fixture) {
            [one, other] if one == other => Some(one),
            [_, _] => None,
        };
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        Self { args, is_done: Box::new(is_done), until_done: Vec::new() }
    }
}

const ASKING: &str = "[approvals]\nhold_seconds = 1\n[policy.defaults]\nfallback = \"allow\"\n\
    [[policy.rules]]\nid = \"ask\"\naction = \"file.write\"\ndecision = \"allow_with_confirm\"\n\
    riskTags = [\"overwrite\"]\nreason = \"writing is serious\"\n";
const FIXTURE: &str = concat!(
    "[servers.fixture]\ncommand = \"python3\"\nsandbox = \"none\"\nargs = [\"",
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/server.py\"]\n"
);
const CHANGING: &str = concat!(
    "[servers.s]\ncommand = \"python3\"\nsandbox = \"none\"\nargs = [\"",
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/changing.py\", \"tools.json\"]\n"
);

const PROTECTED: &str = "[egress]\nallow = [\"127.0.0.1:*\"]\n[servers.far]\nurl = \"URL\"\n";

pub(super) const ACTS: &[Act] = &[
    Act { kind: "grant_issued", config: "", prepare: grant_issued },
    Act { kind: "grant_issued", config: "", prepare: approved_grant_issued },
    Act { kind: "grant_revoked", config: "", prepare: grant_revoked },
    Act { kind: "grant_revoked", config: "", prepare: standing_revoked },
    Act { kind: "agent_added", config: "", prepare: agent_added },
    Act { kind: "agent_rotated", config: "", prepare: agent_rotated },
    Act { kind: "agent_removed", config: "", prepare: agent_removed },
    Act { kind: "approval_decided", config: ASKING, prepare: approval_decided },
    Act { kind: "tool_accepted", config: CHANGING, prepare: tool_accepted },
    Act { kind: "server_login", config: PROTECTED, prepare: server_login },
    Act { kind: "server_logout", config: PROTECTED, prepare: server_logout },
    Act { kind: "artifact_removed", config: FIXTURE, prepare: artifact_removed },
    Act { kind: "key_added", config: "", prepare: key_added },
    Act { kind: "key_removed", config: "", prepare: key_removed },
    Act { kind: "toolpack_installed", config: "", prepare: toolpack_installed },
    Act { kind: "toolpack_updated", config: "", prepare: toolpack_updated },
    Act { kind: "toolpack_enabled", config: "", prepare: toolpack_enabled },
    Act { kind: "toolpack_disabled", config: "", prepare: toolpack_disabled },
    Act { kind: "toolpack_removed", config: "", prepare: toolpack_removed },
    Act { kind: "profile_accepted", config: "", prepare: profile_accepted },
    Act { kind: "profile_removed", config: "", prepare: profile_removed },
    Act { kind: "plugin_added", config: "", prepare: plugin_added },
    Act { kind: "plugin_enabled", config: "", prepare: plugin_enabled },
    Act { kind: "plugin_disabled", config: "", prepare: plugin_disabled },
    Act { kind: "plugin_configured", config: "", prepare: plugin_configured },
    Act { kind: "plugin_removed", config: "", prepare: plugin_removed },
];

#[test]
fn every_kind_of_act_has_a_row() {
    // No command does that; it is tested where it is done.
    let by_command = EventKind::ALL.into_iter().filter(|kind| *kind != EventKind::GatewayReset);
    for kind in by_command {
        let has_row = ACTS.iter().any(|act| act.kind == kind.as_str());
        assert_eq!(has_row, kind.is_act(), "{kind}");
    }
}

/// What a server needs before its gateway starts.
pub(super) fn before_start(place: &TestFolder) {
    if !place.path().join("tools.json").exists() {
        describe(place, 0);
    }
}

fn grants(fixture: &Fixture) -> Vec<Value> {
    fixture.json(&["grants", "list"])
}

fn grant_issued(_: &Fixture, n: u32) -> Case {
    let capability = format!("cap.{n}");
    Case::new(&["grants", "add", &capability.clone(), "--scope", "workspace"], move |fixture| {
        grants(fixture).iter().any(|grant| grant["capability"] == *capability)
    })
}

fn approved_grant_issued(fixture: &Fixture, n: u32) -> Case {
    let approval = format!("ticket-{n}");
    let token = fixture.place.data().join("admin.token").display().to_string();
    let args = ["grants", "add", "cap", "--scope", "workspace", "--approval", &approval];
    let args: Vec<&str> = args.into_iter().chain(["--token-file", &token]).collect();
    let id = approval.clone();
    Case::new(&args, move |fixture| grants(fixture).iter().any(|grant| grant["approvalId"] == *id))
}

fn grant_revoked(fixture: &Fixture, n: u32) -> Case {
    let capability = format!("cap.{n}");
    let id = ["grants", "add", &capability, "--scope", "workspace", "--quiet"];
    let id = fixture.place.ok(&id).trim().to_owned();
    Case::new(&["grants", "revoke", &id.clone()], move |fixture| {
        !grants(fixture).iter().any(|grant| grant["grantId"] == *id)
    })
}

/// Adds an agent with a capability and returns its name and its token.
fn agent(fixture: &Fixture, n: u32) -> (String, String) {
    let name = format!("agent{n}");
    let added = fixture.place.ok(&["agents", "add", &name, "--capability", "cap", "--quiet"]);
    (name, added.trim().to_owned())
}

/// The agent's registration.
fn registered(fixture: &Fixture, name: &str) -> Option<Value> {
    fixture.json(&["agents", "list"]).into_iter().find(|agent| agent["name"] == name)
}

/// The grants of an agent.
fn held(fixture: &Fixture, name: &str) -> usize {
    let scope = format!("user:{name}");
    grants(fixture).iter().filter(|grant| grant["scope"] == *scope).count()
}

fn standing_revoked(fixture: &Fixture, n: u32) -> Case {
    let (name, _) = agent(fixture, n);
    Case::of_two(&["grants", "revoke", &format!("standing:{name}:cap")], move |fixture| {
        let stored = registered(fixture, &name).unwrap()["capabilities"] == json!([]);
        [stored, held(fixture, &name) == 0]
    })
}

fn agent_added(_: &Fixture, n: u32) -> Case {
    let name = format!("agent{n}");
    Case::of_two(&["agents", "add", &name.clone(), "--capability", "cap"], move |fixture| {
        [registered(fixture, &name).is_some(), held(fixture, &name) == 1]
    })
}

fn agent_rotated(fixture: &Fixture, n: u32) -> Case {
    let (name, token) = agent(fixture, n);
    let before = registered(fixture, &name).unwrap()["createdAt"].clone();
    let mut case = Case::new(&["agents", "rotate", &name.clone()], move |fixture| {
        registered(fixture, &name).unwrap()["createdAt"] != before
    });
    case.until_done.push(token);
    case
}

fn agent_removed(fixture: &Fixture, n: u32) -> Case {
    let (name, token) = agent(fixture, n);
    fixture.place.ok(&["grants", "add", "more", "--agent", &name]);
    let mut case = Case::of_two(&["agents", "remove", &name.clone()], move |fixture| {
        let gone = registered(fixture, &name).is_none();
        // Both of its grants, or none.
        let whole = held(fixture, &name) == if gone { 0 } else { 2 };
        [gone, gone == whole]
    });
    case.until_done.push(token);
    case
}

fn approval_decided(fixture: &Fixture, n: u32) -> Case {
    let arguments = json!({ "path": "a.txt", "content": n.to_string() });
    fixture.call("vfs_write", arguments.clone());
    let all = |fixture: &Fixture| fixture.json(&["approvals", "list", "--all"]);
    let asked = all(fixture).into_iter().find(|one| one["arguments"] == arguments).unwrap();
    let id = asked["id"].as_str().unwrap().to_owned();
    let token = fixture.place.data().join("admin.token").display().to_string();
    let deny = ["approvals", "deny", &id.clone(), "--token-file", &token];
    Case::new(&deny, move |fixture| {
        all(fixture).iter().any(|one| one["id"] == *id && one["state"] == "denied")
    })
}

/// Has the server describe its tool in other words.
fn describe(place: &TestFolder, n: u32) {
    let tool =
        json!({ "name": "add", "description": words(n), "inputSchema": { "type": "object" } });
    let next = place.path().join("next.json");
    std::fs::write(&next, json!([tool]).to_string()).unwrap();
    std::fs::rename(next, place.path().join("tools.json")).unwrap();
}

fn words(n: u32) -> String {
    format!("Adds, in edition {n}.")
}

fn tool_accepted(fixture: &Fixture, n: u32) -> Case {
    describe(&fixture.place, n);
    let review = || {
        let shown = fixture.place.run(&["servers", "review", "s", "--json"]);
        serde_json::from_slice::<Value>(&shown.stdout).unwrap_or_default()
    };
    until("the change is seen", || review().to_string().contains(&words(n)));
    let digest = review()["digest"].as_str().unwrap().to_owned();
    Case::new(&["servers", "review", "s", "--accept", &digest], move |fixture| {
        let tools = fixture.json(&["tools", "list"]);
        tools.iter().any(|tool| tool["tool"]["description"] == words(n))
    })
}

fn is_logged_in(fixture: &Fixture) -> bool {
    let all = fixture.json(&["servers", "list"]);
    all.iter().any(|server| server["id"] == "far" && server["login"]["state"] == "active")
}

fn server_login(fixture: &Fixture, _: u32) -> Case {
    if is_logged_in(fixture) {
        fixture.place.ok(&["servers", "logout", "far"]);
    }
    Case::new(&["servers", "login", "far"], is_logged_in)
}

fn server_logout(fixture: &Fixture, n: u32) -> Case {
    if !is_logged_in(fixture) {
        fixture.perform(&server_login(fixture, n)).unwrap();
    }
    Case::new(&["servers", "logout", "far"], |fixture| !is_logged_in(fixture))
}

fn artifact_removed(fixture: &Fixture, n: u32) -> Case {
    fixture.call("fixture__big", json!({ "bytes": 1_100_000 + 16 * n }));
    let all = |fixture: &Fixture| fixture.json(&["artifacts", "list"]);
    let hash = all(fixture)[0]["sha256"].as_str().unwrap().to_owned();
    Case::of_two(&["artifacts", "remove", &hash.clone()], move |fixture| {
        let file = fixture.place.data().join("artifacts").join(&hash[..2]).join(&hash);
        [!all(fixture).iter().any(|one| one["sha256"] == *hash), !file.exists()]
    })
}

fn key_text() -> String {
    key(1).public_key().to_openssh().unwrap()
}

fn has_key(fixture: &Fixture, name: &str) -> bool {
    fixture.place.json(&["keys", "list"])["keys"]
        .as_array()
        .unwrap()
        .iter()
        .any(|key| key["name"] == name)
}

fn key_added(_: &Fixture, n: u32) -> Case {
    let name = format!("pack{n}");
    Case::new(&["keys", "add", "--pack", &name.clone(), &key_text()], move |fixture| {
        has_key(fixture, &name)
    })
}

fn key_removed(fixture: &Fixture, n: u32) -> Case {
    let name = format!("pack{n}");
    fixture.place.ok(&["keys", "add", "--pack", &name, &key_text()]);
    Case::new(&["keys", "remove", "--pack", &name.clone()], move |fixture| !has_key(fixture, &name))
}

/// Writes a pack of this version, and returns its folder.
fn source(fixture: &Fixture, id: &str, version: u32) -> String {
    let tool = json!({
        "name": format!("{id}_say"), "type": "command", "description": "Says it.",
        "command_template": "echo -- {{what}}",
        "parameters": {
            "type": "object", "properties": { "what": { "type": "string" } }, "required": ["what"],
        },
    });
    let version = format!("1.0.{version}");
    let manifest = json!({ "id": id, "name": id, "version": version, "tools": [tool] });
    let folder = fixture.place.path().join("sources").join(id);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("toolpack.json"), manifest.to_string()).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// Installs a pack and returns its id.
fn pack(fixture: &Fixture, n: u32) -> String {
    let id = format!("pack{n}");
    fixture.place.ok(&["toolpacks", "install", &source(fixture, &id, 1)]);
    id
}

/// The installed pack, which is whole.
fn installed(fixture: &Fixture, id: &str) -> Option<Value> {
    let verified = fixture.place.run(&["toolpacks", "lock", "verify"]);
    assert!(verified.status.success(), "{verified:?}");
    let all = fixture.place.json(&["toolpacks", "list"]);
    all["toolpacks"].as_array().unwrap().iter().find(|pack| pack["id"] == id).cloned()
}

fn toolpack_installed(fixture: &Fixture, n: u32) -> Case {
    let id = format!("pack{n}");
    let folder = source(fixture, &id, 1);
    Case::new(&["toolpacks", "install", &folder], move |fixture| installed(fixture, &id).is_some())
}

fn toolpack_updated(fixture: &Fixture, n: u32) -> Case {
    let id = pack(fixture, n);
    source(fixture, &id, 2);
    Case::new(&["toolpacks", "update", &id.clone(), "--yes"], move |fixture| {
        installed(fixture, &id).unwrap()["version"] == "1.0.2"
    })
}

fn is_enabled(fixture: &Fixture, id: &str) -> bool {
    installed(fixture, id).unwrap()["state"] == "enabled"
}

fn toolpack_enabled(fixture: &Fixture, n: u32) -> Case {
    let id = pack(fixture, n);
    Case::new(&["toolpacks", "enable", &id.clone()], move |fixture| is_enabled(fixture, &id))
}

fn toolpack_disabled(fixture: &Fixture, n: u32) -> Case {
    let id = pack(fixture, n);
    fixture.place.ok(&["toolpacks", "enable", &id]);
    Case::new(&["toolpacks", "disable", &id.clone()], move |fixture| !is_enabled(fixture, &id))
}

fn toolpack_removed(fixture: &Fixture, n: u32) -> Case {
    let id = pack(fixture, n);
    Case::new(&["toolpacks", "remove", &id.clone()], move |fixture| {
        installed(fixture, &id).is_none()
    })
}
