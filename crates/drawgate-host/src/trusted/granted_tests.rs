use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::*;

/// A folder that programs may write, `given`, beside one that they may not.
struct Lab(tempfile::TempDir, Trusted);

impl Lab {
    fn new() -> Self {
        let lab = Self(tempfile::tempdir().unwrap(), Trusted::default());
        for name in ["given/sub", "secret/deep", "mine", "elsewhere"] {
            std::fs::create_dir_all(lab.path(name)).unwrap();
        }
        std::fs::write(lab.path("secret/key"), "key").unwrap();
        std::fs::write(lab.path("given/file"), "").unwrap();
        lab.1.add_writable(&lab.path("given")).unwrap();
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn link(&self, target: &str, name: &str) {
        symlink(self.path(target), self.path(name)).unwrap();
    }
}

#[test]
fn a_link_is_followed_unless_a_program_could_have_made_it() {
    let lab = Lab::new();
    lab.link("secret", "given/out");
    lab.link("given/sub", "given/in");
    symlink("../secret", lab.path("given/sub/up")).unwrap();
    lab.link("elsewhere", "mine/current");
    lab.link("given", "mine/short");
    lab.link("mine/current", "mine/twice");
    lab.link("given/out", "mine/through");
    lab.link("nowhere", "given/nowhere");
    let rows = [
        ("given/file", Some("given/file")),
        ("given/sub", Some("given/sub")),
        ("given/none/yet", Some("given/none/yet")),
        ("mine/current/x", Some("elsewhere/x")),
        ("mine/twice", Some("elsewhere")),
        ("mine/short/file", Some("given/file")),
        ("mine/short/sub/../file", Some("given/file")),
        ("given/out", None),
        ("given/out/key", None),
        ("given/in", None),
        ("given/sub/up/key", None),
        ("given/nowhere", None),
        ("mine/short/out/deep", None),
        ("mine/through", None),
        ("given/sub/../out", None),
        ("given/out/../mine", None),
    ];
    for (path, expected) in rows {
        let found = lab.1.resolve(&lab.path(path)).ok();
        assert_eq!(found, expected.map(|name| lab.path(name)), "{path}");
    }
    let error = lab.1.resolve(&lab.path("given/out/key")).unwrap_err().to_string();
    assert!(error.contains(&lab.path("given/out").display().to_string()), "{error}");
}

#[test]
fn every_list_of_writable_folders_counts() {
    let lab = Lab::new();
    for folder in ["mine", "elsewhere"] {
        lab.link("secret", &format!("{folder}/link"));
        assert!(lab.1.resolve(&lab.path(&format!("{folder}/link"))).is_ok(), "{folder}");
    }
    // What a configuration declares, until another one does not.
    lab.link("mine", "named");
    lab.1.declare_writable(vec![lab.path("named")]);
    assert!(lab.1.resolve(&lab.path("mine/link")).is_err());
    lab.1.declare_writable(Vec::new());
    assert!(lab.1.resolve(&lab.path("mine/link")).is_ok());
    // What the program that is about to be started may write itself.
    let survey = lab.1.survey_with(vec![lab.path("mine")]);
    assert!(survey.resolve(&lab.path("mine/link")).is_err());
    // What another process has given away, or one before this.
    let list = lab.path("list");
    lab.1.keep_writable_in(&list).unwrap();
    let other = Trusted::default();
    other.keep_writable_in(&list).unwrap();
    other.add_writable(&lab.path("elsewhere")).unwrap();
    other.add_writable(&lab.path("elsewhere/below")).unwrap();
    assert!(lab.1.resolve(&lab.path("elsewhere/link")).is_err());
    let later = Trusted::default();
    later.keep_writable_in(&list).unwrap();
    assert!(later.resolve(&lab.path("elsewhere/link")).is_err());
    let text = std::fs::read_to_string(&list).unwrap();
    assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 1);
    // A line that was cut off does not swallow the next.
    std::fs::write(&list, format!("{text}\"/cut")).unwrap();
    later.add_writable(&lab.path("mine")).unwrap();
    assert!(lab.1.resolve(&lab.path("mine/link")).is_err());
}

#[test]
fn the_list_of_writable_folders_shrinks_by_what_says_nothing() {
    let lab = Lab::new();
    let list = lab.path("mine/list");
    let name = |name: &str| lab.path(name).display().to_string();
    let lines =
        ["mine/gone", "mine/gone/below", "elsewhere/sub", "elsewhere", "given/gone", "elsewhere"];
    let text: Vec<String> = lines.iter().map(|it| format!("\n{:?}\n", name(it))).collect();
    std::fs::write(&list, text.concat()).unwrap();
    let trusted = Trusted::default();
    trusted.keep_writable_in(&list).unwrap();
    let left = std::fs::read_to_string(&list).unwrap();
    // The data folder is the one with the list. What is gone elsewhere may be on a disk that is not there.
    assert_eq!(left, format!("{:?}\n{:?}\n", name("elsewhere"), name("given/gone")));
    lab.link("secret", "elsewhere/link");
    assert!(trusted.resolve(&lab.path("elsewhere/link")).is_err());
    // A process that has the list open adds to the one that is there by now.
    let other = Trusted::default();
    other.keep_writable_in(&list).unwrap();
    std::thread::scope(|scope| {
        for (part, trusted) in [&trusted, &other].into_iter().enumerate() {
            scope.spawn(move || {
                for number in 0..20 {
                    trusted.add_writable(Path::new(&format!("/nowhere/{part}/{number}"))).unwrap();
                }
            });
        }
        for _ in 0..20 {
            Trusted::default().keep_writable_in(&list).unwrap();
        }
    });
    assert_eq!(std::fs::read_to_string(&list).unwrap().matches("/nowhere/").count(), 40);
}

#[test]
fn a_given_folder_that_became_a_link_is_not_followed() {
    let lab = Lab::new();
    let trusted = Trusted::default();
    trusted.add_writable(&lab.path("given/sub")).unwrap();
    trusted.declare_writable(vec![lab.path("given/sub")]);
    std::fs::remove_dir(lab.path("given/sub")).unwrap();
    symlink("/", lab.path("given/sub")).unwrap();
    lab.link("elsewhere", "mine/current");
    trusted.resolve(&lab.path("mine/current")).unwrap();
    assert!(trusted.resolve(&lab.path("given/sub")).is_err());
}

#[test]
fn a_folder_is_made_through_no_link() {
    let lab = Lab::new();
    lab.link("secret", "given/out");
    lab.link("elsewhere", "mine/current");
    for path in ["given/out", "given/out/new/deep", "given/sub/../out/new"] {
        assert!(lab.1.open_writable(&lab.path(path)).is_err(), "{path}");
    }
    assert!(!lab.path("secret/new").exists());
    lab.1.open_writable(&lab.path("mine/current/new/deep")).unwrap();
    assert!(lab.path("elsewhere/new/deep").is_dir());
    assert!(lab.1.resolve(&lab.path("elsewhere/new/deep")).is_ok());
    lab.link("secret", "elsewhere/new/deep/out");
    assert!(lab.1.resolve(&lab.path("elsewhere/new/deep/out")).is_err(), "it may be written now");
}

/// What is resolved and then opened is never what a link led to, however quickly it comes and goes.
#[test]
#[expect(clippy::disallowed_methods, reason = "a longer run is asked for by the environment")]
fn no_race_leads_out() {
    let lab = Lab::new();
    let time = std::env::var("DRAWGATE_SOAK")
        .map_or(Duration::from_millis(500), |_| Duration::from_mins(1));
    std::fs::write(lab.path("given/sub/key"), "own").unwrap();
    let (stop, end) = (AtomicBool::new(false), Instant::now() + time);
    let secret = std::fs::metadata(lab.path("secret/key")).unwrap();
    let mut opened = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(lab.path("given/sub"), lab.path("given/away")).unwrap();
                lab.link("secret", "given/sub");
                std::fs::remove_file(lab.path("given/sub")).unwrap();
                std::fs::rename(lab.path("given/away"), lab.path("given/sub")).unwrap();
            }
        });
        while Instant::now() < end {
            let Ok(real) = lab.1.resolve(&lab.path("given/sub/key")) else { continue };
            let Ok(file) = open_real(&real, OFlags::PATH) else { continue };
            let found = rustix::fs::fstat(&file).unwrap();
            assert_ne!(found.st_ino, secret.ino());
            opened += 1;
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(opened > 0, "it was never itself");
}
