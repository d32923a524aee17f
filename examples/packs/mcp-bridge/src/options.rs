//! The command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{ArgGroup, Parser};
use drawgate_sdk::{AgentKey, Gateway, Key};

const EXAMPLES: &str = "\
Examples:
  A server that is a program, with a key of its own:
    ssh-keygen -t ed25519 -N '' -f fs-key
    drawgate keys add --pack files --tools 'fs_*' fs-key.pub
    drawgate-mcp-bridge --pack-id files --key fs-key --prefix fs_ \\
        --capability filesystem --tool-capability write_file=destructive \\
        -- npx -y @modelcontextprotocol/server-filesystem /srv/data

  A server that is elsewhere, with a key in an ssh-agent, to a gateway that is elsewhere too:
    drawgate-mcp-bridge --pack-id search --agent me@laptop --url https://mcp.example.com/mcp \\
        --gateway https://tools.example.com --server-identity SHA256:…

The tools of the pack are those of the server. When the server's list changes, the pack registers anew;
when the server dies, the tools go and the server is started again. Progress and cancellation reach both
ends.";

/// Offers the tools of any MCP server as a Drawgate pack.
///
/// The server is a program that speaks MCP on its standard input and output, written after `--`, or
/// one that is reached by streamable HTTP at `--url`.
#[derive(Debug, Parser)]
#[command(name = "drawgate-mcp-bridge", version, after_long_help = EXAMPLES)]
#[command(group = ArgGroup::new("server").required(true).args(["url", "command"]))]
#[command(group = ArgGroup::new("signer").required(true).args(["key", "agent"]))]
pub(crate) struct Options {
    /// The pack's id: the name that the gateway knows the key by
    #[arg(long, value_name = "ID")]
    pub(crate) pack_id: String,

    /// Where the gateway is; `http://` on this machine, `https://` elsewhere
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7700", env = "DRAWGATE_URL")]
    gateway: String,

    /// The gateway's identity, as `drawgate keys server` prints it; no other gateway is accepted
    #[arg(long, value_name = "SHA256:…")]
    server_identity: Option<String>,

    /// Certificates to trust for the gateway (PEM) instead of the system's
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// Allow `http://` to a gateway on another machine, on a network that encrypts by itself
    #[arg(long)]
    allow_plaintext: bool,

    /// The private SSH key to log in with, without a passphrase
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Log in with a key of the ssh-agent: its fingerprint, its comment or its `.pub` file; nothing if it has only one
    #[arg(long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "")]
    agent: Option<String>,

    /// Put before the name of each tool, such as `fs_`
    #[arg(long, default_value = "")]
    pub(crate) prefix: String,

    /// What a caller must hold for every tool that has no `--tool-capability`; may be repeated
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) capability: Vec<String>,

    /// What a caller must hold for one tool, by the server's name for it; may be repeated, and `TOOL=` means nothing
    #[arg(long, value_name = "TOOL=CAPABILITY", value_parser = tool_capability)]
    tool_capability: Vec<(String, String)>,

    /// How long a call may take; the gateway's default is 60 seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,

    /// The MCP server's URL, for streamable HTTP
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// A bearer token for the MCP server at `--url`; better in the environment than on the command line
    #[arg(long, value_name = "TOKEN", env = "MCP_BEARER_TOKEN", hide_env_values = true)]
    pub(crate) bearer_token: Option<String>,

    /// The program that is the MCP server, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

impl Options {
    pub(crate) fn gateway(&self) -> Result<Gateway> {
        let mut gateway = Gateway::at(&self.gateway)?;
        if let Some(identity) = &self.server_identity {
            gateway = gateway.identity(identity);
        }
        if let Some(path) = &self.ca_file {
            gateway = gateway.ca_file(path);
        }
        Ok(if self.allow_plaintext { gateway.allow_plaintext() } else { gateway })
    }

    pub(crate) async fn key(&self) -> Result<Key> {
        if let Some(path) = &self.key {
            return Ok(Key::from_file(path)?);
        }
        let which = self.agent.as_deref().context("name a key with `--key` or `--agent`")?;
        Ok(Key::from_agent(agent_key(which)).await?)
    }

    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// The tools with capabilities of their own.
    pub(crate) fn tool_capabilities(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut tools = BTreeMap::<_, Vec<_>>::new();
        for (tool, capability) in &self.tool_capability {
            let capabilities = tools.entry(tool.as_str()).or_default();
            if !capability.is_empty() {
                capabilities.push(capability.as_str());
            }
        }
        tools
    }
}

fn agent_key(which: &str) -> AgentKey {
    let is_file = std::path::Path::new(which).extension().is_some_and(|end| end == "pub");
    match which {
        "" => AgentKey::Only,
        _ if which.starts_with("SHA256:") => AgentKey::Fingerprint(which.to_owned()),
        _ if is_file => AgentKey::PublicKeyFile(which.into()),
        _ => AgentKey::Comment(which.to_owned()),
    }
}

fn tool_capability(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((tool, capability)) if !tool.is_empty() => {
            Ok((tool.to_owned(), capability.to_owned()))
        }
        _ => Err("write it as `TOOL=CAPABILITY`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from([&["bridge", "--pack-id", "p"], arguments].concat())
    }

    #[test]
    fn a_server_and_a_key_are_needed_and_only_one_of_each() {
        for good in [
            &["--key", "k", "--", "npx", "server", "--flag"][..],
            &["--agent", "--url", "http://localhost/mcp"],
            &["--agent", "me@laptop", "--url", "http://localhost/mcp"],
        ] {
            assert!(parse(good).is_ok(), "{good:?}");
        }
        for bad in [
            &["--key", "k"][..],
            &["--", "npx"],
            &["--key", "k", "--agent", "--", "npx"],
            &["--key", "k", "--url", "http://localhost/mcp", "--", "npx"],
            &["--key", "k", "--timeout", "0", "--", "npx"],
            &["--key", "k", "--tool-capability", "oops", "--", "npx"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn capabilities_are_gathered_by_tool() {
        let options = parse(&[
            "--tool-capability",
            "write=filesystem",
            "--tool-capability",
            "write=destructive",
            "--tool-capability",
            "ping=",
            "--key",
            "k",
            "--",
            "server",
        ])
        .unwrap();
        let tools = options.tool_capabilities();
        assert_eq!(tools["write"], ["filesystem", "destructive"]);
        assert_eq!(tools["ping"], [""; 0]);
        assert_eq!(tools.len(), 2);
    }

    #[test]
    fn a_key_of_the_ssh_agent_is_named_in_four_ways() {
        assert_eq!(agent_key(""), AgentKey::Only);
        assert_eq!(agent_key("SHA256:x"), AgentKey::Fingerprint("SHA256:x".to_owned()));
        assert_eq!(agent_key("a/b.pub"), AgentKey::PublicKeyFile("a/b.pub".into()));
        assert_eq!(agent_key("me@laptop"), AgentKey::Comment("me@laptop".to_owned()));
    }
}
