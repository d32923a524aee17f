use serde_json::{Value, json};

use super::super::Template;

/// `Ok` if the template can be filled, otherwise what is said about it.
fn check(template: &str, property: &Value) -> Result<(), String> {
    let value = if property["type"] == "integer" { json!(1) } else { json!("1") };
    let parameters =
        json!({ "type": "object", "properties": { "q": property }, "required": ["q"] });
    let arguments = json!({ "q": value });
    let parsed = Template::parse(template, &parameters).map_err(|error| error.to_string())?;
    parsed.fill(arguments.as_object().unwrap()).map(drop).map_err(|error| error.to_string())
}

fn with_text(template: &str) -> Result<(), String> {
    check(template, &json!({ "type": "string" }))
}

fn is_refused(template: &str) -> bool {
    with_text(template).is_err_and(|text| text.ends_with("(E_TEMPLATE_INTERPRETER)"))
}

/// Shells, common interpreters and wrappers.
const REFUSED: &[&str] = &[
    "bash {{q}}",
    "bash",
    "sh -c {{q}}",
    "/usr/bin/zsh -ec x {{q}}",
    "bash -s {{q}}",
    "bash -x ./run.sh {{q}}",
    "fish -d ./run.fish {{q}}",
    "php -c ./php.ini {{q}}",
    "python3 -c ./x.py {{q}}",
    "python3 -Im {{q}}",
    "bash run.sh {{q}}",
    "BASH.EXE -c {{q}}",
    "env gh {{q}}",
    "/usr/bin/env -S gh {{q}}",
    "xargs {{q}}",
    "sudo gh {{q}}",
    "eval {{q}}",
    "timeout 5 gh {{q}}",
    "nohup gh {{q}}",
    "busybox sh {{q}}",
    "ssh host {{q}}",
    "python -c {{q}}",
    "python3.12 -Ic {{q}}",
    "python3 {{q}}",
    "python3 -m pytest {{q}}",
    "python3 -I -m {{q}}",
    "python3 x.py {{q}}",
    "python3 - {{q}}",
    "python3 /dev/stdin {{q}}",
    "node -e {{q}}",
    "node --eval={{q}}",
    "node -r ./a.js ./b.js {{q}}",
    "perl -ne {{q}}",
    "ruby -e {{q}}",
    "php -r {{q}}",
    "lua5.4 -e {{q}}",
    "deno eval {{q}}",
    "bun -e {{q}}",
    "npx {{q}}",
    "npx -y {{q}}",
    "npx --call={{q}}",
    "npm exec -c {{q}}",
    "uvx {{q}}",
    "awk {{q}} /etc/passwd",
    "sed {{q}}",
    "sed -n -e {{q}} x",
    "sed -n 1p --expression={{q}}",
    "gawk -f {{q}}",
    "docker run image sh -c {{q}}",
    "find . -exec bash -lc {{q}} +",
    "find . -exec {{q}} +",
    "docker exec c python -c {{q}}",
    // Programs that are not so well known, and other builds of those that are.
    "bash-static -c {{q}}",
    "busybox-static sh -c {{q}}",
    "/lib64/ld-linux-x86-64.so.2 {{q}}",
    "/lib/ld-musl-x86_64.so.1 {{q}}",
    "uvx ipython -c {{q}}",
    "uv run python -c {{q}}",
    "npx tsx@4 -e {{q}}",
    "npx -p prettier {{q}}",
    "pipx run --spec x python {{q}}",
    "pwsh -Command {{q}}",
    "systemd-run {{q}}",
    // Modules of Python that run what they are given.
    "python3 -I -m timeit {{q}}",
    "python3 -I -m pdb -c {{q}} ./x.py",
    "python3 -I -m cProfile {{q}}",
    "python3 -I -m trace --count {{q}}",
    "python3 -I -m doctest {{q}}",
    "python3 -I -m IPython.terminal {{q}}",
    // What follows an option may be its value, and not the program.
    "awk --field-separator , {{q}} f",
    "awk -F , {{q}} f",
    "awk --assign a=1 {{q}}",
    "gawk -l lib {{q}}",
    "gawk --load lib {{q}}",
    "gawk -W {{q}} 1",
    "gawk --sou={{q}}",
    "sed -l 5 {{q}} f",
    "sed --line-length 5 {{q}} f",
    "sed --line-length=5 {{q}} f",
    "sed --unheard-of 5 {{q}} f",
    "sed -ne {{q}} f",
    "sed -i '' {{q}} f",
    "sed -- {{q}} f",
    // Values that are programs, or settings that name one.
    "find . -execdir {{q}} +",
    "fd -x {{q}}",
    // The program within another command.
    "docker run --rm image node -e {{q}}",
    "docker run image sudo {{q}}",
    "conda run -n x python -c {{q}}",
    "unheard-of --flag sh -x -c {{q}}",
    "unheard-of bash --norc --eval={{q}}",
    "unheard-of bash +x -c {{q}}",
    "unheard-of bash +o posix -c {{q}}",
    "unheard-of php -d a=1 -r {{q}}",
    "unheard-of perl -E {{q}}",
    "unheard-of fish -C {{q}}",
    "unheard-of pwsh -Command {{q}}",
    "unheard-of PWSH -EncodedCommand {{q}}",
    "unheard-of .venv/bin/python -c {{q}}",
    "unheard-of ./bash -c {{q}}",
    "unheard-of sudo {{q}}",
    "unheard-of xargs {{q}}",
    "unheard-of /usr/bin/env {{q}}",
    "unheard-of /usr/bin/timeout {{q}}",
    "unheard-of /lib64/ld-linux-x86-64.so.2 {{q}}",
    // The same rules for other builds of Python.
    "pypy3 -m json.tool {{q}}",
    "pypy3 -I -m timeit {{q}}",
    "pypy3 -I -m {{q}}",
    "pypy3 -c {{q}}",
];

/// Programs that run the command which follows.
const OUTER: &[&str] = &[
    "docker run image",
    "docker run --rm -v /a:/b image",
    "docker exec c",
    "docker compose exec -T web",
    "podman exec -e A=1 c",
    "kubectl exec p --",
    "kubectl -n space exec -it p -c main --",
    "kubectl debug p --image x --",
    "lxc exec c --",
    "find . -exec",
    "find . -name x -exec wc {} + -exec",
    "fd -x",
    "git bisect run",
    "ip netns exec blue",
    "poetry run",
];

/// Commands that run an argument.
const INNER: &[&str] = &[
    "sh -c {{q}}",
    "sh -x -c {{q}}",
    "bash --norc -c {{q}}",
    "perl -ne {{q}}",
    "python3 -u -c {{q}}",
    "node -p {{q}}",
    "/usr/bin/env {{q}}",
    "sudo {{q}}",
    "xargs {{q}}",
    "docker exec c sh -c {{q}}",
];

const RUN_FIXED_CODE: &[&str] = &[
    "bash ./run.sh {{q}}",
    "python3 -I -u ./x.py {{q}}",
    "python3 -I -m json.tool {{q}}",
    "node /opt/x.js {{q}}",
    "deno run --allow-read --deny-net ./x.ts {{q}}",
    "java -jar ./x.jar {{q}}",
    "npx -y prettier@3 {{q}}",
    "npm run build {{q}}",
    "awk -F , -v a=1 '{print $1}' {{q}}",
    "sed -n 1,5p -- {{q}}",
    "sed -e p -n {{q}}",
    "sqlite3 -safe /data/x.db {{q}}",
    "find . -name {{q}} -exec wc {} +",
    "envsubst {{q}}",
    "shellcheck {{q}}",
    "awk --field-separator=, '{print $1}' {{q}}",
    "awk --field-separator={{q}} '{print $1}' f",
    "awk -v {{q}} '{print a}' f",
    "gawk -b -f ./x.awk {{q}}",
    "sed -nE -e p {{q}}",
    "sed -i.bak s/a/b/ {{q}}",
    "sed -l 5 p {{q}}",
    "git log --oneline -- {{q}}",
    "git log --grep run {{q}}",
    "git clean -x {{q}}",
    "git push -u origin {{q}}",
    "git bisect run ./test.sh {{q}}",
    "grep -n -- {{q}} file",
    "grep -rn time {{q}}",
    "rg --type java -e {{q}}",
    "rg -t python -e {{q}} src",
    "gh search repos --language python {{q}}",
    "gh run watch {{q}}",
    "gh run view {{q}} --log",
    "kubectl get node {{q}}",
    "kubectl describe node {{q}}",
    "kubectl logs {{q}} -c main",
    "kubectl exec {{q}} -- ls /srv",
    "kubectl exec p -- ls {{q}}",
    "docker ps --filter {{q}}",
    "docker logs {{q}}",
    "docker exec {{q}} ls",
    "docker exec {{q}} sh -c 'ls /srv'",
    "docker exec -u root c ls {{q}}",
    "docker exec c grep -rn time {{q}}",
    "docker exec c python manage.py migrate {{q}}",
    "docker exec c python3 -m pytest {{q}}",
    "docker run --rm image {{q}}",
    "docker run --rm --name watch image ls {{q}}",
    "docker run --rm python:3.12 x.py {{q}}",
    "find . -exec grep -l {{q}} {} +",
    "find . -exec sh ./x.sh {} + -newer {{q}}",
    "systemctl status ssh {{q}}",
    "apt-cache show python {{q}}",
    "npm view {{q}}",
    "npm test -- {{q}}",
    "npx -p typescript tsc {{q}}",
    "uv run ./x.py {{q}}",
    "uv pip install {{q}}",
    "uvx ruff check {{q}}",
    "go test {{q}}",
    "go run ./x.go {{q}}",
    "cargo test {{q}}",
    "poetry run ruff {{q}}",
    "tar -czf out.tgz -- {{q}}",
    "tar -tf {{q}}",
    "curl -sS --max-time 5 {{q}}",
    "rsync -av {{q}} there/",
    "wget -q {{q}}",
    "sort -k 2 {{q}}",
    "openssl x509 -in {{q}}",
    "jq . {{q}}",
    "pandoc {{q}} -o out.pdf",
    "nix run x -- {{q}}",
    "./serve {{q}}",
    "python3 ./x.py -c {{q}}",
    "pypy3 -I -m json.tool {{q}}",
    "pypy3 ./x.py {{q}}",
    // Letters that mean something else there.
    "git switch -c {{q}}",
    "git -C dir switch -c {{q}}",
    "git --no-pager show -c {{q}}",
    "git show -c {{q}}",
    "git commit -c {{q}}",
    "git branch -c {{q}} new",
    "curl -XLOCK {{q}}",
    "curl -X LOCK {{q}}",
    "cmake -DUSE_HTTP {{q}}",
    "grep -rn bash -C {{q}} .",
    // The program is fixed.
    "bundle exec rake {{q}}",
    "conda run -n {{q}} ls",
    "conda run -n x ls {{q}}",
    "direnv exec . ls {{q}}",
    "mise x node@20 -- ls {{q}}",
    "mise exec {{q}} -- ls",
    "stack run -- {{q}}",
    "stack exec -- ls {{q}}",
    "docker exec -uroot c ls {{q}}",
    "docker exec -itu {{q}} c ls",
    "crictl exec c ls {{q}}",
    "crictl exec {{q}} ls",
    "kubectl exec p ls {{q}}",
    "kubectl exec {{q}} ls",
    "kubectl exec -n {{q}} p ls",
    "kubectl exec p -c {{q}} -- ls",
    "kubectl debug {{q}} --image busybox --target main",
    "kubectl run {{q}} --image nginx",
    "lxc exec {{q}} ls",
    "heroku run -a {{q}} ls",
    "flatpak run org.example.App {{q}}",
    "adb -s {{q}} shell ls",
    "adb push {{q}} /sdcard",
    "minikube ssh -n {{q}} -- ls",
    "vagrant ssh {{q}}",
    "gcloud compute ssh {{q}} --zone x -- ls",
    "gcloud run services describe {{q}}",
    "docker compose run web {{q}}",
    // Names of programs that stand for something else.
    "dbt run --target duckdb --select {{q}}",
    "docker run --rm --name duckdb image ls {{q}}",
    "docker run --rm image sqlite3 -safe x.db {{q}}",
    "cargo test time {{q}}",
    "cargo test bash {{q}}",
    "cargo run -- watch {{q}}",
    "helm install mysql {{q}}",
    "systemctl restart mariadb {{q}}",
    "ls /var/lib/mysql {{q}}",
    "ls /var/lib/sudo {{q}}",
    "kubectl logs deploy/mysql {{q}}",
    "kubectl logs deploy/python -c {{q}}",
    "kubectl logs deploy/java --tail 10 -c {{q}}",
    // Options of a fixed script.
    "docker exec web node server.js -p {{q}}",
    "docker exec c bash ./x.sh -c {{q}}",
    "docker exec c perl ./x.pl -e {{q}}",
];

#[test]
fn programs_that_run_their_arguments_are_found() {
    let accepted: Vec<_> = REFUSED.iter().filter(|bad| !is_refused(bad)).collect();
    assert!(accepted.is_empty(), "{accepted:#?}");
}

#[test]
fn ordinary_templates_are_accepted() {
    let refused: Vec<_> =
        RUN_FIXED_CODE.iter().filter_map(|good| Some((good, with_text(good).err()?))).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn a_command_within_another_is_held_to_the_same() {
    let all =
        OUTER.iter().flat_map(|outer| INNER.iter().map(move |inner| format!("{outer} {inner}")));
    let accepted: Vec<_> = all.filter(|bad| !is_refused(bad)).collect();
    assert!(accepted.is_empty(), "{accepted:#?}");
    for outer in OUTER {
        assert_eq!(with_text(&format!("{outer} ls -l {{{{q}}}}")), Ok(()), "{outer}");
    }
}

#[test]
fn callers_may_choose_among_what_is_listed() {
    for good in ["python3 -I -m timeit {{q}}", "sh ./x.sh {{q}}"] {
        assert_eq!(check(good, &json!({ "type": "string", "enum": ["1", "2"] })), Ok(()), "{good}");
    }
    let pattern = json!({ "type": "string", "pattern": ".*" });
    assert!(check("python3 -I -m timeit {{q}}", &pattern).is_err());
    let number = json!({ "type": "integer" });
    for good in ["sed -n {{q}}p", "sed -e {{q}}p f", "git log --oneline -n {{q}}"] {
        assert_eq!(check(good, &number), Ok(()), "{good}");
    }
}

#[test]
fn a_word_that_may_be_left_out_can_not_hold_the_place_of_another() {
    let properties = json!({
        "n": { "type": "integer" },
        "list": { "type": "array", "items": { "type": "string" } },
        "q": { "type": "string" },
    });
    let code = |template: &str| {
        let used =
            ["n", "list", "q"].into_iter().filter(|name| template.contains(&format!("{{{{{name}")));
        let some: serde_json::Map<_, _> =
            used.map(|name| (name.to_owned(), properties[name].clone())).collect();
        let parameters = json!({ "type": "object", "properties": some, "required": ["q"] });
        match Template::parse(template, &parameters) {
            Err(error) => Err(error.code()),
            Ok(_) => Ok(()),
        }
    };
    for bad in ["sed {{n}}p {{q}}", "sed -e {{n}}p {{q}}", "awk -v {{list...}} 1 {{q}}"] {
        assert_eq!(code(bad), Err("E_TEMPLATE_INTERPRETER"), "{bad}");
    }
    assert_eq!(code("npx -p {{list...}} {{q}}"), Err("E_TEMPLATE_INTERPRETER"));
    assert_eq!(code("sed p {{q}} {{list...}}"), Ok(()));
}

#[test]
fn dashes_protect_what_comes_directly_after_them() {
    let fill = |template: &str| {
        let parameters = json!({
            "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"],
        });
        let filled = Template::parse(template, &parameters)
            .unwrap()
            .fill(json!({ "q": "-x" }).as_object().unwrap());
        filled.map(drop).map_err(|error| error.code())
    };
    for bad in [
        "kubectl exec p -- ls {{q}}",
        "kubectl -n a exec p -c main -- ls {{q}}",
        "lxc exec c -- ls {{q}}",
        "docker exec c kubectl exec p -- ls {{q}}",
        "npm exec -- prettier {{q}}",
        "npx -- prettier {{q}}",
        "poetry run -- ruff {{q}}",
        "unheard-of exec -- ls {{q}}",
        "direnv exec . -- ls {{q}}",
    ] {
        assert_eq!(fill(bad), Err("E_OPTION"), "{bad}");
    }
    for good in [
        "kubectl exec p -- ls -- {{q}}",
        "docker exec c ls -- {{q}}",
        "crictl exec c ls -- {{q}}",
        "find . -exec grep -- {{q}} {} +",
        "npx prettier -- {{q}}",
        "git log --grep run -- {{q}}",
        "grep -n -- {{q}} file",
        "cargo run -- {{q}}",
    ] {
        assert_eq!(fill(good), Ok(()), "{good}");
    }
}
