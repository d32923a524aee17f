//! A stand-in for GitHub: references that mean commits, and archives of commits.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, StatusCode, Uri};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::TestFolder;

#[derive(Default)]
struct Served {
    answers: Mutex<BTreeMap<String, Vec<u8>>>,
    refusal: Mutex<Option<(StatusCode, HeaderMap)>>,
    tokens: Mutex<Vec<String>>,
}

/// A server of files at fixed paths.
pub(super) struct FileServer {
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
    served: Arc<Served>,
    serving: JoinHandle<()>,
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Serves these texts at these paths.
pub(super) async fn serve(files: Vec<(&str, String)>) -> FileServer {
    let file_server = FileServer::start().await;
    for (path, text) in files {
        file_server.put(path, text.into_bytes());
    }
    file_server
}

impl FileServer {
    pub(super) async fn start() -> Self {
        let served = Arc::<Served>::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&served));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, served, serving }
    }

    /// A configuration that takes this for GitHub.
    pub(super) fn config(&self) -> String {
        let address = &self.address;
        format!(
            "[toolpacks]\ngithub_api = \"http://{address}\"\ngithub_archive = \"http://{address}\"\n"
        )
    }

    /// From now on, a reference of `octo/pack` means a commit with this pack in it.
    pub(super) fn publish(&self, reference: &str, commit: &str, manifest: &Value) {
        self.publish_archive(reference, commit, archive(commit, manifest));
    }

    /// The same, with whatever is said to be its archive.
    pub(super) fn publish_archive(&self, reference: &str, commit: &str, archive: Vec<u8>) {
        self.put(&format!("/repos/octo/pack/commits/{reference}"), commit.as_bytes().to_vec());
        self.put(&format!("/octo/pack/tar.gz/{commit}"), archive);
    }

    /// Refuses everything like this.
    pub(super) fn refuse(&self, status: StatusCode, headers: &[(&'static str, &str)]) {
        let headers = headers.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap())
        });
        *self.served.refusal.lock() = Some((status, headers.collect()));
    }

    /// The credentials that it was sent.
    pub(super) fn tokens(&self) -> Vec<String> {
        self.served.tokens.lock().clone()
    }

    fn put(&self, path: &str, body: Vec<u8>) {
        self.served.answers.lock().insert(path.to_owned(), body);
    }
}

async fn answer(State(served): State<Arc<Served>>, uri: Uri, headers: HeaderMap) -> Response {
    if let Some(token) = headers.get("authorization") {
        served.tokens.lock().push(token.to_str().unwrap().to_owned());
    }
    if let Some(refusal) = served.refusal.lock().clone() {
        return refusal.into_response();
    }
    match served.answers.lock().get(uri.path()) {
        Some(body) => body.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// An archive as GitHub makes them: one folder at the top, and the commit in a global header.
pub(super) fn archive(commit: &str, manifest: &Value) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let comment = format!("52 comment={commit}\n");
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::XGlobalHeader);
    header.set_size(u64::try_from(comment.len()).unwrap());
    header.set_mode(0o644);
    tar.append_data(&mut header, "pax_global_header", comment.as_bytes()).unwrap();
    let files = [
        ("toolpack.json", serde_json::to_vec_pretty(manifest).unwrap()),
        ("README.md", b"A pack.\n".to_vec()),
        ("data/large.txt", "line\n".repeat(20_000).into_bytes()),
    ];
    for (name, body) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(u64::try_from(body.len()).unwrap());
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("pack-{commit}/{name}"), body.as_slice()).unwrap();
    }
    let mut gzip = tar.into_inner().unwrap();
    gzip.flush().unwrap();
    gzip.finish().unwrap()
}

/// A commit id that consists of one digit.
pub(super) fn commit(digit: char) -> String {
    digit.to_string().repeat(40)
}

/// What the lock file says about a pack.
pub(super) fn locked(place: &TestFolder, id: &str) -> Value {
    let text = std::fs::read(place.path().join("drawgate.lock")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["toolpacks"][id].clone()
}
