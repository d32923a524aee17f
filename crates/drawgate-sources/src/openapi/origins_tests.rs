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
