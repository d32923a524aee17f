//! Names that somebody else has.

use super::{commands, install, install_and_enable, listed, refusal, write};
use crate::support::TestFolder;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_can_not_take_names_from_others() {
    let place = TestFolder::new("[servers.taken]\ncommand = \"true\"\nenabled = false\n");
    let gateway = place.serve();
    listed(&gateway, "vfs_read").await;
    let builtin = write(&place, &commands("greedy", &[("vfs_read", "cat -- {{file}}")]));
    let said = refusal(&place.run(&["toolpacks", "install", builtin.to_str().unwrap()]));
    assert!(said.contains("vfs_read") && said.contains("$.tools[0]"), "{said}");

    let first =
        write(&place, &commands("first", &[("look", "ls -- {{dir}}"), ("own", "ls -- {{dir}}")]));
    let second = write(
        &place,
        &commands("second", &[("look", "ls -l -- {{dir}}"), ("other", "ls -- {{dir}}")]),
    );
    install_and_enable(&place, &first);
    install(&place, &second);
    let said = refusal(&place.run(&["toolpacks", "enable", "second"]));
    assert!(said.contains("`look`") && said.contains("the toolpack `first`"), "{said}");
    let names = gateway.tool_names(&gateway.token).await;
    assert!(names.contains(&"own".to_owned()) && !names.contains(&"other".to_owned()), "{names:?}");
    place.ok(&["toolpacks", "disable", "first"]);
    place.ok(&["toolpacks", "enable", "second"]);
    let names = gateway.tool_names(&gateway.token).await;
    assert!(names.contains(&"other".to_owned()) && !names.contains(&"own".to_owned()), "{names:?}");

    let server = write(&place, &commands("taken", &[("taken_tool", "ls -- {{dir}}")]));
    install(&place, &server);
    let said = refusal(&place.run(&["toolpacks", "enable", "taken"]));
    assert!(said.contains("`taken` is a server of the gateway"), "{said}");
    let builtin = write(&place, &commands("builtin", &[("builtin_tool", "ls -- {{dir}}")]));
    let said = refusal(&place.run(&["toolpacks", "install", builtin.to_str().unwrap()]));
    assert!(said.contains("`builtin` is the gateway's own"), "{said}");
    assert!(gateway.tool_names(&gateway.token).await.contains(&"vfs_read".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_gets_a_packs_id_or_names_later_wins_over_it() {
    let place = TestFolder::new("");
    let gateway = place.serve();
    let pack = write(&place, &commands("files", &[("files_look", "ls -- {{dir}}")]));
    install_and_enable(&place, &pack);
    listed(&gateway, "files_look").await;
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../drawgate-sources/tests/fixtures/mcp_server.py")
        .canonicalize()
        .unwrap();
    let script = script.display();
    place.configure(&format!(
        "[servers.files]\ncommand = \"python3\"\nargs = [\"{script}\", \"echo\"]\n"
    ));
    listed(&gateway, "files__echo").await;
    let names = gateway.tool_names(&gateway.token).await;
    assert!(!names.contains(&"files_look".to_owned()), "{names:?}");
    let shown = place.json(&["toolpacks", "show", "files"]);
    assert!(
        shown["problem"].as_str().unwrap().contains("`files` is a server of the gateway"),
        "{shown}"
    );
    place.configure("");
    listed(&gateway, "files_look").await;
}
