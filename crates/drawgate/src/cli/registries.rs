//! Where package runners download from: what the user's own npm, uv and pip are configured for. No
//! registry is known here by name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use drawgate_host::process::Spawn;
use drawgate_host::sandbox::Profile;
use drawgate_runtime::config::{PackageRunner, Registry};
use drawgate_runtime::operations::ServerReport;
use tokio::io::AsyncReadExt as _;

use super::machine;
use super::servers::table::NewServer;

/// How long npm may take to say what it is configured for.
const ASKING: Duration = Duration::from_secs(15);
/// The longest answer that is read.
const MAX_ANSWER: u64 = 4096;

/// Variables that say which index uv and pip use, the first that is set wins.
const INDEX_VARIABLES: [&str; 3] = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"];
/// The files that say it, below the home folder.
const INDEX_FILES: [&str; 4] = [
    ".config/uv/uv.toml",
    ".config/pip/pip.conf",
    ".pip/pip.conf",
    "Library/Application Support/pip/pip.conf",
];
/// What begins the line in them.
const INDEX_KEYS: [&str; 2] = ["index-url", "default-index"];

/// The variables that name further certificate authorities, by who reads them.
const NODE_AUTHORITIES: &str = "NODE_EXTRA_CA_CERTS";
const AUTHORITIES: &str = "SSL_CERT_FILE";
/// Folders that every sandboxed program can read.
const READABLE: [&str; 2] = ["/etc/ssl/", "/usr/"];
/// The first start has to download.
const START_SECONDS: i64 = 120;

/// What a server needs to reach a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Access {
    hosts: Vec<String>,
    env: Vec<(String, String)>,
    read: Vec<String>,
}

impl Access {
    /// What the user's own programs are configured for; every public host if they don't say.
    pub(super) async fn to(runner: PackageRunner) -> Self {
        let (access, authorities) = match runner.registry {
            Registry::Npm => {
                (Self::at(npm_registry().await, &["npm_config_registry"]), NODE_AUTHORITIES)
            }
            Registry::Python => {
                (Self::at(python_index(), &["UV_DEFAULT_INDEX", "PIP_INDEX_URL"]), AUTHORITIES)
            }
        };
        access.trusting(authorities, machine::variable(authorities))
    }

    /// The same, for a registry whose certificate only a file of the user's vouches for.
    fn trusting(mut self, variable: &str, file: Option<String>) -> Self {
        if let Some(file) = file {
            if !READABLE.iter().any(|folder| file.starts_with(folder)) {
                self.read.push(file.clone());
            }
            self.env.push((variable.to_owned(), file));
        }
        self
    }

    fn at(url: Option<String>, variables: &[&str]) -> Self {
        let known = url.and_then(|url| Some((host_of(&url)?, url)));
        match known {
            None => Self { hosts: vec!["*".to_owned()], env: Vec::new(), read: Vec::new() },
            Some((host, url)) => Self {
                hosts: vec![host],
                env: variables.iter().map(|&name| (name.to_owned(), url.clone())).collect(),
                read: Vec::new(),
            },
        }
    }

    /// What to paste, in words.
    pub(super) fn advice(&self, name: &str) -> String {
        format!("it works with these lines in `[servers.{name}]`:\n{}", self.lines())
    }

    /// The lines for the server's table.
    fn lines(&self) -> String {
        let mut server = NewServer { name: "x".to_owned(), ..NewServer::default() };
        self.open(&mut server);
        let text = server.text().unwrap_or_default();
        text.lines().skip(1).map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    }

    /// Opens the way for a server.
    pub(super) fn open(&self, server: &mut NewServer) {
        server.sandbox = Some(Profile::Network);
        server.start_seconds = Some(START_SECONDS);
        add_missing(&mut server.hosts, &self.hosts);
        add_missing(&mut server.read, &self.read);
        for (name, text) in &self.env {
            if !server.env.iter().any(|(present, _)| present == name) {
                server.env.push((name.clone(), text.clone()));
            }
        }
    }
}

fn add_missing(all: &mut Vec<String>, more: &[String]) {
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

/// What to paste so that a server which is a package runner can download, if that is what it lacks.
pub(super) async fn advice(server: &ServerReport) -> Option<String> {
    let status = &server.source.status;
    let runner = PackageRunner::in_reason(status.problem.as_deref()?)?;
    Some(Access::to(runner).await.advice(status.id.as_str()))
}

/// What npm says about itself: it reads its files and variables as it will in earnest.
async fn npm_registry() -> Option<String> {
    let host = machine::host().ok()?;
    let args = ["config", "get", "registry"].map(str::to_owned).to_vec();
    let mut child =
        host.start(&Spawn { program: "npm".to_owned(), args, ..Spawn::default() }).await.ok()?;
    let mut answer = String::new();
    let output = child.take_stdout()?;
    let read = async {
        output.take(MAX_ANSWER).read_to_string(&mut answer).await.ok()?;
        child.wait().await.ok()
    };
    tokio::time::timeout(ASKING, read).await.ok()??;
    Some(answer.trim().to_owned())
}

fn python_index() -> Option<String> {
    let variables = INDEX_VARIABLES.iter().find_map(|name| machine::variable(name));
    variables.or_else(|| {
        let home = machine::secrets().home()?;
        let files = INDEX_FILES.iter().map(|file| home.join(file));
        files.chain([PathBuf::from("/etc/pip.conf")]).find_map(|file| index_in(&file))
    })
}

fn index_in(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (key, url) = line.split_once('=')?;
        let is_index = INDEX_KEYS.contains(&key.trim());
        is_index.then(|| url.trim().trim_matches('"').to_owned())
    })
}

/// The host of an address as `permissions.hosts` has it. An address with a password stays out of the
/// configuration.
fn host_of(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    let authority = uri.authority().filter(|it| !it.as_str().contains('@'))?;
    matches!(uri.scheme_str(), Some("http" | "https")).then(|| authority.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_open_the_way_to_the_registry_alone() {
        let known = Some("https://packages.example:8443/npm/".to_owned());
        let access = Access::at(known, &["npm_config_registry"]);
        assert_eq!(
            access.advice("a"),
            "it works with these lines in `[servers.a]`:\n  \
             sandbox = \"network\"\n  \
             env = { npm_config_registry = \"https://packages.example:8443/npm/\" }\n  \
             permissions = { hosts = [\"packages.example:8443\"] }\n  \
             start_timeout_seconds = 120"
        );
        access.lines().parse::<toml::Table>().unwrap();
        for unknown in
            [None, Some("https://u:p@packages.example/"), Some("undefined"), Some("file:///x")]
        {
            let access = Access::at(unknown.map(str::to_owned), &["X"]);
            assert_eq!((access.hosts, access.env), (vec!["*".to_owned()], Vec::new()));
        }
        let file = |file: &str| Access::at(None, &[]).trusting("CA", Some(file.to_owned()));
        assert_eq!(file("/etc/ssl/x.pem").read, Vec::<String>::new());
        assert_eq!(file("/home/ada/x.pem").read, ["/home/ada/x.pem"]);
    }

    #[test]
    fn the_index_is_found_in_files_of_uv_and_pip() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        for (text, expected) in [
            ("[global]\nindex-url = https://i.example/simple\n", Some("https://i.example/simple")),
            ("index-url = \"https://i.example/simple\"\n", Some("https://i.example/simple")),
            ("[global]\ncert = x\n", None),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(index_in(&file).as_deref(), expected, "{text}");
        }
    }
}
