//! The ways by which clients are connected.

use drawgate_core::model::Surface;

/// How the client is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP.
    Http,
    /// Standard input and output, through the bridge.
    Stdio,
    /// Streamable HTTP, from within the sandbox of a program that does the work of a run.
    Run,
}

/// How callers of both surfaces read an artifact.
const READ_ARTIFACT: &str = "read it with `resources/read`";
pub(crate) const OVER_HTTP: Surface = Surface::new("mcp_http", READ_ARTIFACT);
const OVER_STDIO: Surface = Surface::new("mcp_stdio", READ_ARTIFACT);

impl Transport {
    /// The surface, as the gate knows it.
    pub(crate) const fn surface(self) -> Surface {
        match self {
            Self::Http => OVER_HTTP,
            Self::Stdio => OVER_STDIO,
            Self::Run => Surface::RUN,
        }
    }
}
