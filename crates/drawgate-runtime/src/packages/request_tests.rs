use super::*;

fn of(line: &str) -> Option<RunnerCommand> {
    let mut words = line.split(' ').map(str::to_owned);
    let command = words.next().unwrap();
    RunnerCommand::of(&command, &words.collect::<Vec<_>>())
}

/// What is asked for, in one line.
fn told(line: &str) -> String {
    let Some(command) = of(line) else { return "no runner".to_owned() };
    match command.request {
        Err(error) => error.to_string(),
        Ok(request) => {
            let program = request.program.unwrap_or_default();
            let mut all = vec![request.packages.join("+"), program, command.args.join(" ")];
            all.extend(request.python);
            all.extend(request.options);
            all.join("|")
        }
    }
}

#[test]
fn command_lines_are_read_as_the_runners_read_them() {
    for (line, expected) in [
        ("npx -y @scope/server@1.2 /home/me --flag", "@scope/server@1.2||/home/me --flag"),
        ("/usr/local/bin/npx server", "server||"),
        ("npx --package=a -p b tool x", "a+b|tool|x"),
        (
            "npx --registry http://r.example/ --@s:registry=http://s.example/ x",
            "x||\
          |--registry=http://r.example/|--@s:registry=http://s.example/",
        ),
        ("npm exec -y -- server --flag", "server||--flag"),
        ("npm start", "no runner"),
        ("bunx --bun server", "server||"),
        ("bun x server", "server||"),
        ("bun run x", "no runner"),
        ("pnpm dlx server", "server||"),
        ("yarn dlx -q server", "server||"),
        (
            "uvx mcp-server-time --local-timezone=UTC",
            "mcp-server-time|mcp-server-time|--local-timezone=UTC",
        ),
        ("uvx server@1.2", "server==1.2|server|"),
        ("uvx server@latest", "server|server|"),
        ("uvx server[cli]>=2", "server[cli]>=2|server|"),
        (
            "uvx --from server[cli]==2 --with extra -p 3.12 tool run",
            "server[cli]==2+extra|tool|run|3.12",
        ),
        (
            "uv tool run --index-url=http://i.example/ server",
            "server|server||--index-url=http://i.example/",
        ),
        ("uv run server.py", "no runner"),
        ("pipx run --spec server==1 tool", "server==1|tool|"),
        ("pipx list", "no runner"),
        ("node npx", "no runner"),
        ("npx", "it names no package"),
        (
            "env X=1 uvx server",
            "it stands behind `env`; write its variables into `env = { … }`, and `command = \"uvx\"`",
        ),
        ("env X=1 python server.py", "no runner"),
        ("npx -p", "the option `-p` lacks its value"),
        ("npx -c x", "the option `-c` can't be kept when its package is fetched; leave it out"),
        (
            "npx --ignore-scripts=false x",
            "the option `--ignore-scripts` can't be kept when its package is fetched; leave it out",
        ),
    ] {
        assert_eq!(told(line), expected, "{line}");
    }
    assert_eq!(of("pnpm dlx x").unwrap().runner, "pnpm dlx");
}

#[test]
fn a_runner_behind_env_is_found() {
    let of = |line: &str| {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (command, args) = words.split_first().unwrap();
        EnvPrefix::of(command, args).map(|it| (it.variables, it.command, it.args.join(" ")))
    };
    let set = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    for (line, variables, args) in [
        ("env X=1 Y=a=b uvx server --port 1", set(&[("X", "1"), ("Y", "a=b")]), "server --port 1"),
        ("/usr/bin/env -u HOME -i uvx server", set(&[]), "server"),
        ("env --unset=HOME -- X= uvx server", set(&[("X", "")]), "server"),
    ] {
        assert_eq!(of(line), Some((variables, "uvx".to_owned(), args.to_owned())), "{line}");
    }
    for line in ["env X=1", "env -S uvx server", "env X=1 node server.js", "uvx server"] {
        assert_eq!(of(line), None, "{line}");
    }
}

#[test]
fn only_packages_of_registries_can_be_pinned() {
    for line in [
        "npx ./here",
        "npx /there",
        "npx github:user/repository",
        "npx user/repository",
        "npx https://a.example/x.tgz",
        "npx file:../x",
        "npx -- --help",
        "uvx --from git+https://a.example/x tool",
        "uvx --from /there tool",
    ] {
        assert!(told(line).contains("is not a package of a registry"), "{line}: {}", told(line));
    }
    let with_address = ["--from".to_owned(), "a @ https://a.example/x".to_owned(), "t".to_owned()];
    let request = RunnerCommand::of("uvx", &with_address).unwrap().request;
    assert!(matches!(request, Err(RequestError::NotOfRegistry(_))));
}
