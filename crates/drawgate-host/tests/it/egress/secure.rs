//! `https`, with a real server: who is believed, and who is not.

use std::sync::Arc;

use drawgate_host::egress::{Authorities, Egress};

use super::town::Town;
use super::{certificates, excerpt, text};

/// A way out that trusts the town's authority.
pub(super) fn trusting(town: &Town) -> Egress {
    let egress = Egress::over(town.network());
    egress.trust(certificates::authority());
    egress
}

#[tokio::test]
async fn a_server_that_proves_its_name_is_believed() {
    let town = Town::start().await;
    let egress = trusting(&town);
    assert_eq!(text(&egress, "https://good.tg.test/plain").await, "plain");
    assert_eq!(text(&egress, "https://good.tg.test/gzip").await, "unpacked");
    assert!(town.heads()[0].contains("host: good.tg.test\r\n"), "{:?}", town.heads());
}

/// Each is refused before anything of the request is sent.
#[tokio::test]
async fn others_are_refused_in_clear_words() {
    let town = Town::start().await;
    let egress = trusting(&town);
    for (host, words) in [
        ("wrongname.tg.test", "the certificate of `wrongname.tg.test` is one for other names"),
        ("expired.tg.test", "the certificate of `expired.tg.test` has expired"),
        ("early.tg.test", "the certificate of `early.tg.test` is not valid yet"),
        ("foreign.tg.test", "`[egress] ca_file`"),
        // The wildcard is for one label, and for names.
        ("a.b.tg.test", "is one for other names"),
        ("tg.test", "is one for other names"),
    ] {
        let error = excerpt(&egress, &format!("https://{host}/TGCANARY")).await.unwrap_err();
        assert_eq!(error.code(), "tls", "{host}: {error}");
        assert!(error.nothing_was_sent(), "{host}");
        let said = error.to_string();
        assert!(said.contains(words) && said.contains(host), "{host}: {said}");
        assert!(!said.contains("TGCANARY"), "{said}");
    }
    assert_eq!(town.heads(), [""; 0]);
}

#[tokio::test]
async fn a_server_without_tls_is_no_safe_one() {
    let town = Town::start().await;
    let egress = trusting(&town);
    egress.allow(vec!["good.tg.test:8443".parse().unwrap()]);
    // Whatever is not at 443 speaks plainly here.
    let error = excerpt(&egress, "https://good.tg.test:8443/plain").await.unwrap_err();
    assert_eq!((error.code(), error.nothing_was_sent()), ("tls", true), "{error}");
    assert!(error.to_string().contains("`good.tg.test:8443` does not speak TLS"), "{error}");
}

#[tokio::test]
async fn trust_can_be_given_and_taken_away() {
    let town = Town::start().await;
    let egress = Arc::new(Egress::over(town.network()));
    let url = "https://good.tg.test/plain";
    let refused = async || excerpt(&egress, url).await.unwrap_err().code();
    assert_eq!(refused().await, "tls");
    egress.trust(certificates::authority());
    assert_eq!(text(&egress, url).await, "plain");
    // A connection that is still open must not serve who is no longer vouched for.
    egress.trust(Authorities::default());
    assert_eq!(refused().await, "tls");
    assert_eq!(town.heads().len(), 1);
}

#[test]
fn files_of_authorities_are_checked() {
    let authority = include_str!("certificates/authority.pem");
    let two = format!("# ours\n{authority}\nand theirs\n{authority}");
    assert!(Authorities::from_pem(two.as_bytes()).is_ok());
    let key = include_str!("certificates/key.pem");
    let hollow = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, words) in [
        (String::new(), "no certificate"),
        (key.to_owned(), "no certificate"),
        (hollow.to_owned(), "number 1"),
        (format!("{authority}{hollow}"), "number 2"),
        ("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n".to_owned(), "number 1"),
    ] {
        let error = Authorities::from_pem(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[tokio::test]
async fn redirects_never_lead_from_https_to_http() {
    let town = Town::start().await;
    let egress = trusting(&town);
    let leads = |from: &str, to: &str| format!("{from}://hostile.tg.test/redir?to={to}");
    let deep = leads("https", "https://other.tg.test/redir?to=http://third.tg.test/plain");
    for url in [
        leads("https", "http://example.com/"),
        leads("https", "http://hostile.tg.test/plain"),
        leads("https", "http://good.tg.test:443/plain"),
        leads("http", &leads("https", "http://example.com/")),
        deep,
    ] {
        let before = town.visits();
        let error = excerpt(&egress, &url).await.unwrap_err();
        assert_eq!(error.code(), "downgrade", "{url}: {error}");
        assert!(town.visits() - before <= usize::from(url.starts_with("http:")), "{url}");
    }
    for (from, to) in [
        ("https", "https://other.tg.test/plain"),
        ("https", "//other.tg.test/plain"),
        ("https", "/plain"),
        ("http", "https://other.tg.test/plain"),
    ] {
        assert_eq!(text(&egress, &leads(from, to)).await, "plain", "{from} to {to}");
    }
}
