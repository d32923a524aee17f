//! Which programs carry another one, after which words, and where its name stands.

use super::Begins::{self, After, Dashes, Likely, Nowhere, Shell, ShellAfterDashes, Somewhere};
use super::Place::{self, Elsewhere, Here};
use super::{Carrier, FD, FIND, kind};

/// Words of programs that are not known: `PROGRAM exec …`.
const VERBS: &[&str] = &["exec", "foreach", "run", "shell", "spawn", "ssh"];
/// Options with a value in a word of its own, which stand before the inner command.
const VALUED: &[&str] = &[
    "-C",
    "-e",
    "-n",
    "-p",
    "-u",
    "-w",
    "--cwd",
    "--detach-keys",
    "--directory",
    "--env",
    "--env-file",
    "--index",
    "--name",
    "--prefix",
    "--project",
    "--user",
    "--workdir",
];
const KUBERNETES: &[&str] = &[
    "-c",
    "-f",
    "-l",
    "-n",
    "-s",
    "--annotations",
    "--as",
    "--as-group",
    "--cluster",
    "--container",
    "--context",
    "--copy-to",
    "--custom",
    "--env",
    "--filename",
    "--image",
    "--image-pull-policy",
    "--kubeconfig",
    "--labels",
    "--namespace",
    "--overrides",
    "--pod-running-timeout",
    "--port",
    "--profile",
    "--request-timeout",
    "--restart",
    "--selector",
    "--server",
    "--set-image",
    "--shell",
    "--target",
    "--timeout",
    "--token",
    "--user",
];
const CONDA: &[&str] = &["-n", "-p", "-r", "--cwd", "--name", "--prefix", "--root-prefix"];

const fn row(
    verbs: &'static [&'static str],
    begins: Begins,
    place: Place,
    has_dashes: bool,
) -> Carrier {
    Carrier { verbs, begins, place, has_dashes, valued: VALUED, is_guess: false }
}

const KUBECTL: Carrier = elsewhere(&["debug", "exec", "rsh", "run"], Dashes(Some(1)), KUBERNETES);

/// The ways of one program.
pub(super) fn of(name: &str) -> Vec<Carrier> {
    match name {
        "buildah" | "docker" | "docker-compose" | "nerdctl" | "podman" | "podman-compose" => vec![
            row(&["exec"], After(1), Elsewhere, false),
            row(&["create", "run"], Somewhere, Elsewhere, false),
        ],
        "find" | "gfind" => vec![row(FIND, After(0), Here, false)],
        "fd" | "fdfind" => vec![row(FD, After(0), Here, false)],
        "git" => vec![row(&["foreach", "run"], After(0), Here, false)],
        "go" => vec![row(&["run", "tool"], After(0), Here, false)],
        "nix" => vec![row(&["run"], After(0), Here, true)],
        "ip" => vec![row(&["exec"], After(1), Here, false)],
        "cargo" => vec![row(&["bench", "clippy", "run", "rustc", "test"], Nowhere, Here, true)],
        _ if kind(name).is_none() => {
            let known = cluster(name).or_else(|| machine(name)).or_else(|| environment(name));
            let guess = || vec![Carrier { is_guess: true, ..row(VERBS, Somewhere, Here, true) }];
            known.unwrap_or_else(guess)
        }
        _ => Vec::new(),
    }
}

const fn elsewhere(
    verbs: &'static [&'static str],
    begins: Begins,
    valued: &'static [&'static str],
) -> Carrier {
    Carrier { valued, ..row(verbs, begins, Elsewhere, true) }
}

/// What runs a program in one of many containers.
fn cluster(name: &str) -> Option<Vec<Carrier>> {
    let without =
        |verbs, begins, valued| Carrier { has_dashes: false, ..elsewhere(verbs, begins, valued) };
    Some(match name {
        "crictl" => vec![
            without(&["exec"], Likely(1), &["-r", "--timeout", "--transport"]),
            without(&["run"], Somewhere, &[]),
        ],
        "ctr" => vec![
            without(
                &["exec"],
                Likely(1),
                &["--cwd", "--exec-id", "--fifo-dir", "--log-uri", "--user"],
            ),
            without(&["run"], Somewhere, &[]),
        ],
        "k" | "kubecolor" | "kubectl" | "microk8s" | "oc" => vec![KUBECTL],
        _ => return None,
    })
}

/// What runs a program on another machine, or in a box that is like one.
fn machine(name: &str) -> Option<Vec<Carrier>> {
    let with = elsewhere;
    let mut rows = match name {
        "adb" => vec![with(&["exec-in", "exec-out", "shell"], Shell, &[])],
        "minikube" => {
            vec![with(&["ssh"], Shell, &["-n", "-p", "--node", "--profile"]), KUBECTL]
        }
        "gcloud" | "vagrant" => vec![with(&["ssh"], ShellAfterDashes, &[])],
        "fly" | "flyctl" => {
            vec![with(&["exec"], Dashes(Some(1)), &["-a", "-c", "--app", "--config", "--timeout"])]
        }
        "distrobox" => Vec::new(),
        "flatpak" => vec![
            with(&["enter"], Dashes(Some(1)), &[]),
            with(&["run"], Dashes(Some(0)), &["--arch", "--branch", "--command", "--cwd"]),
        ],
        "heroku" => vec![with(
            &["run"],
            Dashes(Some(0)),
            &["-a", "-e", "-r", "-s", "--app", "--env", "--remote", "--size", "--type"],
        )],
        "incus" | "lxc" => vec![with(
            &["exec", "shell"],
            Dashes(Some(1)),
            &["--cwd", "--env", "--group", "--mode", "--project", "--user"],
        )],
        "limactl" => vec![with(&["shell"], Dashes(Some(1)), &["--shell", "--workdir"])],
        "machinectl" => {
            vec![with(&["shell"], Dashes(Some(1)), &["-E", "-M", "--setenv", "--uid"])]
        }
        "multipass" => {
            vec![with(&["exec", "shell"], Dashes(Some(1)), &["-d", "--working-directory"])]
        }
        "toolbox" => vec![with(
            &["run"],
            Dashes(Some(0)),
            &["-c", "-d", "-r", "--container", "--distro", "--release"],
        )],
        _ => return None,
    };
    // By their other verbs it is not known.
    rows.push(with(&["enter", "exec", "run", "shell", "ssh"], Dashes(None), &[]));
    Some(rows)
}

/// What runs a program with a project's or a language's settings.
fn environment(name: &str) -> Option<Vec<Carrier>> {
    const RUN: &[&str] = &["exec", "run", "x"];
    let with = |begins, valued| Carrier { valued, ..row(RUN, begins, Here, true) };
    Some(match name {
        "asdf" | "bundle" | "hatch" | "nodenv" | "pyenv" | "rbenv" => vec![with(Likely(0), &[])],
        "conda" | "mamba" | "micromamba" => vec![with(Likely(0), CONDA)],
        // Its first word is a folder.
        "direnv" => vec![with(Likely(1), &[])],
        // Before `--` stand versions of tools.
        "mise" => vec![with(Dashes(None), &[])],
        "opam" => vec![with(Likely(0), &["--color", "--root", "--switch"])],
        "pdm" => vec![with(Likely(0), &["-p", "--project"])],
        "pipenv" => vec![with(Likely(0), &["--pypi-mirror", "--python"])],
        "pixi" => vec![with(
            Likely(0),
            &["-c", "-e", "-m", "-s", "--channel", "--environment", "--manifest-path", "--spec"],
        )],
        "poetry" => vec![with(Likely(0), &["-C", "-P", "--directory", "--project"])],
        "rye" => vec![with(Likely(0), &["--pyproject"])],
        "stack" => vec![
            Carrier { verbs: &["exec"], ..with(Likely(0), &["--cwd", "--package", "--resolver"]) },
            Carrier { verbs: &["run"], ..with(Nowhere, &[]) },
        ],
        _ => return None,
    })
}
