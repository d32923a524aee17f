use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn listed(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_new_goes_and_what_was_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at(".git")).unwrap();
    fs::write(at(".git/config"), "old").unwrap();
    fs::write(at(".npmrc"), "old").unwrap();
    let look = Folder::look(folder.path(), &[], &[]).unwrap();
    fs::write(at(".mcp.json"), "{}").unwrap();
    fs::create_dir_all(at("toolpacks/evil")).unwrap();
    fs::create_dir_all(at(".git/hooks")).unwrap();
    fs::write(at(".git/hooks/pre-commit"), "x").unwrap();
    fs::write(at("result.txt"), "x").unwrap();
    let removed = look.sweep().removed;
    assert_eq!(removed, [".mcp.json", "toolpacks", ".git/hooks"]);
    assert_eq!(listed(folder.path()), [".drawgate-removed", ".git", ".npmrc", "result.txt"]);
    assert_eq!(listed(&at(".git")), ["config"]);
}

#[test]
fn nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let look = Folder::look(folder.path(), &[], &[]).unwrap();
    for round in ["first", "second"] {
        fs::write(folder.path().join(".envrc"), round).unwrap();
        look.sweep();
    }
    let aside = folder.path().join(ASIDE);
    let mut kept: Vec<String> =
        listed(&aside).iter().map(|name| fs::read_to_string(aside.join(name)).unwrap()).collect();
    kept.sort();
    assert_eq!(kept, ["first", "second"]);
}

#[test]
fn a_place_that_is_taken_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let look = Folder::look(folder.path(), &[], &[]).unwrap();
    symlink(outside.path(), folder.path().join(ASIDE)).unwrap();
    fs::write(folder.path().join(".envrc"), "x").unwrap();
    look.sweep();
    assert!(!folder.path().join(".envrc").exists());
    assert!(listed(outside.path()).is_empty());
    assert!(listed(folder.path()).iter().any(|name| name.starts_with(".envrc.drawgate-removed-")));
}

#[test]
fn a_folder_above_must_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("hooks")).unwrap();
    let look = Folder::look(folder.path(), &[], &[]).unwrap();
    symlink(outside.path(), folder.path().join(".git")).unwrap();
    look.sweep();
    assert!(folder.path().join(".git").symlink_metadata().is_err(), "a link would lead git away");
    assert!(outside.path().join("hooks").exists(), "nothing behind a link is touched");
    fs::write(folder.path().join(".git"), "gitdir: evil").unwrap();
    look.sweep();
    assert!(!folder.path().join(".git").exists(), "so would a file");
    fs::create_dir(folder.path().join(".git")).unwrap();
    look.sweep();
    assert!(folder.path().join(".git").exists());
}

#[test]
fn a_link_that_was_replaced_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join(".vscode");
    symlink("settings", &link).unwrap();
    let look = Folder::look(folder.path(), &[], &[]).unwrap();
    fs::remove_file(&link).unwrap();
    fs::create_dir(&link).unwrap();
    fs::write(link.join("tasks.json"), "{}").unwrap();
    look.sweep();
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("settings"));
}

#[test]
fn what_another_box_planted_counts_as_new() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".mcp.json"), "{}").unwrap();
    let look = Folder::look(folder.path(), &[".mcp.json".to_owned()], &[]).unwrap();
    assert_eq!(look.sweep().removed, [".mcp.json"]);
    assert!(!folder.path().join(".mcp.json").exists());
}

#[test]
fn modes_keep_nothing_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let look = Folder::look(folder.path(), &[], &[]).unwrap();
    for name in [".claude", ".git/hooks"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    for name in [".claude", ".git/hooks", ".git"] {
        fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o0)).unwrap();
    }
    assert_eq!(look.sweep().removed, [".claude", ".git/hooks"]);
    assert_eq!(listed(folder.path()), [".drawgate-removed", ".git"]);
}
