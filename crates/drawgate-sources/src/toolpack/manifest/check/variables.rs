//! Variables that decide which code a program loads. A pack says openly what it runs, by its tools and
//! connectors; these would change it without a word. The operator may still set them.

use drawgate_core::model::shown_name;

use super::super::problem::Sink;

/// The names; its first lines describe the format.
const NAMES: &str = include_str!("variables.txt");

/// Refuses to give a pack's programs a variable that changes what they load.
pub(super) fn check_given(path: &str, name: &str, sink: &mut Sink) {
    if !decides_code(name) {
        return;
    }
    let message = format!("`{}` decides which code a program loads", shown_name(name));
    let advice = "leave it out, and name what is run in the tool or the connector itself; the operator can set it for a configured server";
    sink.add(path, message, advice);
}

/// Programs such as npm take their variables in any case.
fn decides_code(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_named = |pattern: &str| match pattern.split_once('*') {
        Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
        None => name == pattern,
    };
    let is_exception = |line: &str| line.strip_prefix('!').is_some_and(is_named);
    lines().any(is_named) && !lines().any(is_exception)
}

fn lines() -> impl Iterator<Item = &'static str> {
    NAMES.lines().filter(|line| !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted_and_in_capitals() {
        assert!(lines().is_sorted_by(|a, b| a < b));
        let is_legal = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "_*!".contains(c);
        assert!(lines().all(|line| !line.is_empty() && line.chars().all(is_legal)));
    }

    #[test]
    fn variables_that_decide_code_are_known() {
        for name in [
            "CC",
            "ERL_AFLAGS",
            "ERL_ZFLAGS",
            "FZF_DEFAULT_COMMAND",
            "GIT_ALLOW_PROTOCOL",
            "GIT_SSH_COMMAND",
            "GOTOOLCHAIN",
            "HELM_PLUGINS",
            "IPYTHONDIR",
            "KUBECTL_EXTERNAL_DIFF",
            "KUBE_EDITOR",
            "LD_PRELOAD",
            "MAVEN_ARGS",
            "PYTEST_ADDOPTS",
            "PYTEST_PLUGINS",
            "RIPGREP_CONFIG_PATH",
            "kube_editor",
        ] {
            assert!(decides_code(name), "{name}");
        }
    }

    #[test]
    fn ordinary_variables_pass() {
        let ordinary = [
            "API_TOKEN",
            "AWS_REGION",
            "CARGO_REGISTRIES_OURS_TOKEN",
            "CARGO_REGISTRY_TOKEN",
            "CARGO_TERM_COLOR",
            "CCACHE",
            "DEBUG",
            "GITHUB_TOKEN",
            "GIT_AUTHOR_NAME",
            "HOMEPAGE",
            "LANG",
            "LDAP_URL",
            "NODE_ENV",
            "PATHS",
            "PYTHONUNBUFFERED",
            "PYTHONUTF8",
            "RUST_LOG",
            "TZ",
        ];
        for name in ordinary {
            assert!(!decides_code(name), "{name}");
        }
    }
}
