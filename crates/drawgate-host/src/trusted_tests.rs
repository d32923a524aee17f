use std::os::unix::fs::symlink;

use super::*;

/// A place with a data folder, a configuration file and a few folders around them.
struct Lab(tempfile::TempDir, Trusted);

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["project/conf", "project/src", "data/workspace/deep", "data/keys", "other"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["project/conf/gate.toml", "data/admin.token", "project/src/a.rs"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        let trusted = Trusted::default();
        let lab = Self(folder, trusted);
        lab.trust("data", "project/conf/gate.toml");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn trust(&self, data: &str, config: &str) {
        let entry = |what: &str, name: &str, kind| TrustedPath {
            what: what.to_owned(),
            path: self.path(name),
            kind,
        };
        self.1.replace(vec![
            entry("the data folder", data, Kind::Secret(&["workspace"])),
            entry("the configuration file", config, Kind::Secret(&[])),
        ]);
    }

    /// What is said about writing a folder, in one word.
    fn verdict(&self, folder: &str) -> &'static str {
        match self.1.check_writable(&self.path(folder)) {
            Ok(()) => "fine",
            Err(Conflict::Holds(_)) => "holds",
            Err(Conflict::Within(_)) => "within",
            Err(Conflict::Linked(_)) => "linked",
        }
    }
}

#[test]
fn no_folder_is_given_away_from_which_something_trusted_can_be_reached() {
    let lab = Lab::new();
    symlink(lab.path("project"), lab.path("short")).unwrap();
    let rows = [
        ("", "holds"),
        ("project", "holds"),
        ("project/conf", "holds"),
        ("project/conf/../conf", "holds"),
        ("short", "holds"),
        ("short/conf", "holds"),
        ("project/src", "fine"),
        ("project/conf/made/later", "fine"),
        ("data", "within"),
        ("data/keys", "within"),
        ("data/made/later", "within"),
        ("data/workspace", "fine"),
        ("data/workspace/deep", "fine"),
        ("data/workspace/../keys", "within"),
        ("other", "fine"),
    ];
    for (folder, expected) in rows {
        assert_eq!(lab.verdict(folder), expected, "{folder}");
    }
}

#[test]
fn the_links_on_the_way_count_as_well() {
    let lab = Lab::new();
    symlink(lab.path("project/conf"), lab.path("other/link")).unwrap();
    lab.trust("data", "other/link/gate.toml");
    for folder in ["other", "project/conf", "project"] {
        assert_eq!(lab.verdict(folder), "holds", "{folder}");
    }
    symlink("loop", lab.path("other/loop")).unwrap();
    lab.trust("data", "other/loop/gate.toml");
    assert_eq!(lab.verdict("other"), "holds");
}

#[test]
fn what_is_not_there_yet_counts_by_its_folder() {
    let lab = Lab::new();
    lab.trust("absent/data", "project/new/gate.toml");
    for (folder, expected) in
        [("project", "holds"), ("project/src", "fine"), ("absent", "holds"), ("", "holds")]
    {
        assert_eq!(lab.verdict(folder), expected, "{folder}");
    }
}

#[test]
fn a_second_name_is_found_by_its_number() {
    let lab = Lab::new();
    for (file, link) in [
        ("project/conf/gate.toml", "project/src/notes.txt"),
        ("data/admin.token", "project/src/other.txt"),
    ] {
        let link = lab.path(link);
        std::fs::hard_link(lab.path(file), &link).unwrap();
        assert_eq!(lab.verdict("project/src"), "linked", "{file}");
        assert!(lab.1.is(&link.metadata().unwrap()), "{file}");
        std::fs::remove_file(link).unwrap();
        assert_eq!(lab.verdict("project/src"), "fine", "{file}");
    }
    assert!(!lab.1.is(&lab.path("project/src/a.rs").metadata().unwrap()));
}

#[test]
fn what_is_secret_may_not_be_read_and_is_hidden_below() {
    let lab = Lab::new();
    let survey = lab.1.survey();
    for (path, expected) in [
        ("data", false),
        ("data/admin.token", false),
        ("project/conf/gate.toml", false),
        ("data/workspace", true),
        ("project", true),
    ] {
        assert_eq!(survey.check_readable(&lab.path(path)).is_ok(), expected, "{path}");
    }
    let project = lab.path("project");
    let hidden = survey.secrets_in([project.as_path()].into_iter());
    assert_eq!(hidden, [lab.path("data"), lab.path("project/conf/gate.toml")]);
}
