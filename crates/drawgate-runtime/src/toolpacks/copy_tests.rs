use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::toolpacks::testing::{INSTALL, TestFolder, code, everything_in};

fn copied(
    fixture: &TestFolder,
    source: &Path,
) -> Result<(Vec<String>, Vec<String>), ToolpackError> {
    let to = fixture.root.path().join("copy");
    let _fresh = fs::remove_dir_all(&to);
    let left_out = copy(source, &to, fixture.folder.path())?;
    Ok((everything_in(&to), left_out))
}

#[test]
fn files_and_folders_with_ordinary_modes() {
    let fixture = TestFolder::new();
    let source = fixture.source("1.0.0");
    fs::write(source.join("run"), "#!").unwrap();
    fs::set_permissions(source.join("run"), Permissions::from_mode(0o6777)).unwrap();
    fs::set_permissions(source.join("toolpack.json"), Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(source.join("data"), Permissions::from_mode(0o3700)).unwrap();
    fs::create_dir_all(source.join("data/.git/hooks")).unwrap();
    fs::write(source.join(".git"), "gitdir: elsewhere").unwrap();
    let (found, left_out) = copied(&fixture, &source).unwrap();
    assert_eq!(
        found,
        ["data folder 755", "data/words.txt file 644", "run file 755", "toolpack.json file 644"]
    );
    assert_eq!(left_out, [".git", "data/.git"]);
    assert_eq!(fs::read_to_string(fixture.root.path().join("copy/run")).unwrap(), "#!");
}

#[test]
fn links_and_special_files_are_refused_by_name() {
    let fixture = TestFolder::new();
    let source = fixture.source("1.0.0");
    let odd = source.join("data/odd");
    for target in ["words.txt", "/etc/passwd", "nowhere", "."] {
        symlink(target, &odd).unwrap();
        let error = copied(&fixture, &source).unwrap_err();
        assert_eq!(error.code(), Some(Code::Link));
        assert!(error.to_string().contains("`data/odd`"), "{error}");
        fs::remove_file(&odd).unwrap();
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &odd,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    assert_eq!(code(copied(&fixture, &source)), Some(Code::Type));
}

#[test]
fn names_are_those_that_an_archive_may_have() {
    let fixture = TestFolder::new();
    for name in ["-rf", "a\nb", "a\\b", "toolpack.json ", "a\u{202e}b"] {
        let source = fixture.source("1.0.0");
        fs::write(source.join(name), "").unwrap();
        assert_eq!(code(copied(&fixture, &source)), Some(Code::Path), "{name:?}");
        fs::remove_file(source.join(name)).unwrap();
    }
}

#[test]
fn too_much_is_refused() {
    let fixture = TestFolder::new();
    let source = fixture.source("1.0.0");
    let deep = source.join("a/".repeat(40));
    fs::create_dir_all(&deep).unwrap();
    assert_eq!(code(copied(&fixture, &source)), Some(Code::Limit));
    fs::remove_dir_all(source.join("a")).unwrap();
    let large = fs::File::create(source.join("large")).unwrap();
    large.set_len(walk::MAX_BYTES).unwrap();
    assert_eq!(code(copied(&fixture, &source)), Some(Code::Limit));
}

#[test]
fn a_pack_does_not_contain_itself() {
    let fixture = TestFolder::new();
    fixture.source("1.0.0");
    let staged = fixture.folder.stage_folder(fixture.root.path(), &INSTALL);
    assert_eq!(code(staged), Some(Code::Path));
}
