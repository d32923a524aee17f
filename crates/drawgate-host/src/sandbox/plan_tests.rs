use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::egress::Reach;
use crate::trusted::{Kind, TrustedPath};

struct Lab {
    folder: tempfile::TempDir,
    confinement: Confinement,
    inherited: BTreeMap<String, OsString>,
    authorities: BTreeMap<String, PathBuf>,
    trusted: Trusted,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["home", "home/ws", "home/more", "outside"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        let confinement = Confinement {
            profile: Profile::Workspace,
            workspace: root.join("home/ws"),
            read: Vec::new(),
            write: Vec::new(),
            arguments: ArgumentPaths::Ignored,
            reach: Reach::nobody(),
            internal: None,
            unprotected: Vec::new(),
            limits: ResourceLimits::default(),
        };
        let inherited = BTreeMap::from([
            ("PATH".to_owned(), OsString::from("/usr/bin:/bin:/nowhere/bin")),
            ("HOME".to_owned(), root.join("home").into_os_string()),
            ("TMPDIR".to_owned(), OsString::from("/somewhere/else")),
        ]);
        let trusted = Trusted::default();
        trusted.replace(vec![TrustedPath {
            what: "the data folder".to_owned(),
            path: root.join("data"),
            kind: Kind::Secret(&["workspace"]),
        }]);
        Self { folder, confinement, inherited, authorities: BTreeMap::new(), trusted }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let file = self.path(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    fn plan(&self, program: &Path) -> Result<Plan, SandboxError> {
        self.plan_with(program, &[])
    }

    fn plan_with(&self, program: &Path, args: &[String]) -> Result<Plan, SandboxError> {
        let given = BTreeMap::from([("GIVEN".to_owned(), "yes".to_owned())]);
        let request = Request {
            program,
            args,
            given: &given,
            inherited: &self.inherited,
            authorities: &self.authorities,
            working_dir: None,
            programs: &[],
            trusted: &self.trusted,
            has_proxy: self.confinement.profile == Profile::Network,
            confinement: &self.confinement,
        };
        request.plan()
    }

    fn visible(&self, program: &Path) -> Vec<PathBuf> {
        let root = self.path("");
        let binds = self.plan(program).unwrap().binds.into_iter();
        binds.map(|bind| bind.path.strip_prefix(&root).unwrap().to_owned()).collect()
    }
}

#[test]
fn the_environment_is_exact() {
    let lab = Lab::new();
    let plan = lab.plan(Path::new("/usr/bin/env")).unwrap();
    let names: Vec<&str> = plan.env.keys().map(String::as_str).collect();
    assert_eq!(names, ["GIVEN", "HOME", "PATH", "TMPDIR", "USER"]);
    assert_eq!(plan.env["PATH"], "/usr/bin:/bin", "only folders that are visible");
    assert_eq!(plan.env["TMPDIR"], "/tmp");
    assert_eq!(plan.env["HOME"], lab.path("home/ws").display().to_string());
}

#[test]
fn the_gateways_data_is_given_to_nobody() {
    let mut lab = Lab::new();
    std::fs::create_dir_all(lab.path("data/workspace")).unwrap();
    lab.confinement.workspace = lab.path("data/workspace");
    assert_eq!(lab.plan(Path::new("/usr/bin/env")).unwrap().hidden, [lab.path("data")]);
    lab.confinement.workspace = lab.path("data");
    let error = lab.plan(Path::new("/usr/bin/env")).unwrap_err();
    assert!(error.to_string().contains("it belongs to the data folder"), "{error}");
}

#[test]
fn strict_opens_the_workspace_alone() {
    let mut lab = Lab::new();
    lab.confinement.read = vec![lab.path("outside")];
    lab.confinement.write = vec![lab.path("home/more")];
    assert_eq!(lab.plan(Path::new("/usr/bin/env")).unwrap().binds.len(), 3);
    lab.confinement.profile = Profile::Strict;
    let plan = lab.plan(Path::new("/usr/bin/env")).unwrap();
    assert_eq!(plan.binds, [Bind { path: lab.path("home/ws"), access: Access::Write }]);
}

#[test]
fn the_system_is_nobodys_workspace() {
    let mut lab = Lab::new();
    for folder in ["/", "/etc", "/usr", "/tmp", "/proc", "/dev/shm", "/nowhere", "relative"] {
        lab.confinement.workspace = folder.into();
        let error = lab.plan(Path::new("/usr/bin/env")).unwrap_err();
        assert!(matches!(error, SandboxError::Folder { .. }), "{folder}: {error}");
    }
}

#[test]
fn a_link_in_a_writable_folder_opens_nothing_outside() {
    let mut lab = Lab::new();
    symlink(lab.path("outside"), lab.path("home/ws/out")).unwrap();
    lab.confinement.write = vec![lab.path("home/ws/out")];
    let error = lab.plan(Path::new("/usr/bin/env")).unwrap_err();
    assert!(error.to_string().contains("the link"), "{error}");
    lab.confinement.write = Vec::new();
    lab.confinement.read = vec![lab.path("home/ws/out")];
    assert!(lab.plan(Path::new("/usr/bin/env")).is_err());
}

#[test]
fn arguments_open_what_they_name_and_nothing_that_a_program_could_choose() {
    let mut lab = Lab::new();
    lab.confinement.arguments = ArgumentPaths::Opened;
    lab.confinement.write = vec![lab.path("home/more")];
    lab.trusted.add_writable(&lab.path("outside")).unwrap();
    std::fs::create_dir_all(lab.path("srv/real")).unwrap();
    for file in ["srv/real/a.py", "home/more/b.py", "outside/c.py", "home/secret"] {
        std::fs::write(lab.path(file), "").unwrap();
    }
    symlink(lab.path("srv/real"), lab.path("srv/current")).unwrap();
    symlink(lab.path("home/secret"), lab.path("home/more/link")).unwrap();
    symlink(lab.path("home/secret"), lab.path("outside/link")).unwrap();
    // The argument, what it is in the box, and what is opened beside what is open anyway.
    let rows = [
        ("srv/current/a.py", Some("srv/real/a.py"), Some("srv/real/a.py")),
        ("srv/current", Some("srv/real"), Some("srv/real")),
        ("outside/c.py", Some("outside/c.py"), Some("outside/c.py")),
        ("home/more/b.py", Some("home/more/b.py"), None),
        ("home/more/link", Some("home/more/link"), None),
        ("no/such", Some("no/such"), None),
        ("outside/link", None, None),
    ];
    for (argument, seen, opened) in rows {
        let text = |name: &str| lab.path(name).to_str().unwrap().to_owned();
        let plan = lab.plan_with(Path::new("/usr/bin/env"), &[text(argument)]).ok();
        assert_eq!(plan.as_ref().map(|plan| plan.args.clone()), seen.map(|seen| vec![text(seen)]));
        let Some(plan) = plan else { continue };
        let open = ["home/more", "home/ws"].map(|name| (lab.path(name), Access::Write));
        let read = opened.map(|name| (lab.path(name), Access::Read));
        let mut expected: Vec<_> = open.into_iter().chain(read).collect();
        expected.sort();
        let binds: Vec<_> = plan.binds.into_iter().map(|bind| (bind.path, bind.access)).collect();
        assert_eq!(binds, expected, "{argument}");
    }
}

#[test]
fn a_program_in_a_folder_that_others_may_write_opens_nothing_by_its_links() {
    let lab = Lab::new();
    lab.trusted.add_writable(&lab.path("outside")).unwrap();
    let key = lab.script("private/bin/key", "");
    symlink(&key, lab.path("outside/tool")).unwrap();
    symlink(lab.path("private/bin"), lab.path("outside/bin")).unwrap();
    let outside = ["home/ws", "outside"].map(PathBuf::from);
    for (program, link) in [("outside/tool", "outside/tool"), ("outside/bin/key", "outside/bin")] {
        let error = lab.plan(&lab.path(program)).unwrap_err().to_string();
        let named = format!("the link `{}` is on the way", lab.path(link).display());
        assert!(error.contains(&named), "{program}: {error}");
    }
    let line = format!("#!{}\n", key.display());
    let script = lab.script("outside/script", &line);
    assert_eq!(lab.visible(&script), outside);
}

#[test]
fn a_link_is_seen_through_another_spelling_too() {
    let mut lab = Lab::new();
    symlink(lab.path("home/ws"), lab.path("short")).unwrap();
    symlink(lab.path("outside"), lab.path("home/ws/sub")).unwrap();
    lab.confinement.workspace = lab.path("short");
    lab.confinement.read = vec![lab.path("short/sub")];
    assert!(lab.plan(Path::new("/usr/bin/env")).is_err());
}

#[test]
fn secrets_of_the_home_folder_are_hidden_unless_they_are_named() {
    let mut lab = Lab::new();
    std::fs::create_dir_all(lab.path("home/.config/gh")).unwrap();
    lab.confinement.read = vec![lab.path("home/.config")];
    let plan = lab.plan(Path::new("/usr/bin/env")).unwrap();
    assert_eq!(plan.hidden, [lab.path("home/.config/gh")]);
    lab.confinement.read.push(lab.path("home/.config/gh"));
    assert!(lab.plan(Path::new("/usr/bin/env")).unwrap().hidden.is_empty());
}

#[test]
fn another_spelling_of_the_workspace_becomes_a_link() {
    let mut lab = Lab::new();
    symlink(lab.path("home/ws"), lab.path("short")).unwrap();
    lab.confinement.workspace = lab.path("short");
    let plan = lab.plan(Path::new("/usr/bin/env")).unwrap();
    assert_eq!(plan.links, [(lab.path("short"), lab.path("home/ws"))]);
    assert_eq!(plan.home, lab.path("home/ws"));
}

#[test]
fn a_program_brings_its_installation_and_no_more() {
    let lab = Lab::new();
    // A version manager.
    std::fs::create_dir_all(lab.path("home/.pyenv/versions")).unwrap();
    let shim = lab.script("home/.pyenv/shims/python3", "#!/bin/sh\n");
    assert_eq!(lab.visible(&shim), [Path::new("home/.pyenv"), Path::new("home/ws")]);
    // A personal folder of programs shows itself, not what is beside it.
    std::fs::create_dir_all(lab.path("home/.local/lib")).unwrap();
    let own = lab.script("home/.local/bin/tool", "#!/bin/sh\n");
    assert_eq!(lab.visible(&own), [Path::new("home/.local/bin"), Path::new("home/ws")]);
    // A program in the home folder shows itself alone.
    let loose = lab.script("home/tool", "#!/bin/sh\n");
    assert_eq!(lab.visible(&loose), [Path::new("home/tool"), Path::new("home/ws")]);
    // A package of node shows the packages beside it.
    let package = lab.script("srv/app/node_modules/a/node_modules/b/cli.js", "#!/bin/sh\n");
    assert_eq!(lab.visible(&package), [Path::new("home/ws"), Path::new("srv/app/node_modules")]);
}

#[test]
fn an_interpreter_and_its_links_are_followed() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path("opt/py/lib")).unwrap();
    let python = lab.script("opt/py/bin/python3.11", "");
    std::fs::create_dir_all(lab.path("venv/bin")).unwrap();
    std::fs::write(lab.path("venv/pyvenv.cfg"), "").unwrap();
    symlink(&python, lab.path("venv/bin/python")).unwrap();
    let line = format!("#!{}\n", lab.path("venv/bin/python").display());
    let server = lab.script("venv/bin/server", &line);
    let expected = ["home/ws", "opt/py", "venv"].map(PathBuf::from);
    assert_eq!(lab.visible(&server), expected);
}

#[test]
fn a_program_of_the_workspace_needs_nothing_more() {
    let lab = Lab::new();
    let program = lab.script("home/ws/.venv/bin/tool", "#!/bin/sh\n");
    assert_eq!(lab.visible(&program), [Path::new("home/ws")]);
}

#[test]
fn a_script_of_the_workspace_opens_nothing_by_its_first_line() {
    let lab = Lab::new();
    let secret = lab.script("outside/bin/key", "secret");
    std::fs::create_dir(lab.path("outside/lib")).unwrap();
    let secret = secret.display();
    for line in [
        format!("#!{secret}\n"),
        format!("#!/usr/bin/env -S -u {secret} sh\n"),
        format!("#!/usr/bin/env {secret}\n"),
        format!("#!/usr/bin/env -S {secret}\n"),
    ] {
        let script = lab.script("home/ws/tool", &line);
        assert_eq!(lab.visible(&script), [Path::new("home/ws")], "{line}");
    }
    std::fs::remove_file(lab.path("home/ws/tool")).unwrap();
    symlink(lab.path("outside/bin/key"), lab.path("home/ws/tool")).unwrap();
    let error = lab.plan(&lab.path("home/ws/tool")).unwrap_err().to_string();
    assert!(error.contains("tool` is on the way"), "{error}");
}

#[test]
fn a_script_of_a_folder_that_strict_does_not_open_is_not_trusted_either() {
    let mut lab = Lab::new();
    lab.confinement.profile = Profile::Strict;
    let key = lab.script("outside/bin/key", "secret");
    let script = lab.script("pack/tool", &format!("#!{}\n", key.display()));
    lab.confinement.read = vec![lab.path("pack")];
    assert_eq!(lab.visible(&script), [Path::new("home/ws"), Path::new("pack")]);
}

#[test]
fn a_virtual_environment_of_the_workspace_finds_its_python() {
    let mut lab = Lab::new();
    std::fs::create_dir_all(lab.path("home/.pyenv/shims")).unwrap();
    let python = lab.script("home/.pyenv/versions/3/bin/python3", "");
    std::fs::create_dir_all(lab.path("home/ws/.venv/bin")).unwrap();
    symlink(&python, lab.path("home/ws/.venv/bin/python")).unwrap();
    let program = lab.path("home/ws/.venv/bin/python");
    let error = lab.plan(&program).unwrap_err().to_string();
    assert!(error.contains("python` is on the way"), "{error}");
    lab.inherited.insert("PATH".to_owned(), lab.path("home/.pyenv/shims").into_os_string());
    let expected = ["home/.pyenv/versions/3/bin", "home/ws"].map(PathBuf::from);
    assert_eq!(lab.visible(&program), expected);
}

#[test]
fn authorities_of_the_operator_can_be_read() {
    let mut lab = Lab::new();
    std::fs::create_dir(lab.path("data")).unwrap();
    for name in ["outside/ca.pem", "data/ca.pem"] {
        std::fs::write(lab.path(name), "").unwrap();
    }
    lab.authorities = BTreeMap::from([
        ("OWN_CA".to_owned(), lab.path("outside/ca.pem")),
        ("SECRET_CA".to_owned(), lab.path("data/ca.pem")),
        ("SYSTEM_CA".to_owned(), PathBuf::from("/etc/ssl/certs/ca.pem")),
        ("GIVEN".to_owned(), lab.path("outside/ca.pem")),
    ]);
    let plan = lab.plan(Path::new("/usr/bin/env")).unwrap();
    assert_eq!(plan.env.get("OWN_CA").map(PathBuf::from), Some(lab.path("outside/ca.pem")));
    assert_eq!(plan.env["SYSTEM_CA"], "/etc/ssl/certs/ca.pem");
    assert_eq!((plan.env.get("SECRET_CA"), plan.env["GIVEN"].as_str()), (None, "yes"));
    assert!(plan.binds.contains(&Bind { path: lab.path("outside/ca.pem"), access: Access::Read }));
    assert_eq!(plan.binds.len(), 2, "{:?}", plan.binds);
    lab.confinement.profile = Profile::Strict;
    let plan = lab.plan(Path::new("/usr/bin/env")).unwrap();
    assert_eq!(
        (plan.env.get("OWN_CA"), plan.env["SYSTEM_CA"].as_str()),
        (None, "/etc/ssl/certs/ca.pem")
    );
}
