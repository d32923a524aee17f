use super::*;

fn home(variables: &[(&str, &str)]) -> Option<Home> {
    Home::of(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn the_home_follows_the_base_directories() {
    let paths = |variables: &[(&str, &str)]| {
        home(variables).map(|home| format!("{} {}", home.config.display(), home.data.display()))
    };
    let plain = "/home/ann/.config/drawgate/drawgate.toml /home/ann/.local/share/drawgate";
    assert_eq!(paths(&[("HOME", "/home/ann")]).as_deref(), Some(plain));
    let own = [("XDG_CONFIG_HOME", "/c"), ("XDG_DATA_HOME", "/d")];
    assert_eq!(paths(&own).as_deref(), Some("/c/drawgate/drawgate.toml /d/drawgate"));
    let relative = [("HOME", "/home/ann"), ("XDG_CONFIG_HOME", "c"), ("XDG_DATA_HOME", "d")];
    assert_eq!(paths(&relative).as_deref(), Some(plain), "relative ones do not count");
    assert_eq!(paths(&[]), None);
    assert_eq!(paths(&[("HOME", "relative")]), None);
}

#[test]
fn a_gateway_is_found_by_what_is_named() {
    let defaults = drawgate_runtime::config::Config::load;
    let check = |config: Option<&str>, data: Option<&str>, source: ConfigSource, folder: &str| {
        let home = || Ok(Home { config: "/c/drawgate.toml".into(), data: "/d".into() });
        let target = Target::new(config.map(Path::new), data.map(Path::new), home).unwrap();
        assert_eq!(target.source, source, "{config:?} {data:?}");
        let loaded = defaults(ConfigSource::Defaults(PathBuf::new())).unwrap();
        assert_eq!(target.data(&loaded), Path::new(folder), "{config:?} {data:?}");
        let mut loaded = loaded;
        loaded.config.data = Some("/elsewhere".into());
        assert_eq!(target.data(&loaded), Path::new(data.unwrap_or("/elsewhere")));
        assert_eq!(target.is_home, config.is_none() && data.is_none());
    };
    let (file, optional) = (ConfigSource::File, ConfigSource::Optional);
    check(None, None, optional("/c/drawgate.toml".into()), "/d");
    check(None, Some("/x"), optional("/x/drawgate.toml".into()), "/x");
    check(Some("p/own.toml"), None, file("p/own.toml".into()), "p/.drawgate");
    check(Some("own.toml"), None, file("own.toml".into()), ".drawgate");
    check(Some("own.toml"), Some("/x"), file("own.toml".into()), "/x");
    check(Some("none"), None, ConfigSource::Defaults("/d".into()), "/d");
    check(Some("none"), Some("/x"), ConfigSource::Defaults("/x".into()), "/x");
}

#[test]
fn the_home_is_asked_for_only_where_it_counts() {
    let home = || anyhow::bail!("not known");
    assert!(Target::new(None, None, home).is_err());
    assert!(Target::new(Some(Path::new("none")), None, home).is_err());
    assert!(Target::new(None, Some(Path::new("x")), home).is_ok());
    assert!(Target::new(Some(Path::new("own.toml")), None, home).is_ok());
}
