use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use drawgate_core::canonical::sha256_hex;

use super::{Found, MAX_FILES, read_file, read_folders};

const GOOD: &str = "---\ndescription: d\n---\nDo it.\n";

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

fn messages(found: &Found) -> Vec<String> {
    found.parsed.as_ref().unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn markdown_files_are_read_in_their_order_and_folders_below_are_not() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "b.md", GOOD);
    write(folder.path(), "a.md", GOOD);
    write(folder.path(), "notes.txt", GOOD);
    fs::create_dir(folder.path().join("below")).unwrap();
    write(&folder.path().join("below"), "c.md", GOOD);
    let found = read_folders(&[folder.path().to_owned()]);
    let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(found.iter().all(|found| found.parsed.is_ok()));
    assert_eq!(found[0].hash.as_deref(), Some(&*sha256_hex(GOOD.as_bytes())));
}

#[test]
fn two_files_with_one_name_are_both_refused() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    write(folders[0].path(), "one.md", "---\nname: same\ndescription: d\n---\nx");
    write(folders[0].path(), "other.md", GOOD);
    write(folders[1].path(), "two.md", "---\nname: same\ndescription: d\n---\ny");
    let found = read_folders(&[folders[0].path().to_owned(), folders[1].path().to_owned()]);
    let [one, other, two] = found.as_slice() else { panic!("{found:?}") };
    assert!(other.parsed.is_ok());
    let expected = format!("`name`: `{}` is called `same` too; rename one", two.path.display());
    assert_eq!(messages(one), [expected]);
    let expected = format!("`name`: `{}` is called `same` too; rename one", one.path.display());
    assert_eq!(messages(two), [expected]);
}

#[test]
fn links_are_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret.md", GOOD);
    symlink(outside.path().join("secret.md"), folder.path().join("link.md")).unwrap();
    let found = read_folders(&[folder.path().to_owned()]);
    assert_eq!(messages(&found[0]), ["the file is a symbolic link; put the file itself here"]);
    assert_eq!(found[0].hash, None);
}

#[test]
fn what_is_not_a_text_file_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("folder.md")).unwrap();
    fs::write(folder.path().join("binary.md"), [0xff, 0xfe]).unwrap();
    let huge = fs::File::create(folder.path().join("huge.md")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let ten_megabytes = format!("---\ndescription: d\n---\n{}", "x".repeat(10_000_000));
    fs::write(folder.path().join("large.md"), ten_megabytes).unwrap();
    let found = read_folders(&[folder.path().to_owned()]);
    let all: Vec<(&str, Vec<String>)> =
        found.iter().map(|found| (found.name.as_str(), messages(found))).collect();
    assert_eq!(
        all,
        [
            ("binary", vec!["the file is not UTF-8 text".to_owned()]),
            ("folder", vec!["it is not a regular file".to_owned()]),
            ("huge", vec!["the file is larger than 1 MiB; shorten it".to_owned()]),
            ("large", vec!["the file is larger than 1 MiB; shorten it".to_owned()]),
        ]
    );
}

#[test]
fn a_folder_that_can_not_be_read_is_a_problem_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("agents");
    let found = read_folders(std::slice::from_ref(&gone));
    assert_eq!(found[0].path, gone);
    assert!(messages(&found[0])[0].starts_with("the folder can't be read: "));
    assert!(messages(&read_file(&gone))[0].starts_with("the file can't be read: "));
}

#[test]
fn the_number_of_files_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..=MAX_FILES {
        write(folder.path(), &format!("{index}.md"), "");
    }
    let found = read_folders(&[folder.path().to_owned()]);
    assert_eq!(found.len(), 1);
    assert_eq!(messages(&found[0]), ["the folder has more than 1000 files; use several folders"]);
}
