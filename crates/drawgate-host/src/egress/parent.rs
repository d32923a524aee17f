//! A proxy of the operator's, behind which the internet is, for programs in sandboxes: what they may reach is
//! decided here, and then asked of it by `CONNECT`. It resolves names itself.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::secret::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::CONNECT_TIMEOUT;
use super::network::{DialError, Network, Scope, dial};

/// The longest head of an answer.
const MAX_ANSWER: usize = 8 * 1024;

/// Where such a proxy is, and what is reached without it.
#[derive(Debug, Clone)]
pub struct ParentProxy {
    host: String,
    port: u16,
    authorization: Option<Secret<String>>,
    direct: Vec<String>,
}

impl ParentProxy {
    /// A proxy that speaks plain HTTP.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, authorization: None, direct: Vec::new() }
    }

    /// The same, with a login.
    #[must_use]
    pub fn with_login(self, user: &str, password: &str) -> Self {
        let login = STANDARD.encode(format!("{user}:{password}"));
        Self { authorization: Some(Secret::new(format!("Basic {login}"))), ..self }
    }

    /// The same, without these hosts, as the variable `NO_PROXY` lists them.
    #[must_use]
    pub fn without(self, hosts: &str) -> Self {
        let hosts = hosts.split(',').map(|host| host.trim().to_ascii_lowercase());
        Self { direct: hosts.filter(|host| !host.is_empty()).collect(), ..self }
    }

    /// Whether a host is reached through it: not this machine, and none that was left out.
    pub(super) fn is_for(&self, host: &str) -> bool {
        let is_here = host == "localhost"
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let is_left_out = |left_out: &String| {
            let name = left_out.trim_start_matches('*').trim_start_matches('.');
            left_out == "*"
                || host == name
                || host.strip_suffix(name).is_some_and(|head| head.ends_with('.'))
        };
        !is_here && !self.direct.iter().any(is_left_out)
    }

    /// A connection to a host and port behind it.
    pub(super) async fn dial(
        &self,
        network: &Arc<dyn Network>,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, DialError> {
        let mut stream = dial(network, &self.host, self.port, Scope::Anywhere).await?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let login = self.authorization.as_ref().map_or_else(String::new, |login| {
            format!("Proxy-Authorization: {}\r\n", login.expose())
        });
        let request =
            format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{login}\r\n");
        let failed = |reason: String| DialError::Failed(format!("the proxy: {reason}"));
        let asked = async {
            stream.write_all(request.as_bytes()).await?;
            answer(&mut stream).await
        };
        let said = timeout(CONNECT_TIMEOUT, asked).await.map_err(|_| DialError::Slow)?;
        let said = said.map_err(|error| failed(error.to_string()))?;
        let status = said.split_whitespace().nth(1).unwrap_or_default();
        if said.starts_with("HTTP/1.") && status.starts_with('2') {
            return Ok(stream);
        }
        Err(failed(format!("it answers {}", status.escape_debug())))
    }
}

/// The head of an answer. What follows belongs to the host behind the proxy, so it is read no further.
async fn answer(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_ANSWER {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_were_left_out_are_reached_directly() {
        let proxy = ParentProxy::new("proxy.example", 3128).without("corp.example, .lan,10.0.0.1");
        for (host, expected) in [
            ("registry.example", true),
            ("corp.example", false),
            ("npm.corp.example", false),
            ("othercorp.example", true),
            ("npm.lan", false),
            ("10.0.0.1", false),
            ("10.0.0.11", true),
            ("127.0.0.1", false),
            ("localhost", false),
        ] {
            assert_eq!(proxy.is_for(host), expected, "{host}");
        }
        assert!(!proxy.without("*").is_for("registry.example"));
    }
}
