//! Variables that decide which code a program loads. A pack says openly what it runs, by its tools and
//! connectors; these would change it behind everybody's back. The operator may still set them.

use drawgate_core::model::shown_name;

use super::super::problem::{Sink, hint};

/// Of these, every name that begins so: loaders, package managers, settings of whole programs. All in
/// capitals; programs such as npm take theirs in any case.
const FAMILIES: &[&str] = &[
    "ANSIBLE_",
    "BUNDLE_",
    "CARGO_",
    "CORECLR_",
    "COR_",
    "DYLD_",
    "GIT_CONFIG",
    "GIT_SSH",
    "LD_",
    "LUA_CPATH",
    "LUA_INIT",
    "LUA_PATH",
    "NPM_CONFIG_",
    "PERL5",
    "PIP_",
    "RUSTC",
    "RUSTDOC",
    "RUSTFLAGS",
    "RUSTUP_",
    "R_ENVIRON",
    "R_LIBS",
    "R_PROFILE",
    "TF_CLI_",
    "UV_",
    "XDG_",
    "YARN_",
];

/// Programs and files that are run, and folders in which code is looked for.
const NAMES: &[&str] = &[
    "AWKLIBPATH",
    "AWKPATH",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "BASHOPTS",
    "BASH_ENV",
    "BAT_PAGER",
    "BROWSER",
    "BUN_OPTIONS",
    "CARGO",
    "CC",
    "CDPATH",
    "CLASSPATH",
    "CLOUDSDK_CONFIG",
    "CLOUDSDK_PYTHON",
    "CLOUDSDK_PYTHON_SITEPACKAGES",
    "COMPOSER_HOME",
    "CURL_HOME",
    "CVS_RSH",
    "CXX",
    "DENO_DIR",
    "DOCKER_CONFIG",
    "DOTNET_ADDITIONAL_DEPS",
    "DOTNET_ROOT",
    "DOTNET_SHARED_STORE",
    "DOTNET_STARTUP_HOOKS",
    "EDITOR",
    "ELIXIR_ERL_OPTIONS",
    "EMACSLOADPATH",
    "ENV",
    "ERL_FLAGS",
    "ERL_LIBS",
    "EXINIT",
    "FPATH",
    "GCONV_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "GETCONF_DIR",
    "GH_BROWSER",
    "GH_CONFIG_DIR",
    "GH_EDITOR",
    "GH_PAGER",
    "GIT_ASKPASS",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_TEMPLATE_DIR",
    "GLIBC_TUNABLES",
    "GNUMAKEFLAGS",
    "GNUPGHOME",
    "GOENV",
    "GOFLAGS",
    "GOPATH",
    "GOPROXY",
    "GOROOT",
    "GRADLE_OPTS",
    "GTK_MODULES",
    "GUILE_LOAD_COMPILED_PATH",
    "GUILE_LOAD_PATH",
    "HGEDITOR",
    "HGMERGE",
    "HGRCPATH",
    "HOME",
    "IFS",
    "JAVA_HOME",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JRUBY_OPTS",
    "JULIA_DEPOT_PATH",
    "JULIA_LOAD_PATH",
    "KUBECONFIG",
    "LESS",
    "LESSCLOSE",
    "LESSKEY",
    "LESSKEYIN",
    "LESSOPEN",
    "LOCPATH",
    "MAKE",
    "MAKEFILES",
    "MAKEFLAGS",
    "MANPAGER",
    "MAVEN_OPTS",
    "MFLAGS",
    "NLSPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "OCAMLPATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PAGER",
    "PATH",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "PNPM_HOME",
    "PROMPT_COMMAND",
    "PS4",
    "PSMODULEPATH",
    "PSQLRC",
    "PSQL_EDITOR",
    "PSQL_PAGER",
    "PYTHONBREAKPOINT",
    "PYTHONEXECUTABLE",
    "PYTHONHOME",
    "PYTHONINSPECT",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONPYCACHEPREFIX",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "QT_PLUGIN_PATH",
    "RSYNC_CONNECT_PROG",
    "RSYNC_RSH",
    "RUBYLIB",
    "RUBYOPT",
    "R_HOME",
    "SBT_OPTS",
    "SHELL",
    "SHELLOPTS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SVN_EDITOR",
    "SVN_SSH",
    "SYSTEMD_PAGER",
    "TAR_OPTIONS",
    "TCLLIBPATH",
    "TERMINFO",
    "VIMINIT",
    "VISUAL",
    "WGETRC",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
];

/// Refuses to give a pack's programs a variable that changes what they load.
pub(super) fn check_given(path: &str, name: &str, sink: &mut Sink) {
    if !decides_code(name) {
        return;
    }
    let message = format!("`{}` decides which code a program loads", shown_name(name));
    let advice = "leave it out, and name what is run in the tool or the connector itself; the operator can set it for a configured server";
    sink.add(path, message, hint(advice));
}

fn decides_code(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let is_of_a_family = FAMILIES.iter().any(|family| name.starts_with(family));
    NAMES.binary_search(&name.as_str()).is_ok() || (is_of_a_family && !is_plain(&name))
}

/// Members of a family that choose nothing: secrets, and how output looks.
fn is_plain(name: &str) -> bool {
    let is_token = name.starts_with("CARGO_REGISTR") && name.ends_with("_TOKEN");
    is_token || name.starts_with("CARGO_TERM_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_in_order() {
        assert!(NAMES.is_sorted() && FAMILIES.is_sorted());
        let in_capitals = |name: &&str| !name.contains(|c: char| c.is_ascii_lowercase());
        assert!(NAMES.iter().chain(FAMILIES).all(in_capitals));
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
