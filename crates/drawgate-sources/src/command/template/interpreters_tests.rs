use serde_json::{Value, json};

use super::super::Template;

/// `Ok` if the template can be filled without a warning, otherwise what is said about it.
fn check(template: &str, property: &Value) -> Result<(), String> {
    let value = if property["type"] == "integer" { json!(1) } else { json!("1") };
    let parameters =
        json!({ "type": "object", "properties": { "q": property }, "required": ["q"] });
    let arguments = json!({ "q": value });
    let parsed = Template::parse(template, &parameters).map_err(|error| error.to_string())?;
    parsed.fill(arguments.as_object().unwrap()).map_err(|error| error.to_string())?;
    parsed.warning().map_or(Ok(()), |warning| Err(format!("warning: {warning}")))
}

fn with_text(template: &str) -> Result<(), String> {
    check(template, &json!({ "type": "string" }))
}

fn is_refused(template: &str) -> bool {
    with_text(template).is_err_and(|text| text.ends_with("(E_TEMPLATE_INTERPRETER)"))
}

fn is_found(template: &str) -> bool {
    is_refused(template) || with_text(template).is_err_and(|text| text.starts_with("warning: "))
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
    "docker run --rm -it node -e {{q}}",
    "docker run --rm node:20-alpine {{q}}",
    "docker run node env {{q}}",
    "docker exec c kubectl exec p -- sh {{q}}",
    "conda run -n x python -c {{q}}",
    "unheard-of run sh {{q}}",
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
    // A shell reads what follows.
    "minikube kubectl -- exec p -- sh {{q}}",
    // The same rules for other builds of Python.
    "pypy3 -m json.tool {{q}}",
    "pypy3 -I -m timeit {{q}}",
    "pypy3 -I -m {{q}}",
    "pypy3 -c {{q}}",
];

/// Other programs that run their arguments.
const WARNED: &[&str] = &[
    "npm run {{q}}",
    "sqlite3 /data/x.db {{q}}",
    // Programs that are not so well known, and other builds of those that are.
    "ipython -c {{q}}",
    "micropython -c {{q}}",
    "gjs -c {{q}}",
    "lksh -c {{q}}",
    "posh -c {{q}}",
    "vim.basic -c {{q}}",
    "make {{q}}",
    "make -C {{q}} all",
    "gmake build {{q}}",
    "go run {{q}}",
    "go tool {{q}}",
    "Rscript -e {{q}}",
    "julia -e {{q}}",
    "ghc -e {{q}}",
    "racket -e {{q}}",
    "sbcl --eval {{q}}",
    "jshell {{q}}",
    "groovy -e {{q}}",
    "escript {{q}}",
    "mongosh --eval {{q}}",
    "emacs --eval {{q}}",
    "expect -c {{q}}",
    "gdb -ex {{q}}",
    "lldb -o {{q}}",
    "psql -c {{q}}",
    "mariadb -e {{q}}",
    "socat - {{q}}",
    "script -c {{q}}",
    "entr {{q}}",
    "hyperfine {{q}}",
    "valgrind {{q}}",
    "duckdb x.db {{q}}",
    // Values that are programs, or settings that name one.
    "tar -xf a.tar --to-command={{q}}",
    "tar -xf a.tar --to-com={{q}}",
    "tar -xf a.tar --to-command {{q}}",
    "tar -I {{q}} -xf a.tar",
    "tar -xI {{q}} -f a.tar",
    "tar --checkpoint=1 --checkpoint-action={{q}} -xf a.tar",
    "rsync -e {{q}} a b",
    "rsync -ave {{q}} a b",
    "rsync --rsh={{q}} a b",
    "git rebase --exec={{q}}",
    "git rebase -x {{q}}",
    "git -c {{q}} log",
    "git bisect run {{q}}",
    "git submodule foreach {{q}}",
    "git clone -u {{q}} a",
    "git grep --open-files-in-pager={{q}} a",
    "man -P {{q}} ls",
    "curl -K {{q}}",
    "curl -sK {{q}}",
    "wget --use-askpass={{q}}",
    "wget -e {{q}} a",
    "scp -o {{q}} a b",
    "zip -TT {{q}} a.zip a",
    "rg --pre {{q}} a",
    "sort --compress-program={{q}} a",
    "split --filter={{q}} a",
    "nmap --script {{q}} localhost",
    "docker run --entrypoint {{q}} image",
    "kubectl --kubeconfig {{q}} get pods",
    "cargo --config {{q}} build",
    "go test -exec {{q}} ./...",
    "nix-shell --run {{q}}",
    "nix run {{q}}",
    "pandoc --filter {{q}} x.md",
    "apt-get -o {{q}} update",
    // The program within another command.
    "docker exec c {{q}}",
    "docker exec -u root -it c {{q}}",
    "docker compose exec web {{q}}",
    "kubectl exec p -- {{q}}",
    "ip netns exec blue {{q}}",
    // Git's own settings, before its subcommand and in one.
    "git --no-pager -c {{q}} log",
    "git -C dir -c {{q}} log",
    "git --git-dir x -c a=b -c {{q}} log",
    "git {{q}} -c {{q}}",
    "git clone -c {{q}} a",
    "git clone -qc {{q}} a",
    "git clone --config={{q}} a",
    // Letters together.
    "curl -sSLK {{q}}",
    "curl -#K {{q}}",
    "rsync -avzPe {{q}} a b",
    "rsync -aHAXe {{q}} a b",
    "tar -cJI {{q}} -f a",
    "cmake -P {{q}}",
    // The caller would choose the program.
    "poetry run {{q}}",
    "poetry run -n {{q}}",
    "poetry run -C dir {{q}}",
    "poetry run -- {{q}}",
    "bundle exec {{q}}",
    "pipenv run {{q}}",
    "pyenv exec {{q}} x",
    "hatch run {{q}}",
    "pixi exec -s ruff {{q}}",
    "stack exec {{q}}",
    "mise x node@20 -- {{q}}",
    "mise exec -c {{q}}",
    "direnv exec . {{q}}",
    "conda run -n x {{q}}",
    "conda run --name x --cwd /srv {{q}}",
    "micromamba run -p /x {{q}}",
    "docker exec -itu root c {{q}}",
    "kubectl exec -itn space p {{q}}",
    "crictl exec c {{q}}",
    "crictl exec -it --timeout 5 c {{q}}",
    "ctr tasks exec --exec-id x c {{q}}",
    "kubectl exec p {{q}}",
    "kubectl exec -it p -c main {{q}}",
    "kubectl exec -n space p {{q}}",
    "oc rsh p {{q}}",
    "lxc exec -n c {{q}}",
    "multipass exec c {{q}}",
    "limactl shell c {{q}}",
    "machinectl shell c {{q}}",
    "heroku run -a x {{q}}",
    "toolbox run -c x {{q}}",
    "flatpak run {{q}}",
    // A shell reads what follows.
    "adb shell {{q}}",
    "adb shell ls {{q}}",
    "adb -s x shell -t ls -- {{q}}",
    "adb shell {{q}} -- x",
    "adb exec-out cat {{q}}",
    "minikube ssh ls {{q}}",
    "minikube ssh -- ls {{q}}",
    "minikube kubectl -- exec p {{q}}",
    "distrobox enter c -- {{q}}",
    "vagrant ssh box -- ls {{q}}",
    "gcloud compute ssh box -- ls {{q}}",
    "docker exec c adb shell ls {{q}}",
    // Databases within another command.
    "poetry run sqlite3 x.db {{q}}",
    "docker run image sqlite3 x.db {{q}}",
    "docker exec c duckdb x.db {{q}}",
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
    "sh {{q}}",
    "sh -c {{q}}",
    "sh -x -c {{q}}",
    "bash --norc -c {{q}}",
    "bash -o pipefail -c {{q}}",
    "bash -c 'echo $1' bash {{q}}",
    "perl -ne {{q}}",
    "python3 -u -c {{q}}",
    "node -p {{q}}",
    "env {{q}}",
    "env -S {{q}}",
    "env A=1 {{q}}",
    "su -c {{q}}",
    "sudo -u x {{q}}",
    "timeout 5 {{q}}",
    "awk {{q}}",
    "sed -n {{q}} f",
    "xargs {{q}}",
    "make {{q}}",
    "npx {{q}}",
    "tar -I {{q}} -xf a",
    "docker exec c sh {{q}}",
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
    let others: Vec<_> = WARNED.iter().filter(|bad| is_refused(bad) || !is_found(bad)).collect();
    assert!(others.is_empty(), "{others:#?}");
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
    let accepted: Vec<_> = all.filter(|bad| !is_found(bad)).collect();
    assert!(accepted.is_empty(), "{accepted:#?}");
    for outer in OUTER {
        assert_eq!(with_text(&format!("{outer} ls -l {{{{q}}}}")), Ok(()), "{outer}");
    }
}

#[test]
fn callers_may_choose_among_what_is_listed() {
    for good in [
        "make {{q}}",
        "git -c {{q}} log",
        "tar -I {{q}} -xf a",
        "rsync --rsh={{q}} a b",
        "curl -K{{q}}",
    ] {
        assert_eq!(check(good, &json!({ "type": "string", "enum": ["1", "2"] })), Ok(()), "{good}");
        assert!(check(good, &json!({ "type": "string", "pattern": ".*" })).is_err(), "{good}");
    }
    let number = json!({ "type": "integer" });
    for good in
        ["make -j {{q}} all", "sed -n {{q}}p", "sed -e {{q}}p f", "git log --oneline -n {{q}}"]
    {
        assert_eq!(check(good, &number), Ok(()), "{good}");
    }
}

#[test]
fn a_word_that_may_be_left_out_can_not_hold_the_place_of_another() {
    let properties = json!({
        "n": { "type": "integer" },
        "list": { "type": "array", "items": { "type": "string" } },
        "box": { "type": "string" },
        "q": { "type": "string" },
    });
    let code = |template: &str| {
        let used = ["n", "list", "box", "q"]
            .into_iter()
            .filter(|name| template.contains(&format!("{{{{{name}")));
        let some: serde_json::Map<_, _> =
            used.map(|name| (name.to_owned(), properties[name].clone())).collect();
        let parameters = json!({ "type": "object", "properties": some, "required": ["q"] });
        match Template::parse(template, &parameters) {
            Err(error) => Err(error.code()),
            Ok(template) if template.warning().is_some() => Err("warning"),
            Ok(_) => Ok(()),
        }
    };
    for bad in ["sed {{n}}p {{q}}", "sed -e {{n}}p {{q}}", "awk -v {{list...}} 1 {{q}}"] {
        assert_eq!(code(bad), Err("E_TEMPLATE_INTERPRETER"), "{bad}");
    }
    for bad in [
        "docker exec {{box}} ls {{q}}",
        "docker exec {{list...}} ls {{q}}",
        "docker exec -u {{list...}} c ls {{q}}",
        "kubectl exec {{box}} ls {{q}}",
        "conda run -n {{list...}} ls {{q}}",
    ] {
        assert_eq!(code(bad), Err("warning"), "{bad}");
    }
    for good in [
        "sed p {{q}} {{list...}}",
        "docker exec -u {{box}} {{q}} ls",
        "conda run -n {{box}} ls {{q}}",
    ] {
        assert_eq!(code(good), Ok(()), "{good}");
    }
}

#[test]
fn dashes_of_an_outer_program_protect_no_inner_one() {
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
        "npm run build -- {{q}}",
        "npm exec -- prettier {{q}}",
        "npx -- prettier {{q}}",
        "cargo run -- {{q}}",
        "poetry run -- ruff {{q}}",
        "unheard-of exec -- ls {{q}}",
        "stack run -- {{q}}",
        "docker exec c cargo run -- {{q}}",
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
    ] {
        assert_eq!(fill(good), Ok(()), "{good}");
    }
}
