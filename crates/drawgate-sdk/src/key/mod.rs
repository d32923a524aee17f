//! The SSH key that a pack or an agent proves itself with.
//!
//! It lies in a file, or in an ssh-agent that signs without ever handing it out. How a signature is
//! put together is in `sshsig`, what a login signs in [`crate::statement`].

mod agent;
mod file;
mod short;
mod sshsig;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ssh_key::{HashAlg, PublicKey};

pub use agent::AgentKey;

/// An SSH key that can sign.
///
/// ```no_run
/// use drawgate_sdk::{AgentKey, Key};
///
/// # async fn keys() -> Result<(), drawgate_sdk::KeyError> {
/// let from_file = Key::from_file("/etc/my-pack/id_ed25519")?;
/// let from_agent = Key::from_agent(AgentKey::Comment("me@laptop".to_owned())).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Key {
    public: PublicKey,
    signer: Signer,
}

#[derive(Clone)]
enum Signer {
    File(Arc<file::FileKey>),
    Agent(Arc<agent::Agent>),
}

impl Key {
    /// Reads a private key as `ssh-keygen` writes it: Ed25519, ECDSA (P-256, P-384) or RSA, without
    /// a passphrase. Keys with a passphrase and those of security keys sign through an ssh-agent:
    /// [`Key::from_agent`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        let text = file::read(path)?;
        Self::parse(&text)
            .map_err(|source| KeyError::File { path: path.to_owned(), source: Box::new(source) })
    }

    /// Reads a private key from its text, as the file would hold it.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let key = file::FileKey::parse(text)?;
        Ok(Self { public: key.public().clone(), signer: Signer::File(Arc::new(key)) })
    }

    /// Takes a key of the ssh-agent whose socket `SSH_AUTH_SOCK` names.
    pub async fn from_agent(which: AgentKey) -> Result<Self, KeyError> {
        Self::from_agent_at(agent::socket()?, which).await
    }

    /// Takes a key of the ssh-agent at `socket`.
    pub async fn from_agent_at(
        socket: impl Into<PathBuf>,
        which: AgentKey,
    ) -> Result<Self, KeyError> {
        let agent = agent::Agent::new(socket.into());
        let public = agent.choose(&which).await?;
        Ok(Self { public, signer: Signer::Agent(Arc::new(agent)) })
    }

    /// `SHA256:` and the fingerprint, as `ssh-keygen -l` shows it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        self.public.fingerprint(HashAlg::Sha256).to_string()
    }

    /// The public key in one line, as for the gateway's list of authorised keys.
    pub fn public_key(&self) -> Result<String, KeyError> {
        Ok(self.public.to_openssh()?)
    }

    /// Signs in SSHSIG form, armoured, as `ssh-keygen -Y sign -n NAMESPACE` does.
    pub async fn sign(&self, namespace: &str, message: &[u8]) -> Result<String, KeyError> {
        let data = sshsig::signed_data(namespace, message)?;
        let signature = match &self.signer {
            Signer::File(key) => key.sign(&data)?,
            Signer::Agent(agent) => agent.sign(&self.public, &data).await?,
        };
        sshsig::armoured(&self.public, namespace, &signature)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match self.signer {
            Signer::File(_) => "file",
            Signer::Agent(_) => "ssh-agent",
        };
        f.debug_struct("Key")
            .field("fingerprint", &self.fingerprint())
            .field("from", &from)
            .finish_non_exhaustive()
    }
}

/// Why there is no key, or no signature.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file can't be read.
    #[error("cannot read the key file `{path}`")]
    Read {
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Others can read the file, so that the key may be anybody's.
    #[error("others may read the key file `{path}`; run `chmod 600` on it")]
    Exposed {
        /// Where it is.
        path: PathBuf,
    },
    /// The file is there, and holds no key that can be used.
    #[error("cannot use the key file `{path}`")]
    File {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<KeyError>,
    },
    /// It is the wrong half of the pair.
    #[error("this is a public key; name the private key, or take it from an ssh-agent")]
    Public,
    /// It is in another format.
    #[error("this is no OpenSSH private key; convert it with `ssh-keygen -p -f FILE`")]
    Format,
    /// It has a passphrase.
    #[error("this key has a passphrase; add it to an ssh-agent with `ssh-add` and use that")]
    Passphrase,
    /// It can't sign from a file.
    #[error("a key of type `{0}` cannot be used from a file; use an ssh-agent")]
    Algorithm(String),
    /// The key itself is faulty.
    #[error("the key is faulty, or of a kind that is not supported")]
    Key(#[from] ssh_key::Error),
    /// `SSH_AUTH_SOCK` is not set.
    #[error("no ssh-agent: `SSH_AUTH_SOCK` is not set; start one with `eval $(ssh-agent)`")]
    NoAgent,
    /// The ssh-agent can't be talked to.
    #[error("cannot talk to the ssh-agent at `{socket}`")]
    Agent {
        /// Its socket.
        socket: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The ssh-agent said no.
    #[error(
        "the ssh-agent refused to {0}; is the agent locked, or the key in need of confirmation?"
    )]
    AgentRefused(&'static str),
    /// The ssh-agent's answer makes no sense.
    #[error("the ssh-agent's answer cannot be understood")]
    AgentAnswer,
    /// The ssh-agent holds no such key.
    #[error("the ssh-agent has no key {wanted}; it has: {found}")]
    NotInAgent {
        /// What was asked for.
        wanted: String,
        /// What it has.
        found: String,
    },
    /// The ssh-agent holds several such keys.
    #[error("the ssh-agent has more than one key {wanted}: {found}; choose one by its fingerprint")]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// What fits.
        found: String,
    },
}

impl KeyError {
    /// Whether trying again later is of no use: an ssh-agent may come back or be unlocked.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Agent { .. } | Self::AgentRefused(_) | Self::AgentAnswer => false,
            Self::Read { .. }
            | Self::Exposed { .. }
            | Self::File { .. }
            | Self::Public
            | Self::Format
            | Self::Passphrase
            | Self::Algorithm(_)
            | Self::Key(_)
            | Self::NoAgent
            | Self::NotInAgent { .. }
            | Self::Ambiguous { .. } => true,
        }
    }
}

#[cfg(test)]
#[path = "key_tests.rs"]
mod tests;
