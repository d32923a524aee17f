//! What the two sides of a login sign. Both must come to the same bytes.

use std::fmt;

/// The SSHSIG namespace of a login.
pub const LOGIN_NAMESPACE: &str = "drawgate-login";
/// The SSHSIG namespace of the gateway's own proof.
pub const SERVER_NAMESPACE: &str = "drawgate-server";
/// The metadata that carries the session after a login.
pub const SESSION_METADATA: &str = "drawgate-session";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// To offer tools.
    Pack,
    /// To call them.
    Agent,
}

impl Purpose {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Pack, Self::Agent];

    /// As in a statement and in the list of authorised keys.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Agent => "agent",
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a pack or an agent signs to prove who it is, here and now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginStatement<'a> {
    /// What the connection is for.
    pub purpose: Purpose,
    /// The pack's id or the agent's name.
    pub name: &'a str,
    /// The gateway's identity.
    pub server: &'a str,
    /// The host and port that were dialled.
    pub authority: &'a str,
    /// From the gateway's challenge.
    pub nonce: &'a str,
}

impl<'a> LoginStatement<'a> {
    /// Reads a statement; `None` if it is not exactly one.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next()? != "drawgate-login-v1" {
            return None;
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix('=');
        let purpose = field("purpose")?;
        let statement = Self {
            purpose: Purpose::ALL.into_iter().find(|known| known.as_str() == purpose)?,
            name: field("name")?,
            server: field("server")?,
            authority: field("authority")?,
            nonce: field("nonce")?,
        };
        lines.next().is_none().then_some(statement)
    }
}

impl fmt::Display for LoginStatement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { purpose, name, server, authority, nonce } = self;
        write!(
            f,
            "drawgate-login-v1\npurpose={purpose}\nname={name}\nserver={server}\nauthority={authority}\nnonce={nonce}\n"
        )
    }
}

/// What the gateway signs to prove that it is the one that is meant.
#[must_use]
pub fn server_statement(authority: &str, nonce: &str, client_nonce: &str) -> String {
    format!(
        "drawgate-server-v1\nauthority={authority}\nnonce={nonce}\nclient_nonce={client_nonce}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> LoginStatement<'static> {
        LoginStatement {
            purpose: Purpose::Pack,
            name: "file-tools",
            server: "SHA256:abc",
            authority: "127.0.0.1:7700",
            nonce: "n",
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = statement().to_string();
        assert_eq!(LoginStatement::parse(&text), Some(statement()));
    }

    #[test]
    fn nothing_but_a_statement_is_read() {
        let text = statement().to_string();
        let bad = [
            text.trim_end().to_owned(),
            format!("{text}\n"),
            format!("{text}extra=1\n"),
            text.replace("purpose=pack", "purpose=root"),
            text.replace('\n', "\r\n"),
            text.replace("v1", "v2"),
            text.replace("name=", "Name="),
            String::new(),
        ];
        for text in bad {
            assert_eq!(LoginStatement::parse(&text), None, "{text:?}");
        }
    }
}
