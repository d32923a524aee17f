use std::collections::BTreeMap;
use std::sync::Mutex;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response as Answer;

use super::*;
use crate::toolpacks::Code;
use crate::toolpacks::testing::{COMMIT, OTHER_COMMIT, Tar, TestFolder, pinned};
use crate::toolpacks::testing::{INSTALL, code};

const TOKEN: &str = "ghp_not_to_be_seen";

/// A status, headers and a body.
type Prepared = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// What a stand-in of GitHub was asked, and what it answers by path.
#[derive(Default)]
struct Server {
    answers: BTreeMap<String, Prepared>,
    asked: Mutex<Vec<String>>,
}

impl Server {
    fn answer(mut self, path: &str, status: u16, body: impl Into<Vec<u8>>) -> Self {
        self.answers.insert(path.to_owned(), (status, Vec::new(), body.into()));
        self
    }

    fn header(mut self, path: &str, name: &'static str, value: &str) -> Self {
        self.answers.get_mut(path).unwrap().1.push((name, value.to_owned()));
        self
    }

    async fn start(self) -> (String, Arc<Self>) {
        let server = Arc::new(self);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&server));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (address, server)
    }

    /// The paths that were asked for, each with the token that came along.
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn answer(State(server): State<Arc<Server>>, request: Request) -> Answer<Body> {
    let header = |name| request.headers().get(name).map_or("", |value| value.to_str().unwrap());
    let path = request.uri().path().to_owned();
    server.asked.lock().unwrap().push(format!("{path} {}", header("authorization")));
    assert!(header("user-agent").starts_with("drawgate/"));
    let Some((status, headers, body)) = server.answers.get(&path) else {
        return Answer::builder().status(404).body(Body::empty()).unwrap();
    };
    let answer = headers.iter().fold(Answer::builder().status(*status), |answer, (name, value)| {
        answer.header(*name, value)
    });
    answer.body(Body::from(body.clone())).unwrap()
}

fn github(api: &str, archive: &str, token: Option<&str>) -> Github {
    let environment: BTreeMap<String, String> =
        token.map(|token| ("GITHUB_TOKEN".to_owned(), token.to_owned())).into_iter().collect();
    Github::new(Arc::new(Egress::new()), &Secrets::new(environment), api, archive).unwrap()
}

fn source(text: &str) -> GithubSource {
    text.parse().unwrap()
}

const MAIN: &str = "/repos/owner/repo/commits/main";

/// The error of asking for `main`.
async fn refused(server: Server, token: Option<&str>) -> String {
    let (address, _) = server.start().await;
    let error = github(&address, &address, token).resolve(&source("owner/repo")).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(TOKEN));
    error.to_string()
}

#[tokio::test]
async fn a_reference_becomes_a_commit() {
    let (address, server) = Server::default()
        .answer(MAIN, 200, format!("{COMMIT}\n"))
        .answer("/repos/owner/repo/commits/a/b%2B1", 200, format!("{{\"sha\":\"{OTHER_COMMIT}\"}}"))
        .start()
        .await;
    let github = github(&format!("{address}/"), &address, None);
    assert_eq!(github.resolve(&source("owner/repo")).await.unwrap(), pinned("main", COMMIT));
    let other = github.resolve(&source("owner/repo@a/b+1")).await.unwrap();
    assert_eq!(other.commit, OTHER_COMMIT);
    let whole = github.resolve(&source(&format!("owner/repo@{COMMIT}"))).await.unwrap();
    assert_eq!(whole.commit, COMMIT);
    assert_eq!(server.asked().len(), 2, "a whole commit id means itself");
}

#[tokio::test]
async fn the_beginning_of_a_commit_is_no_name() {
    let path = "/repos/owner/repo/commits/0123";
    let (address, _) = Server::default().answer(path, 200, COMMIT).start().await;
    let github = github(&address, &address, None);
    let error = github.resolve(&source("owner/repo@0123")).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Ref));
}

#[tokio::test]
async fn answers_that_make_no_sense() {
    for body in ["", "{}", "main", "[]", "{\"sha\":\"abc\"}", "{\"sha\":\"../../../../etc\"}"] {
        let message = refused(Server::default().answer(MAIN, 200, body), None).await;
        assert!(message.contains("can't be understood"), "{body}: {message}");
    }
}

#[tokio::test]
async fn refusals_are_explained() {
    let limited = |status| {
        Server::default()
            .answer(MAIN, status, "")
            .header(MAIN, "x-ratelimit-remaining", "0")
            .header(MAIN, "x-ratelimit-reset", "1794738030")
    };
    let later = Server::default().answer(MAIN, 429, "").header(MAIN, "retry-after", "60");
    for (server, token, expected) in [
        (
            Server::default(),
            None,
            "knows no `owner/repo@main`; check the spelling; if it is private, set `GITHUB_TOKEN`",
        ),
        (Server::default(), Some(TOKEN), "whether the token in `GITHUB_TOKEN` may read it"),
        (
            Server::default().answer(MAIN, 422, "No commit found"),
            None,
            "knows no `owner/repo@main`",
        ),
        (limited(403), None, "until 2026-11-15 10:20:30Z; try again then, or set `GITHUB_TOKEN`"),
        (limited(429), Some(TOKEN), "until 2026-11-15 10:20:30Z; try again then"),
        (later, None, "for 60 seconds"),
        (Server::default().answer(MAIN, 403, ""), None, "status 403"),
        (Server::default().answer(MAIN, 401, ""), Some(TOKEN), "renew or unset it"),
        (Server::default().answer(MAIN, 502, ""), None, "status 502"),
        (
            Server::default().answer(MAIN, 301, "").header(
                MAIN,
                "location",
                "https://elsewhere.example/",
            ),
            None,
            "has moved",
        ),
    ] {
        let message = refused(server, token).await;
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn the_token_goes_to_the_configured_addresses_alone() {
    let path = format!("/owner/repo/tar.gz/{COMMIT}");
    let (elsewhere, other) = Server::default().start().await;
    let (api, asked) = Server::default().answer(MAIN, 200, COMMIT).start().await;
    let (archive, fetched) = Server::default()
        .answer(&path, 302, "")
        .header(&path, "location", &format!("{elsewhere}/x"))
        .start()
        .await;
    let github = github(&api, &archive, Some(TOKEN));
    let pinned = github.resolve(&source("owner/repo")).await.unwrap();
    assert!(github.download(&pinned, &|_| {}).await.is_err());
    assert_eq!(asked.asked(), [format!("{MAIN} Bearer {TOKEN}")]);
    assert_eq!(fetched.asked(), [format!("{path} Bearer {TOKEN}")]);
    assert!(other.asked().is_empty());
}

#[test]
fn addresses() {
    let read = |text| Base::read(text).map(drop);
    for good in
        ["https://api.github.com", "http://127.0.0.1:8080/api/v3/", "https://ghe.example:8443"]
    {
        read(good).unwrap();
    }
    for bad in ["", "api.github.com", "ftp://x", "https://user:pass@x", "https://x?y", "file:///x"]
    {
        assert!(matches!(read(bad), Err(RemoteError::Address(_))), "{bad}");
    }
}

#[tokio::test]
async fn an_archive_comes_with_progress_and_is_installed() {
    let path = format!("/owner/repo/tar.gz/{COMMIT}");
    let archive = Tar::pack().packed();
    let length = u64::try_from(archive.len()).unwrap();
    let (address, _) =
        Server::default().answer(MAIN, 200, COMMIT).answer(&path, 200, archive).start().await;
    let github = github(&address, &address, None);
    let pinned = github.resolve(&source("owner/repo")).await.unwrap();
    let seen = Mutex::new(Vec::new());
    let download = github.download(&pinned, &|progress| seen.lock().unwrap().push(progress)).await;
    let last = seen.lock().unwrap().last().copied();
    assert_eq!(last, Some(Progress { bytes: length, total: Some(length) }));
    let fixture = TestFolder::new();
    let staged = fixture.folder.stage_archive(&download.unwrap(), &INSTALL).unwrap();
    let entry = fixture.folder.commit(staged).unwrap().entry.unwrap();
    assert_eq!(entry.commit.as_deref(), Some(COMMIT));
    assert_eq!(entry.source, "github:owner/repo");
}

#[tokio::test]
async fn another_archive_for_the_same_commit_is_refused() {
    let path = format!("/owner/repo/tar.gz/{COMMIT}");
    let fixture = TestFolder::new();
    let fetch = |tar: Tar| {
        let path = path.clone();
        async move {
            let (address, _) = Server::default().answer(&path, 200, tar.packed()).start().await;
            let github = github(&address, &address, None);
            github.download(&pinned("main", COMMIT), &|_| {}).await.unwrap()
        }
    };
    let staged = fixture.folder.stage_archive(&fetch(Tar::pack()).await, &INSTALL).unwrap();
    fixture.folder.commit(staged).unwrap();
    let other = fetch(Tar::pack().file("more.txt")).await;
    assert_eq!(code(fixture.folder.stage_archive(&other, &INSTALL)), Some(Code::Pin));
}

#[tokio::test]
async fn a_large_archive_is_not_read() {
    let path = format!("/owner/repo/tar.gz/{COMMIT}");
    let (address, _) = Server::default().answer(&path, 200, vec![0; MAX_ARCHIVE + 1]).start().await;
    let github = github(&address, &address, None);
    let error = github.download(&pinned("main", COMMIT), &|_| {}).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Limit));
}

#[tokio::test]
async fn a_packed_archive_is_not_taken() {
    let path = format!("/owner/repo/tar.gz/{COMMIT}");
    let (address, _) = Server::default()
        .answer(&path, 200, Tar::pack().packed())
        .header(&path, "content-encoding", "gzip")
        .start()
        .await;
    let github = github(&address, &address, None);
    let error = github.download(&pinned("main", COMMIT), &|_| {}).await.unwrap_err();
    assert!(matches!(error, RemoteError::Answer(_)), "{error:?}");
}
