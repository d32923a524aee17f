//! What reaches a person's browser and terminal when an authorization server lies about where people
//! agree: one plain address that commands nobody, or nothing at all.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::world::{World, browse};
use super::{files, place};
use crate::support::{TestFolder, eventually, text};

/// Where the authorization server says that people agree, and what begins the address that is opened.
const OPENED: [(&str, &str); 17] = [
    ("https://as.example", "https://as.example/?"),
    ("HTTPS://AS.Example:443/Authorize", "https://as.example/Authorize?"),
    ("https://as.example:8443/a/../b?p=1", "https://as.example:8443/b?p=1&"),
    ("https://[2001:DB8::1]/a", "https://[2001:db8::1]/a?"),
    (
        "https://as.example/$(touch${IFS}PWNED)",
        "https://as.example/%24%28touch%24%7BIFS%7DPWNED%29?",
    ),
    (
        "https://as.example/a?x=$(touch${IFS}PWNED)",
        "https://as.example/a?x=%24%28touch%24%7BIFS%7DPWNED%29&",
    ),
    (
        "https://as.example/a?x=`touch${IFS}PWNED`",
        "https://as.example/a?x=%60touch%24%7BIFS%7DPWNED%60&",
    ),
    ("https://as.example/a;touch${IFS}PWNED", "https://as.example/a%3Btouch%24%7BIFS%7DPWNED?"),
    ("https://as.example/a?;touch${IFS}PWNED", "https://as.example/a?%3Btouch%24%7BIFS%7DPWNED&"),
    ("https://as.example/a&touch${IFS}PWNED", "https://as.example/a%26touch%24%7BIFS%7DPWNED?"),
    // Here it parts two parameters, as it does in every such address.
    ("https://as.example/a?b&touch${IFS}PWNED", "https://as.example/a?b&touch%24%7BIFS%7DPWNED&"),
    ("https://as.example/a|touch${IFS}PWNED", "https://as.example/a%7Ctouch%24%7BIFS%7DPWNED?"),
    (
        "https://as.example/'$(touch${IFS}PWNED)'",
        "https://as.example/%27%24%28touch%24%7BIFS%7DPWNED%29%27?",
    ),
    ("https://as.example/a?'|{b,c}[d]*!^", "https://as.example/a?%27%7C%7Bb,c%7D%5Bd%5D%2A%21%5E&"),
    ("https://as.example/%24(id)%20x", "https://as.example/%24%28id%29%20x?"),
    ("https://as.example/%25s?%25u", "https://as.example/%25s?%25u&"),
    ("https://as.example/~a-b_c.d:e@f,g+h=i", "https://as.example/~a-b_c.d:e@f,g+h=i?"),
];

const SCHEME: &str = "it must begin with `https://`, or with `http://` on this machine";
const CHARACTER: &str = "it holds a character that an address must not hold";
const HOST: &str = "its host is neither a name nor a number";
const USER: &str = "it names a user";
const CONTROL: &str = "it hides a control character";
const LENGTH: &str = "it is longer than 2048 characters";

/// The same, and why nothing is opened.
const REFUSED: [(&str, &str); 42] = [
    ("https://x/$(touch PWNED)", CHARACTER),
    ("javascript:alert(1)", SCHEME),
    ("JavaScript:alert(1)", SCHEME),
    ("javascript://as.example/%0aalert(1)", SCHEME),
    ("data:text/html,<script>alert(1)</script>", CHARACTER),
    ("data:text/html,hello", SCHEME),
    ("file:///etc/passwd", SCHEME),
    ("FILE://localhost/etc/passwd", SCHEME),
    ("ftp://as.example/a", SCHEME),
    ("vscode://as.example/a", SCHEME),
    ("mailto:a@as.example", SCHEME),
    ("http://as.example/a", SCHEME),
    ("http://169.254.169.254/latest", SCHEME),
    ("http://localhost.as.example/a", SCHEME),
    ("--help", SCHEME),
    ("-https://as.example/a", SCHEME),
    ("/usr/bin/id", SCHEME),
    ("//as.example/a", SCHEME),
    ("https:as.example/a", SCHEME),
    ("", SCHEME),
    (" https://as.example/a", CHARACTER),
    ("https://as.example/a b", CHARACTER),
    ("https://as.example/a\ntouch PWNED", CHARACTER),
    ("https://as.example/a\r\tb", CHARACTER),
    ("https://as.example/\0", CHARACTER),
    ("https://as.example/\u{1b}]0;owned\u{7}\u{1b}[2J", CHARACTER),
    ("https://as.example/\u{9b}2J\u{7f}", CHARACTER),
    ("https://as.example/\u{202e}moc.live", CHARACTER),
    ("https://as.example/\"$(touch${IFS}PWNED)\"", CHARACTER),
    ("https://as.example\\@evil.example/", CHARACTER),
    ("https://as.example/<>", CHARACTER),
    ("https://as.example/a#b", CHARACTER),
    ("https://as.example/%", CHARACTER),
    ("https://as.example/a?%s", CHARACTER),
    ("https://as.example/%0atouch%20PWNED", CONTROL),
    ("https://as.example/a?%1B%5B2J%00", CONTROL),
    ("https://user:word@as.example/", USER),
    ("https://as.example@evil.example/", USER),
    ("https://$(touch${IFS}PWNED).example/", CHARACTER),
    ("https://$(id).example/", HOST),
    ("https://a;id;.example/", HOST),
    ("https://as.example:99999/", HOST),
];

/// The environment of the command besides `PATH`, and whether it is the browser's business.
const VARIABLES: [(&str, &str, bool); 6] = [
    ("BROWSER", "some browser %s", true),
    ("DISPLAY", ":77", true),
    ("HOME", "/nowhere", true),
    ("DRAWGATE_ADMIN_TOKEN", "private-of-the-gateway", false),
    ("FAR_SECRET", "private-of-a-server", false),
    ("BASH_ENV", "/private-of-a-shell", false),
];

/// A desktop whose `xdg-open` writes down how it was called, byte for byte.
struct Desktop {
    place: TestFolder,
}

impl Desktop {
    /// It is a loud one, and a bad one: as some have done, it lets a shell read the address again.
    fn new(place: TestFolder) -> Self {
        let desktop = Self { place };
        std::fs::create_dir(desktop.folder()).unwrap();
        std::fs::create_dir(desktop.records()).unwrap();
        let records = desktop.records().display().to_string();
        let program = desktop.program();
        let script = format!(
            "#!/bin/sh\nhead -c 1000000 /dev/zero >&2\neval \"echo $1\" >/dev/null 2>&1\nwait\n\
             cat /proc/$$/environ > {records}/environ\ncat /proc/$$/cmdline > {records}/next\n\
             mv {records}/next {records}/cmdline\n"
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        desktop
    }

    fn folder(&self) -> PathBuf {
        self.place.path().join("desktop")
    }

    fn records(&self) -> PathBuf {
        self.place.path().join("records")
    }

    fn program(&self) -> PathBuf {
        self.folder().join("xdg-open")
    }

    fn path(&self) -> String {
        format!("{}:/usr/local/bin:/usr/bin:/bin", self.folder().display())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env_clear().env("PATH", self.path()).env("DRAWGATE_CONFIG", "drawgate.toml");
        command.envs(VARIABLES.map(|(name, value, _)| (name, value)));
        command
    }

    /// The one argument of `xdg-open`, and its environment.
    async fn opened(&self) -> (String, String) {
        let cmdline = eventually("the browser is started", async || {
            std::fs::read(self.records().join("cmdline")).ok()
        })
        .await;
        let environ = std::fs::read(self.records().join("environ")).unwrap();
        std::fs::remove_file(self.records().join("cmdline")).unwrap();
        let before = format!("/bin/sh\0{}\0", self.program().display());
        let url = text(&cmdline);
        let url = url.strip_prefix(&before).and_then(|rest| rest.strip_suffix('\0')).unwrap();
        assert!(!url.contains('\0'), "more than one argument: {url:?}");
        (url.to_owned(), text(&environ))
    }

    fn assert_untouched(&self, row: &str) {
        let names: Vec<String> =
            files(self.place.path()).into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| !name.contains("PWNED")), "{row}: {names:?}");
        assert!(!self.records().join("cmdline").exists(), "{row}: something was opened");
    }
}

fn is_plain(shown: &str) -> bool {
    shown.chars().all(|c| c == '\n' || c == ' ' || c.is_ascii_graphic())
}

/// Runs the command until the browser has been started, then gives it up.
async fn open(desktop: &Desktop) -> (String, String, String) {
    let mut command = desktop.command(&["servers", "login", "far", "--open"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let printed = lines.find(|line| line.contains("://")).unwrap();
    let (url, environ) = desktop.opened().await;
    child.kill().unwrap();
    child.wait().unwrap();
    (printed, url, environ)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_browser_gets_one_address_that_commands_nobody() {
    let world = World::start().await;
    let desktop = Desktop::new(place(&world));
    let gateway = desktop.place.serve();
    for (endpoint, expected) in OPENED {
        world.behave(|it| it.authorization_endpoint = Some(endpoint.to_owned()));
        let (printed, url, environ) = open(&desktop).await;
        desktop.assert_untouched(endpoint);
        assert!(url.starts_with(expected), "{endpoint}: {url}");
        assert_eq!(printed, url, "{endpoint}: another address is shown than opened");
        let ours = url.strip_prefix(expected).unwrap();
        assert!(ours.starts_with("response_type=code&client_id="), "{endpoint}: {url}");
        let safe = |c: char| c.is_ascii_alphanumeric() || "-._~%&=".contains(c);
        assert!(ours.chars().all(safe), "{endpoint}: {url}");
        assert!(!environ.contains("private-of"), "{endpoint}: {environ}");
        assert!(!(environ + &url).contains(&gateway.token), "{endpoint}: {url}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_plain_address_is_not_opened() {
    let world = World::start().await;
    let desktop = Desktop::new(place(&world));
    let _gateway = desktop.place.serve();
    let long = format!("https://as.example/{}", "x".repeat(3000));
    let rows = REFUSED.into_iter().chain([(long.as_str(), LENGTH)]);
    for (endpoint, expected) in rows {
        world.behave(|it| it.authorization_endpoint = Some(endpoint.to_owned()));
        for args in [&["servers", "login", "far", "--open"][..], &["servers", "login", "far"]] {
            let output = desktop.command(args).output().unwrap();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(!output.status.success(), "{endpoint:?}: {out}{err}");
            assert_eq!(out, "", "{endpoint:?}");
            assert!(err.contains("authorization_endpoint: `"), "{endpoint:?}: {err}");
            assert!(err.contains(expected), "{endpoint:?}: {err}");
            assert!(is_plain(&err) && err.len() < 600, "{endpoint:?}: {err:?}");
        }
        desktop.assert_untouched(endpoint);
    }
    assert_eq!(world.seen("/register").len(), 0, "nothing was begun");
}

/// The way that honest people go: the address that is opened is the one that works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_opened_logs_in() {
    let world = World::start().await;
    let desktop = Desktop::new(place(&world));
    let _gateway = desktop.place.serve();
    let mut command = desktop.command(&["servers", "login", "far", "--open"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (url, environ) = desktop.opened().await;
    assert!(url.starts_with(&format!("{}/authorize?", world.issuer)), "{url}");
    let given: BTreeSet<&str> = environ.split_terminator('\0').collect();
    let path = format!("PATH={}", desktop.path());
    let theirs = VARIABLES.iter().filter(|(_, _, theirs)| *theirs);
    let theirs: Vec<String> = theirs.map(|(name, value, _)| format!("{name}={value}")).collect();
    assert_eq!(given, theirs.iter().map(String::as_str).chain([path.as_str()]).collect());
    browse(&url).await;
    let output = child.wait_with_output().unwrap();
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && shown.contains("logged in at"), "{shown}");
    assert!(shown.contains(&url) && is_plain(&shown), "{shown:?}");
}
