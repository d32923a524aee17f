use std::path::Path;

use super::*;

/// Where the types of the configuration are.
const SOURCES: [&str; 3] = [
    "drawgate-runtime/src/config",
    "drawgate-sources/src/server.rs",
    "drawgate-agents/src/runs/programs/config.rs",
];

/// The source files at a path.
fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| path.extension().is_some_and(|it| it == "rs"));
    entries.filter(|path| !path.display().to_string().ends_with("_tests.rs")).collect()
}

#[test]
fn every_path_says_what_becomes_of_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = 0;
    for file in SOURCES.iter().flat_map(|source| sources(&crates.join(source))) {
        let text = std::fs::read_to_string(&file).unwrap();
        // What is read from the file has a schema, by the words above the type.
        for item in text.split("\n}\n").filter(|item| item.contains("JsonSchema")) {
            let item = item.rsplit("#[derive").next().unwrap();
            // Programs are named, or paths.
            let names = |field: &&str| field.contains("PathBuf") || field.contains("pub command:");
            for field in item.split("///").filter(names) {
                if !field.contains("pub ") {
                    continue;
                }
                found += 1;
                let has =
                    PathUse::FORMATS.iter().any(|(it, _)| field.contains(&format!("\"{it}\"")));
                assert!(has, "no format of `PathUse::FORMATS`: {}: {field}", file.display());
            }
        }
    }
    assert!(found >= 18, "{found}");
}

#[test]
fn paths_are_found_wherever_they_are() {
    let text = "data = \"d\"\n[server.tls]\ncert = \"c\"\nkey = \"k\"\n[profiles]\nfolders = [\"a\", \"b\"]\n\
                [servers.one]\ncommand = \"x\"\nworking_dir = \"w\"\npermissions = { read = [\"r\"], write = [\"v\"] }\n\
                [[hooks]]\nname = \"h\"\non = \"before_call\"\ncommand = \"x\"\nworking_dir = \"hw\"\n\
                [toolpacks.packs.p]\nworkspace = \"pw\"\npermissions = { write = [\"pv\"] }\n\
                [invokers.claude]\ncommand = \"x\"\nwrite = [\"iw\"]\n[plugins]\nnode = \"n\"\n";
    let tree = crate::config::tree::parse(text).map_err(drop).unwrap();
    let config: Config = serde_json::from_value(tree.value).unwrap();
    let found = config.named_paths();
    let rows = [
        ("data", "d", PathUse::Data),
        ("server.tls.cert", "c", PathUse::Trusted),
        ("server.tls.key", "k", PathUse::Secret),
        ("profiles.folders[0]", "a", PathUse::Trusted),
        ("profiles.folders[1]", "b", PathUse::Trusted),
        ("servers.one.working_dir", "w", PathUse::Writable),
        ("servers.one.permissions.read[0]", "r", PathUse::Readable),
        ("servers.one.permissions.write[0]", "v", PathUse::Writable),
        ("hooks[0].working_dir", "hw", PathUse::Writable),
        ("toolpacks.packs.p.workspace", "pw", PathUse::Writable),
        ("toolpacks.packs.p.permissions.write[0]", "pv", PathUse::Writable),
        ("invokers.claude.write[0]", "iw", PathUse::Writable),
        ("plugins.node", "n", PathUse::Program),
        ("servers.one.command", "x", PathUse::Command),
        ("hooks[0].command", "x", PathUse::Command),
        ("invokers.claude.command", "x", PathUse::Command),
        ("grpc.keys", "authorized_keys", PathUse::TrustedInData),
        ("toolpacks.folder", "toolpacks", PathUse::Trusted),
    ];
    for (key, path, usage) in rows {
        let path = NamedPath { key: key.to_owned(), path: path.into(), usage };
        assert!(found.contains(&path), "{path:?}\n{found:?}");
    }
}
