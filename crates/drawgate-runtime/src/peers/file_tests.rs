use super::*;
use std::fs::{Permissions, set_permissions, write};
use tempfile::TempDir;

fn modes(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_missing_file_is_an_empty_one() {
    let folder = TempDir::new().unwrap();
    let file = KeyFile::new(folder.path().join("keys"));
    assert_eq!(file.read(), Ok(Vec::new()));
    assert_eq!(file.stamp(), (None, None));
}

#[test]
fn a_file_that_others_may_write_does_not_count() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("keys");
    write(&path, "x").unwrap();
    let file = KeyFile::new(path.clone());
    let shown = path.canonicalize().unwrap().display().to_string();
    for mode in [0o600, 0o644, 0o640, 0o400, 0o755] {
        modes(&path, mode);
        assert_eq!(file.read(), Ok(b"x".to_vec()), "{mode:o}");
    }
    for mode in [0o620, 0o602, 0o666, 0o777] {
        modes(&path, mode);
        assert_eq!(file.read(), Err(FileProblem::Writable(shown.clone())), "{mode:o}");
    }
}

#[test]
fn a_folder_that_others_may_write_does_not_count_either() {
    let folder = TempDir::new().unwrap();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let path = inner.join("keys");
    write(&path, "x").unwrap();
    modes(&path, 0o600);
    let file = KeyFile::new(path);
    for (mode, is_good) in
        [(0o700, true), (0o755, true), (0o1777, true), (0o777, false), (0o757, false)]
    {
        modes(&inner, mode);
        assert_eq!(file.read().is_ok(), is_good, "{mode:o}");
    }
}

/// `outer/inner/keys`, all ours alone.
fn nested(folder: &TempDir) -> (PathBuf, PathBuf, PathBuf) {
    let outer = folder.path().canonicalize().unwrap().join("outer");
    let inner = outer.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    let path = inner.join("keys");
    write(&path, "x").unwrap();
    for (path, mode) in [(&outer, 0o755), (&inner, 0o700), (&path, 0o600)] {
        modes(path, mode);
    }
    (outer, inner, path)
}

#[test]
fn every_folder_above_counts_up_to_the_home() {
    let folder = TempDir::new().unwrap();
    let (outer, inner, path) = nested(&folder);
    let file = KeyFile::new(path.clone());
    let at_home = KeyFile::new(path.clone()).with_home(Some(inner.clone()));
    let above_home = KeyFile::new(path.clone()).with_home(Some(outer.clone()));
    let elsewhere = KeyFile::new(path).with_home(Some(PathBuf::from("/nowhere")));
    for (mode, is_good) in
        [(0o700, true), (0o755, true), (0o1777, true), (0o777, false), (0o757, false)]
    {
        modes(&outer, mode);
        let expected = if is_good {
            Ok(b"x".to_vec())
        } else {
            Err(FileProblem::Writable(outer.display().to_string()))
        };
        for file in [&file, &above_home, &elsewhere] {
            assert_eq!(file.read(), expected, "{mode:o}");
        }
        assert_eq!(at_home.read(), Ok(b"x".to_vec()), "{mode:o}");
    }
    modes(&inner, 0o777);
    assert_eq!(at_home.read(), Err(FileProblem::Writable(inner.display().to_string())));
}

#[test]
fn a_change_of_a_folder_above_is_seen() {
    let folder = TempDir::new().unwrap();
    let (outer, _, path) = nested(&folder);
    let file = KeyFile::new(path);
    let before = file.stamp();
    assert_eq!(file.stamp(), before);
    modes(&outer, 0o777);
    assert_ne!(file.stamp(), before);
}

#[test]
fn a_link_that_others_may_replace_does_not_count() {
    let folder = TempDir::new().unwrap();
    let (outer, _, path) = nested(&folder);
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::os::unix::fs::symlink(&path, open.join("link")).unwrap();
    let file = KeyFile::new(open.join("link"));
    modes(&open, 0o755);
    assert_eq!(file.read(), Ok(b"x".to_vec()));
    modes(&open, 0o777);
    assert!(matches!(file.read(), Err(FileProblem::Writable(_))));
    modes(&open, 0o755);
    modes(&outer, 0o777);
    assert!(matches!(file.read(), Err(FileProblem::Writable(_))), "where it points to");
}

#[test]
fn a_link_on_the_way_that_others_may_replace_does_not_count() {
    let folder = TempDir::new().unwrap();
    let (_, inner, _) = nested(&folder);
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::os::unix::fs::symlink(&inner, open.join("link")).unwrap();
    let file = KeyFile::new(open.join("link/keys"));
    modes(&open, 0o755);
    assert_eq!(file.read(), Ok(b"x".to_vec()));
    modes(&open, 0o777);
    assert!(matches!(file.read(), Err(FileProblem::Writable(_))));
}

#[test]
fn a_list_that_would_not_count_is_not_begun() {
    let folder = TempDir::new().unwrap();
    let (outer, _, path) = nested(&folder);
    std::fs::remove_file(&path).unwrap();
    let file = KeyFile::new(path);
    assert_eq!(file.check_place(), Ok(()));
    modes(&outer, 0o777);
    assert_eq!(file.read(), Ok(Vec::new()), "nothing is nothing, wherever");
    assert_eq!(file.check_place(), Err(FileProblem::Writable(outer.display().to_string())));
}

#[test]
fn only_a_regular_file_counts() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("keys");
    std::fs::create_dir(&path).unwrap();
    let file = KeyFile::new(path.clone());
    assert!(matches!(file.read(), Err(FileProblem::NotAFile(_))));
    std::fs::remove_dir(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert!(matches!(file.read(), Err(FileProblem::NotAFile(_))), "a pipe would hold us up");
    assert!(KeyFile::new("/dev/null".into()).read().is_err());
}

#[test]
fn a_file_without_end_does_not_count() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("keys");
    write(&path, "").unwrap();
    File::options().write(true).open(&path).unwrap().set_len(MAX_FILE + 1).unwrap();
    assert!(matches!(KeyFile::new(path).read(), Err(FileProblem::TooLarge(_))));
}

#[test]
fn a_link_counts_if_what_it_points_to_does_and_stays_a_link() {
    let folder = TempDir::new().unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("keys"));
    write(&real, "x").unwrap();
    modes(&real, 0o640);
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let file = KeyFile::new(link.clone());
    assert_eq!(file.read(), Ok(b"x".to_vec()));
    file.write(b"y").unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(std::fs::read(&real).unwrap(), b"y");
    assert_eq!(real.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    modes(&real, 0o666);
    assert!(matches!(file.read(), Err(FileProblem::Writable(_))));
}

#[test]
fn a_new_file_is_ours_alone_and_nothing_is_left_beside_it() {
    let folder = TempDir::new().unwrap();
    let file = KeyFile::new(folder.path().join("keys"));
    file.write(b"one\n").unwrap();
    let before = file.stamp();
    file.write(b"two\n").unwrap();
    assert_ne!(file.stamp(), before);
    assert_eq!(file.read(), Ok(b"two\n".to_vec()));
    let mode = file.path().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
