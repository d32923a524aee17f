use insta::assert_snapshot;

use super::*;

const FILE: &str = "\
#:schema ./drawgate.schema.json
# Our gateway.

listen = \"127.0.0.1:7700\" # as ever

# The files.
[servers.files]
command = \"files-server\"   # ours
args = [ 'a' ,  \"b\" ]

  # What may be deleted.
[servers.files.tools.remove]
enabled = false

# Shared with the team.

# Search, by Ada.
[servers.search]
url = \"https://search.example/mcp\"
enabled = true # for now

[[policy.rules]]
id = \"x\"

# The end.
";

fn document(text: &str) -> DocumentMut {
    text.parse().unwrap()
}

fn small(name: &str) -> NewServer {
    NewServer { name: name.to_owned(), command: Some("x".to_owned()), ..NewServer::default() }
}

/// The whole file after a change.
#[track_caller]
fn changed(text: &str, change: impl FnOnce(&mut DocumentMut) -> anyhow::Result<()>) -> String {
    let mut document = document(text);
    change(&mut document).unwrap();
    let text = document.to_string();
    text.parse::<toml::Table>().unwrap();
    text
}

#[test]
fn a_server_is_added_at_the_end_and_nothing_else_changes() {
    let added = changed(FILE, |document| small("new").add_to(document));
    assert_eq!(added, format!("{FILE}\n[servers.new]\ncommand = \"x\"\n"));
    for before in ["", "# Only a comment.\n", "listen = \"127.0.0.1:1\"\n", "[limits]\n\n"] {
        let added = changed(before, |document| small("new").add_to(document));
        let gap = if before.is_empty() || before.ends_with("\n\n") { "" } else { "\n" };
        assert_eq!(added, format!("{before}{gap}[servers.new]\ncommand = \"x\"\n"));
    }
    let two = changed("", |document| {
        small("a").add_to(document)?;
        small("b").add_to(document)
    });
    assert_eq!(two, "[servers.a]\ncommand = \"x\"\n\n[servers.b]\ncommand = \"x\"\n");
    let inline =
        changed("servers = { a = { command = \"y\" } }\n", |document| small("b").add_to(document));
    assert_eq!(inline, "servers = { a = { command = \"y\" } , b = { command = \"x\" } }\n");
}

#[test]
fn every_key_has_its_place() {
    let texts = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let program = NewServer {
        name: "a".to_owned(),
        command: Some("npx".to_owned()),
        args: texts(&["-y", "say \"hi\"\n"]),
        env: vec![pair("KEY", "env:KEY"), pair("A B", "c")],
        working_dir: Some("/w".to_owned()),
        sandbox: Some(Profile::Network),
        read: texts(&["/r"]),
        write: texts(&["/w1", "/w2"]),
        hosts: texts(&["*"]),
        is_disabled: true,
        ..NewServer::default()
    };
    let remote = NewServer {
        name: "b".to_owned(),
        transport: Some("sse"),
        url: Some("https://b.example/sse".to_owned()),
        headers: vec![pair("Authorization", "env:B")],
        ..NewServer::default()
    };
    assert_snapshot!(changed("", |document| {
        program.add_to(document)?;
        remote.add_to(document)
    }), @r#"
    [servers.a]
    command = "npx"
    args = ["-y", """
    say "hi"
    """]
    working_dir = "/w"
    sandbox = "network"
    env = { KEY = "env:KEY", "A B" = "c" }
    permissions = { read = ["/r"], write = ["/w1", "/w2"], hosts = ["*"] }
    enabled = false

    [servers.b]
    transport = "sse"
    url = "https://b.example/sse"
    headers = { Authorization = "env:B" }
    "#);
}

#[test]
fn a_server_goes_with_its_settings_and_the_comment_right_above_it() {
    let removed = changed(FILE, |document| remove(document, "files"));
    let expected = FILE.replace(
        FILE.split("# The files.\n").nth(1).unwrap().split("# Shared").next().unwrap(),
        "",
    );
    assert_eq!(removed, expected.replace("# The files.\n", ""));
    let removed = changed(FILE, |document| remove(document, "search"));
    let start = FILE.find("# Search").unwrap();
    let end = FILE.find("[[policy.rules]]").unwrap();
    assert_eq!(removed, format!("{}{}", &FILE[..start], &FILE[end..]));
    let first = "#:schema ./s.json\n# About a.\n[servers.a]\ncommand = \"x\"\n\n# End.\n";
    let removed = changed(first, |document| remove(document, "a"));
    assert_eq!(removed, "#:schema ./s.json\n\n\n# End.\n");
    let inline = "servers = { a = { command = \"y\" }, b = { command = \"x\" } }\n";
    let removed = changed(inline, |document| remove(document, "a"));
    assert_eq!(removed, "servers = { b = { command = \"x\" } }\n");
}

#[test]
fn a_server_is_switched_on_and_off() {
    let switched = |name: &str, on: bool| {
        let mut document = document(FILE);
        let is_change = set_enabled(&mut document, name, on).unwrap();
        (is_change, document.to_string())
    };
    assert_eq!(switched("files", true), (false, FILE.to_owned()));
    assert_eq!(switched("search", true), (false, FILE.to_owned()));
    let off = FILE.replace("enabled = true # for now", "enabled = false # for now");
    assert_eq!(switched("search", false), (true, off));
    let off = FILE.replace("\"b\" ]\n", "\"b\" ]\nenabled = false\n");
    assert_eq!(switched("files", false), (true, off));
}

#[test]
fn mistakes_are_named() {
    let fails = |text: &str, change: &dyn Fn(&mut DocumentMut) -> anyhow::Result<()>| {
        change(&mut document(text)).unwrap_err().to_string()
    };
    let remove = |name: &'static str| move |document: &mut DocumentMut| remove(document, name);
    let cases = [
        (
            fails(FILE, &|document| small("files").add_to(document)),
            "there is a server `files` already; choose another name, or remove it first",
        ),
        (
            fails(FILE, &remove("file")),
            "the configuration has no server `file`; did you mean `files`?",
        ),
        (
            fails(FILE, &remove("zzz")),
            "the configuration has no server `zzz`; it has `files`, `search`",
        ),
        (fails("", &remove("a")), "the configuration has no server `a`"),
        (
            fails("servers = 1\n", &|document| small("a").add_to(document)),
            "`servers` is not a table; correct it by hand",
        ),
        (fails("servers = 1\n", &remove("a")), "`servers` is not a table; correct it by hand"),
    ];
    for (said, expected) in cases {
        assert_eq!(said, expected);
    }
}

#[test]
fn what_is_allowed_is_added_to_what_is_there() {
    let all = [
        Refusal::Write("/a".into()),
        Refusal::Write("/b".into()),
        Refusal::Host("x.example".to_owned()),
        Refusal::Variable("KEY".to_owned()),
    ];
    for (before, after) in [
        (
            "[servers.s]\ncommand = \"x\" # ours\n",
            "[servers.s]\ncommand = \"x\" # ours\npermissions = { write = [\"/a\", \"/b\"], hosts = [\"x.example\"] }\n\
             env = { KEY = \"env:KEY\" }\nsandbox = \"network\"\n",
        ),
        (
            "[servers.s]\nsandbox = \"none\"\nenv = { KEY = \"own\" }\n[servers.s.permissions]\nwrite = [\"/a\"]\nhosts = [\"x.example\"]\n",
            "[servers.s]\nsandbox = \"none\"\nenv = { KEY = \"own\" }\n[servers.s.permissions]\nwrite = [\"/a\", \"/b\"]\nhosts = [\"x.example\"]\n",
        ),
    ] {
        let mut document = document(before);
        allow(&mut document, "s", &all).unwrap();
        assert_eq!(document.to_string(), after);
    }
    let mut strict = document("[servers.s]\nsandbox = \"strict\"\n");
    allow(&mut strict, "s", &[Refusal::Read("/a".into())]).unwrap();
    assert!(strict.to_string().contains("sandbox = \"workspace\""), "{strict}");
    assert!(allow(&mut strict, "t", &all).is_err());
    let mut bad = document("[servers.s]\npermissions = 1\n");
    assert!(allow(&mut bad, "s", &all).is_err());
}
