use drawgate_host::egress::Admission;

use super::*;

/// A home folder with files, and an environment.
struct Lab {
    home: tempfile::TempDir,
    operator: Operator,
}

impl Lab {
    fn new(files: &[(&str, &str)], env: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let own = [("XDG_CONFIG_DIRS", "/nowhere"), ("npm_config_globalconfig", "/nowhere")];
        let env = own.iter().chain(env).map(|(name, value)| ((*name).into(), (*value).into()));
        let operator = Operator { env: env.collect(), home: home.path().to_owned() };
        Self { home, operator }
    }
}

fn file<'a>(settings: &'a Settings, name: &str) -> &'a str {
    settings.files.iter().find(|file| file.name == name).map_or("", |file| &file.text)
}

fn reaches(settings: &Settings, host: &str, port: u16) -> bool {
    settings.reach().admits(host, port) == Admission::Anywhere
}

#[test]
fn npm_is_told_about_registries_and_nothing_else() {
    let own = "; ours\n\
        registry = https://npm.corp.example:8443/npm/\n\
        @team:registry=http://10.1.2.3:4873\n\
        //npm.corp.example:8443/npm/:_authToken=${TOKEN}\n\
        //10.1.2.3:4873/:_auth = \"YTpi\"\n\
        cafile=~/ca.pem\n\
        git=/home/ada/git\nscript-shell=/bin/evil\nignore-scripts=false\nnode-options=--require x\n\
        proxy=http://proxy.corp.example:3128\nprefix=/home/ada/.npm\n\
        [section]\nregistry=http://127.0.0.1:9/\n";
    let env = [
        ("TOKEN", "npm_1234"),
        ("NPM_CONFIG_STRICT_SSL", "false"),
        ("npm_config_script_shell", "/bin/evil"),
        ("npm_config_//other.example/:_authToken", "#two"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
    ];
    let lab = Lab::new(&[(".npmrc", own), ("ca.pem", "")], &env);
    let options = ["--@more:registry=http://192.168.1.1/".to_owned()];
    let settings = npm(&lab.operator, None, &options);
    let home = lab.home.path().display();
    assert_eq!(
        file(&settings, "npmrc").replace(&home.to_string(), "HOME"),
        "fetch-retries=1\nfetch-retry-mintimeout=1000\nfetch-retry-maxtimeout=2000\n\
         registry=https://npm.corp.example:8443/npm/\n\
         @team:registry=http://10.1.2.3:4873\n\
         //npm.corp.example:8443/npm/:_authToken=npm_1234\n\
         //10.1.2.3:4873/:_auth=\"YTpi\"\n\
         cafile=HOME/ca.pem\n\
         strict-ssl=\"false\"\n\
         //other.example/:_authToken=\"#two\"\n\
         @more:registry=\"http://192.168.1.1/\"\n"
    );
    let names: Vec<&str> = settings.env.keys().map(String::as_str).collect();
    assert_eq!(names, ["npm_config_globalconfig"]);
    for (host, port, expected) in [
        ("npm.corp.example", 8443, true),
        ("npm.corp.example", 22, false),
        ("10.1.2.3", 4873, true),
        ("192.168.1.1", 80, true),
        ("other.example", 443, false),
        ("proxy.corp.example", 3128, false),
        ("127.0.0.1", 9, false),
    ] {
        assert_eq!(reaches(&settings, host, port), expected, "{host}:{port}");
    }
    assert_eq!(settings.named_files(), [lab.home.path().join("ca.pem")]);
    assert_eq!(settings.proxy.as_deref(), Some("http://proxy.corp.example:3128"));
}

#[test]
fn pip_is_told_about_indexes_and_nothing_else() {
    let conf = "[global]\nindex-url = https://ada:secret@pypi.corp.example/simple\n\
        extra-index-url =\n    http://10.0.0.1/simple\n    http://10.0.0.2:81/simple\n\
        no-binary = :all:\nno_color: true\n[install]\nfind-links = /opt\n[wheel]\nindex-url = http://10.0.0.9\n";
    let netrc = "machine 10.0.0.1 login a password b\nmachine git.example login c password d\n\
        default login e password f\n";
    let env = [("PIP_NO_BINARY", "x"), ("PIP_PYTHON", "x"), ("PIP_CERT", "/etc/hosts")];
    let lab = Lab::new(&[(".config/pip/pip.conf", conf), (".netrc", netrc)], &env);
    let settings = pip(&lab.operator, &["--default-index=http://10.0.0.3/simple".to_owned()]);
    let expected = [
        ("PIP_CERT", "/etc/hosts"),
        ("PIP_CONFIG_FILE", "/dev/null"),
        ("PIP_EXTRA_INDEX_URL", " http://10.0.0.1/simple http://10.0.0.2:81/simple"),
        ("PIP_FIND_LINKS", "/opt"),
        ("PIP_INDEX_URL", "http://10.0.0.3/simple"),
        ("PIP_NO_CACHE_DIR", "1"),
        ("PIP_NO_INPUT", "1"),
        ("PIP_RETRIES", "1"),
    ];
    let found = settings.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert_eq!(file(&settings, "netrc"), "machine 10.0.0.1 login a password b\n");
    for (host, port, expected) in [
        ("10.0.0.1", 80, true),
        ("10.0.0.2", 81, true),
        ("10.0.0.3", 80, true),
        ("10.0.0.9", 80, false),
    ] {
        assert_eq!(reaches(&settings, host, port), expected, "{host}:{port}");
    }
    assert_eq!(settings.named_files(), [PathBuf::from("/etc/hosts"), PathBuf::from("/opt")]);
}

#[test]
fn uv_is_told_about_indexes_and_nothing_else() {
    let own = "no-build = false\ncompile-bytecode = true\npython-downloads = \"automatic\"\n\
        [[index]]\nname = \"corp\"\nurl = \"https://10.0.0.1:8443/simple\"\ndefault = true\n\
        [pip]\nextra-index-url = [\"http://10.0.0.2/simple\"]\nno-build-isolation = true\n";
    let env = [
        ("UV_INDEX_CORP_PASSWORD", "secret"),
        ("UV_COMPILE_BYTECODE", "1"),
        ("UV_NO_BINARY_PACKAGE", "x"),
        ("UV_INDEX", "more=http://10.0.0.3/simple"),
        ("UV_CACHE_DIR", "/home/ada/cache"),
        ("PYTHONPATH", "x"),
    ];
    let lab = Lab::new(&[(".config/uv/uv.toml", own)], &env);
    let settings = uv(&lab.operator, &["--index-url=http://10.0.0.4/simple".to_owned()]);
    let table: toml::Table = file(&settings, "uv.toml").parse().unwrap();
    let expected: toml::Table =
        "index = [{ name = \"corp\", url = \"https://10.0.0.1:8443/simple\", default = true }]\n\
         [pip]\nextra-index-url = [\"http://10.0.0.2/simple\"]\n"
            .parse()
            .unwrap();
    assert_eq!(table, expected);
    let names: Vec<&str> = settings.env.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "UV_HTTP_RETRIES",
            "UV_INDEX",
            "UV_INDEX_CORP_PASSWORD",
            "UV_INDEX_URL",
            "UV_PYTHON_DOWNLOADS",
            "UV_PYTHON_INSTALL_DIR"
        ]
    );
    for (host, port) in [("10.0.0.1", 8443), ("10.0.0.2", 80), ("10.0.0.3", 80), ("10.0.0.4", 80)] {
        assert!(reaches(&settings, host, port), "{host}:{port}");
    }
}
