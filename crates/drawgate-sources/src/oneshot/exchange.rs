//! One message to a program that is started for it, or to an address, and its answer.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use drawgate_core::model::shown_name;
use drawgate_core::source::SourceError;
use drawgate_host::Host;
use drawgate_host::process::Spawn;

use super::{http, stdio};
use crate::confine::profile;
use crate::kind::ConfigError;
use crate::server::{Address, Endpoint, ServerConfig};

/// What is sent messages, one at a time.
pub struct Exchange {
    host: Arc<Host>,
    target: Target,
}

enum Target {
    Program(Spawn),
    Http(Address),
}

/// What it means that there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// That it failed.
    Fails,
    /// That there is nothing to say, if a program ends with success.
    Passes,
}

/// What came back.
pub struct Reply {
    /// The answer.
    pub body: Bytes,
    /// The HTTP status, if it says that the address did not do what was asked.
    pub refused: Option<u16>,
}

impl Reply {
    /// What is wrong with an answer that is refused by its status.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        self.refused.map(|status| format!("the address answered with HTTP {status}"))
    }
}

impl Exchange {
    /// An exchange with a server as configured.
    pub fn new(server: ServerConfig, host: &Arc<Host>) -> Result<Self, ConfigError> {
        let target = match server.endpoint(&host.secrets)? {
            Endpoint::Program(spawn) => Target::Program(spawn),
            Endpoint::Http(address) => Target::Http(address),
            Endpoint::Sse(_) | Endpoint::Websocket(_) => {
                return Err(ConfigError::value("transport", "use `stdio` or `streamable_http`"));
            }
        };
        Ok(Self { host: Arc::clone(host), target })
    }

    /// Sends a message and waits for the answer. Dropping the future ends the program.
    pub async fn send(
        &self,
        message: Vec<u8>,
        deadline: Instant,
        silence: Silence,
    ) -> Result<Reply, SourceError> {
        match &self.target {
            Target::Program(spawn) => {
                let body = stdio::perform(&self.host, spawn, &message, silence).await?.into();
                Ok(Reply { body, refused: None })
            }
            Target::Http(address) => http::perform(&self.host, address, message, deadline).await,
        }
    }

    /// Whether it is there, as far as can be told without a message.
    pub async fn check(&self) -> Result<(), SourceError> {
        match &self.target {
            Target::Http(target) => http::check(&self.host, target).await,
            Target::Program(spawn) => match self.host.processes.find(&spawn.program) {
                Some(_) => Ok(()),
                None => Err(SourceError::unreachable(format!(
                    "the program `{}` is not there",
                    shown_name(&spawn.program)
                ))),
            },
        }
    }

    /// The sandbox profile of a program.
    #[must_use]
    pub fn confinement(&self) -> Option<&'static str> {
        match &self.target {
            Target::Program(spawn) => Some(profile(spawn).as_str()),
            Target::Http(_) => None,
        }
    }
}
