//! Package runners: commands that download a program from a registry and run it.

use std::path::Path;

use drawgate_host::sandbox::Profile;
use drawgate_sources::server::Transport;

use super::Server;

/// How the reason begins why a server that would have to download its program is not started.
const NO_DOWNLOAD: &str = "its package can't be downloaded:";

/// Words by which a package runner is told to use what it has.
const OFFLINE: [&str; 4] = ["--offline", "--prefer-offline", "--no-install", "--no"];
const OFFLINE_VARIABLES: [&str; 2] = ["npm_config_offline", "UV_OFFLINE"];

/// Whose packages a runner downloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registry {
    /// That of npm and those that share its registry.
    Npm,
    /// That of uv and pip.
    Python,
}

/// A command that downloads a program and runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackageRunner {
    /// Its words.
    words: &'static [&'static str],
    /// Where it downloads from.
    pub registry: Registry,
}

const RUNNERS: [PackageRunner; 11] = [
    PackageRunner { words: &["npx"], registry: Registry::Npm },
    PackageRunner { words: &["npm", "exec"], registry: Registry::Npm },
    PackageRunner { words: &["bunx"], registry: Registry::Npm },
    PackageRunner { words: &["bun", "x"], registry: Registry::Npm },
    PackageRunner { words: &["pnpx"], registry: Registry::Npm },
    PackageRunner { words: &["pnpm", "dlx"], registry: Registry::Npm },
    PackageRunner { words: &["yarn", "dlx"], registry: Registry::Npm },
    PackageRunner { words: &["uvx"], registry: Registry::Python },
    PackageRunner { words: &["uv", "tool", "run"], registry: Registry::Python },
    PackageRunner { words: &["uv", "run"], registry: Registry::Python },
    PackageRunner { words: &["pipx", "run"], registry: Registry::Python },
];

impl PackageRunner {
    /// The runner that a command line is, if it is one.
    #[must_use]
    pub fn of(command: &str, args: &[String]) -> Option<Self> {
        let program = Path::new(command).file_name()?.to_str()?;
        let is_it = |runner: &&Self| {
            let [first, rest @ ..] = runner.words else { return false };
            *first == program
                && rest.iter().zip(args).filter(|(word, arg)| word == arg).count() == rest.len()
        };
        RUNNERS.iter().find(is_it).copied()
    }

    /// The runner that a server could not be started for, by the reason that was given.
    #[must_use]
    pub fn in_reason(reason: &str) -> Option<Self> {
        let words = reason.strip_prefix(NO_DOWNLOAD)?.split('`').nth(1)?;
        RUNNERS.into_iter().find(|runner| runner.name() == words)
    }

    /// The command, such as `npx` or `pnpm dlx`.
    #[must_use]
    pub fn name(self) -> String {
        self.words.join(" ")
    }

    /// Why a server is not started.
    pub(crate) fn reason(self) -> String {
        let name = self.name();
        format!(
            "{NO_DOWNLOAD} `{name}` asks a registry for it, and the server's sandbox has no network"
        )
    }
}

impl Server {
    /// The package runner that the server would start without being able to download anything. It would
    /// try for a long time and say little. One with a `working_dir` may find its package there.
    #[must_use]
    pub fn futile_runner(&self) -> Option<PackageRunner> {
        let connection = &self.connection;
        let has_network = match self.sandbox.unwrap_or_default() {
            Profile::None => true,
            Profile::Network => !self.permissions.hosts.is_empty(),
            Profile::Strict | Profile::Workspace => false,
        };
        let is_offline = connection.args.iter().any(|arg| OFFLINE.contains(&arg.as_str()))
            || OFFLINE_VARIABLES.iter().any(|name| connection.env.contains_key(*name));
        let may_work = has_network || is_offline || connection.working_dir.is_some();
        if may_work || connection.transport() != Transport::Stdio {
            return None;
        }
        PackageRunner::of(connection.command.as_deref()?, &connection.args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn package_runners_are_known_by_their_words() {
        for (line, expected) in [
            ("npx -y x", Some("npx")),
            ("/usr/local/bin/npx x", Some("npx")),
            ("npm exec x", Some("npm exec")),
            ("npm start", None),
            ("bunx x", Some("bunx")),
            ("pnpm dlx x", Some("pnpm dlx")),
            ("pnpm", None),
            ("uvx x", Some("uvx")),
            ("uv tool run x", Some("uv tool run")),
            ("uv tool list", None),
            ("pipx run x", Some("pipx run")),
            ("pipx list", None),
            ("node npx", None),
        ] {
            let mut words = line.split(' ').map(str::to_owned);
            let command = words.next().unwrap();
            let runner = PackageRunner::of(&command, &words.collect::<Vec<_>>());
            assert_eq!(runner.map(PackageRunner::name).as_deref(), expected, "{line}");
            assert_eq!(runner.and_then(|it| PackageRunner::in_reason(&it.reason())), runner);
        }
    }

    #[test]
    fn a_runner_without_a_way_to_its_registry_is_futile() {
        let npx = "command = \"npx\"\nargs = [\"-y\", \"x\"]\n";
        for (text, expected) in [
            (npx.to_owned(), true),
            (format!("{npx}sandbox = \"strict\"\n"), true),
            (format!("{npx}sandbox = \"network\"\n"), true),
            (format!("{npx}sandbox = \"network\"\npermissions = {{ hosts = [\"*\"] }}\n"), false),
            (format!("{npx}sandbox = \"none\"\n"), false),
            (format!("{npx}working_dir = \"/tmp\"\n"), false),
            (format!("{npx}env = {{ npm_config_offline = \"true\" }}\n"), false),
            ("command = \"npx\"\nargs = [\"--offline\", \"x\"]\n".to_owned(), false),
            ("command = \"node\"\n".to_owned(), false),
            ("url = \"https://a.example\"\n".to_owned(), false),
        ] {
            let loaded =
                Config::parse(&format!("[servers.a]\n{text}"), Path::new("/x/d.toml")).unwrap();
            let server = loaded.config.servers.values().next().unwrap();
            assert_eq!(server.futile_runner().is_some(), expected, "{text}");
        }
    }
}
