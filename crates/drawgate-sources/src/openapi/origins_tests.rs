use drawgate_host::egress::HostRule;

use super::*;

/// Where the document came from, `base_url`, `hosts`, where it leads, and what is said to that.
const ROWS: &[(&str, &str, &[&str], &str, &str)] = &[
    ("https://a.example/spec", "", &[], "https://a.example/v1", "fine"),
    ("https://a.example/spec", "", &[], "https://a.example:443/v1", "fine"),
    ("https://a.example/spec", "", &[], "https://a.example:8443/v1", "unnamed"),
    ("https://a.example/spec", "", &[], "http://a.example/v1", "unnamed"),
    ("https://a.example/spec", "", &[], "https://api.a.example/v1", "unnamed"),
    ("https://a.example/spec", "", &[], "http://127.0.0.1:8500/v1", "unnamed"),
    ("https://raw.example/spec", "", &[], "https://api.github.com", "unnamed"),
    ("http://127.0.0.1:80/spec", "", &[], "http://127.0.0.1:8500/v1", "unnamed"),
    ("https://a.example/spec", "https://b.example/v2", &[], "https://b.example/token", "fine"),
    ("https://a.example/spec", "http://b.example/v2", &[], "http://b.example/token", "fine"),
    ("https://a.example/spec", "https://b.example/v2", &[], "https://c.example/token", "unnamed"),
    ("https://a.example/spec", "", &["b.example"], "https://b.example/v1", "fine"),
    ("https://a.example/spec", "", &["*.b.example"], "https://x.b.example/v1", "fine"),
    ("https://a.example/spec", "", &["b.example"], "https://b.example:8443/v1", "unnamed"),
    ("https://a.example/spec", "", &["b.example:8443"], "https://b.example:8443/v1", "fine"),
    ("https://a.example/spec", "", &["b.example"], "https://c.example/v1", "unnamed"),
    ("https://a.example/spec", "", &["b.example"], "http://b.example/v1", "plain"),
    ("https://a.example/spec", "", &["a.example"], "http://a.example/v1", "plain"),
    ("http://a.example/spec", "", &["b.example"], "http://b.example/v1", "fine"),
    ("http://a.example/spec", "", &["[::1]:8080"], "http://[::1]:8080/v1", "fine"),
    ("", "", &[], "https://anywhere.example/v1", "fine"),
    ("", "", &["b.example"], "http://c.example/v1", "fine"),
];

#[test]
fn a_fetched_document_leads_to_its_own_server_or_to_a_named_one() {
    for (fetched, base, hosts, to, expected) in ROWS {
        let url = |text: &str| (!text.is_empty()).then(|| Url::parse(text).unwrap());
        let (fetched, base) = (url(fetched), url(base));
        let rules = hosts.iter().map(|host| host.parse::<HostRule>().unwrap());
        let hosts = (!hosts.is_empty()).then(|| Reach::only(rules));
        let origins = Origins { fetched: fetched.as_ref(), base: base.as_ref(), hosts };
        let said = match origins.check(&Url::parse(to).unwrap()) {
            Ok(()) => "fine",
            Err(Stray::Unnamed { .. }) => "unnamed",
            Err(Stray::Plain(_)) => "plain",
        };
        assert_eq!(said, *expected, "{fetched:?} {base:?} {to}");
    }
}

/// Where the document came from, `hosts`, where it leads, and what is advised.
const ADVICE: &[(&str, &[&str], &str, &str)] = &[
    ("https://a.example/spec", &[], "https://b.example/v1", "or add its host to `hosts`"),
    ("http://a.example/spec", &[], "http://b.example/v1", "or add its host to `hosts`"),
    ("http://a.example/spec", &[], "http://b.example:443/v1", "or add its host to `hosts`"),
    (
        "https://a.example/spec",
        &[],
        "https://a.example:8443/v1",
        "or add `a.example:8443` to `hosts`",
    ),
    (
        "https://a.example/spec",
        &["b.example"],
        "https://b.example:8443/v1",
        "or add `b.example:8443` to `hosts`",
    ),
    ("http://a.example/spec", &[], "http://[::1]:8080/v1", "or add `[::1]:8080` to `hosts`"),
    (
        "https://a.example/spec",
        &["b.example"],
        "http://b.example/v1",
        "set `base_url` to it if it is meant",
    ),
    ("https://a.example/spec", &[], "http://b.example/v1", "set `base_url` to it if it is meant"),
    (
        "https://a.example/spec",
        &[],
        "http://b.example:8080/v1",
        "set `base_url` to it if it is meant",
    ),
];

#[test]
fn the_advice_is_what_helps() {
    for (fetched, hosts, to, expected) in ADVICE {
        let (fetched, to) = (Url::parse(fetched).unwrap(), Url::parse(to).unwrap());
        let rules: Vec<HostRule> = hosts.iter().map(|host| host.parse().unwrap()).collect();
        let hosts = Some(Reach::only(rules.clone()));
        let stray = Origins { fetched: Some(&fetched), base: None, hosts }.check(&to).unwrap_err();
        let advice = stray.advice();
        assert!(advice.contains(expected), "{to}: {advice}");
        assert_eq!(advice.contains("`hosts`"), expected.contains("`hosts`"), "{to}: {advice}");

        // Whoever follows it gets there, and what is not advised would not help.
        let (host, port) = (to.host_str().unwrap(), to.port_or_known_default().unwrap());
        let is_usual = expected.contains("its host");
        let named = if is_usual { host.to_owned() } else { format!("{host}:{port}") };
        let hosts = Some(Reach::only(rules.into_iter().chain([named.parse().unwrap()])));
        let followed = Origins { fetched: Some(&fetched), base: None, hosts }.check(&to);
        assert_eq!(followed.is_ok(), expected.contains("`hosts`"), "{to}: {followed:?}");
        let based = Origins { fetched: Some(&fetched), base: Some(&to), hosts: None }.check(&to);
        assert_eq!(based, Ok(()), "{to}");
    }
}
