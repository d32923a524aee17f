//! A client of the ssh-agent protocol: which keys there are, and signatures with them.
//!
//! Each question opens the socket anew, so an agent that was restarted at the same place is found.

use std::fmt;
use std::io;
use std::path::PathBuf;

use ssh_key::{Algorithm, HashAlg, PublicKey};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::{KeyError, sshsig};

const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
/// The flag `SSH_AGENT_RSA_SHA2_512`; without it an RSA key would sign with SHA-1.
const RSA_SHA2_512: u32 = 4;
/// OpenSSH's own limit on an agent's messages.
const MAX_ANSWER: u32 = 256 * 1024;

/// Which key of an ssh-agent is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentKey {
    /// The only one it has.
    Only,
    /// The one whose public key is in this file.
    PublicKeyFile(PathBuf),
    /// The one with this fingerprint, such as `SHA256:…`.
    Fingerprint(String),
    /// The one with this comment.
    Comment(String),
}

impl fmt::Display for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => f.write_str("to choose without being told which"),
            Self::PublicKeyFile(path) => write!(f, "as in `{}`", path.display()),
            Self::Fingerprint(fingerprint) => write!(f, "with the fingerprint `{fingerprint}`"),
            Self::Comment(comment) => write!(f, "with the comment `{comment}`"),
        }
    }
}

/// Where `SSH_AUTH_SOCK` says the ssh-agent is.
#[expect(clippy::disallowed_methods, reason = "every ssh program finds its agent by this variable")]
pub(super) fn socket() -> Result<PathBuf, KeyError> {
    std::env::var_os("SSH_AUTH_SOCK")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .ok_or(KeyError::NoAgent)
}

pub(super) struct Agent {
    socket: PathBuf,
}

impl Agent {
    pub(super) const fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// The one key that is meant.
    pub(super) async fn choose(&self, which: &AgentKey) -> Result<PublicKey, KeyError> {
        let all = self.identities().await?;
        let wanted = wanted(which)?;
        let fitting: Vec<_> = all.iter().filter(|key| wanted(key)).collect();
        match fitting.as_slice() {
            [key] => Ok((*key).clone()),
            [] => Err(KeyError::NotInAgent { wanted: which.to_string(), found: described(&all) }),
            [_, _, ..] => {
                let found = described(fitting);
                Err(KeyError::Ambiguous { wanted: which.to_string(), found })
            }
        }
    }

    /// The signature over `data` in SSH's form, as the agent gives it.
    pub(super) async fn sign(&self, public: &PublicKey, data: &[u8]) -> Result<Vec<u8>, KeyError> {
        let flags =
            if matches!(public.algorithm(), Algorithm::Rsa { .. }) { RSA_SHA2_512 } else { 0 };
        let mut request = vec![SIGN_REQUEST];
        sshsig::put(&mut request, &public.to_bytes()?)?;
        sshsig::put(&mut request, data)?;
        request.extend(flags.to_be_bytes());
        let answer = self.ask(&request).await?;
        let (SIGN_RESPONSE, mut rest) = kind(&answer)? else {
            return Err(KeyError::AgentRefused("sign"));
        };
        sshsig::take(&mut rest).map(<[u8]>::to_vec).ok_or(KeyError::AgentAnswer)
    }

    /// All keys that could log in; certificates and kinds that are not known are left out.
    async fn identities(&self) -> Result<Vec<PublicKey>, KeyError> {
        let answer = self.ask(&[REQUEST_IDENTITIES]).await?;
        let (IDENTITIES_ANSWER, mut rest) = kind(&answer)? else {
            return Err(KeyError::AgentRefused("list its keys"));
        };
        let count = sshsig::take_number(&mut rest).ok_or(KeyError::AgentAnswer)?;
        let mut keys = Vec::new();
        for _ in 0..count {
            let blob = sshsig::take(&mut rest).ok_or(KeyError::AgentAnswer)?;
            let comment = sshsig::take(&mut rest).ok_or(KeyError::AgentAnswer)?;
            if let Ok(mut key) = PublicKey::from_bytes(blob)
                && key.key_data().other().is_none()
            {
                key.set_comment(String::from_utf8_lossy(comment));
                keys.push(key);
            }
        }
        Ok(keys)
    }

    async fn ask(&self, request: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |source| KeyError::Agent { socket: self.socket.clone(), source };
        self.exchange(request).await.map_err(failed)
    }

    async fn exchange(&self, request: &[u8]) -> io::Result<Vec<u8>> {
        let length = u32::try_from(request.len()).map_err(io::Error::other)?;
        let mut stream = UnixStream::connect(&self.socket).await?;
        stream.write_all(&[&length.to_be_bytes(), request].concat()).await?;
        let length = stream.read_u32().await?;
        if length > MAX_ANSWER {
            return Err(io::Error::other("its answer is too long"));
        }
        let mut answer = Vec::new();
        stream.take(u64::from(length)).read_to_end(&mut answer).await?;
        Ok(answer)
    }
}

fn kind(answer: &[u8]) -> Result<(u8, &[u8]), KeyError> {
    answer.split_first().map(|(kind, rest)| (*kind, rest)).ok_or(KeyError::AgentAnswer)
}

type Wanted = Box<dyn Fn(&PublicKey) -> bool + Send>;

fn wanted(which: &AgentKey) -> Result<Wanted, KeyError> {
    Ok(match which {
        AgentKey::Only => Box::new(|_| true),
        AgentKey::PublicKeyFile(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| KeyError::Read { path: path.clone(), source })?;
            let wanted = PublicKey::from_openssh(text.trim()).map_err(|source| KeyError::File {
                path: path.clone(),
                source: Box::new(source.into()),
            })?;
            Box::new(move |key| key.key_data() == wanted.key_data())
        }
        AgentKey::Fingerprint(fingerprint) => {
            let fingerprint = fingerprint.trim_end_matches('=').to_owned();
            Box::new(move |key| key.fingerprint(HashAlg::Sha256).to_string() == fingerprint)
        }
        AgentKey::Comment(comment) => {
            let comment = comment.clone();
            Box::new(move |key| key.comment() == comment)
        }
    })
}

fn described<'a>(keys: impl IntoIterator<Item = &'a PublicKey>) -> String {
    let lines: Vec<_> = keys
        .into_iter()
        .map(|key| format!("`{}` ({})", key.fingerprint(HashAlg::Sha256), key.comment()))
        .collect();
    if lines.is_empty() { "none".to_owned() } else { lines.join(", ") }
}
