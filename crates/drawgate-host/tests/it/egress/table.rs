//! Every row of the table, fetched as a tool would.

use std::time::{Duration, Instant};

use drawgate_host::egress::{Egress, EgressError, Excerpt, Fetch};
use http::{HeaderMap, HeaderValue, Method};

use super::secure::trusting;
use super::town::Town;
use super::{excerpt, get, text};

const ROWS: &str = include_str!("ssrf.tsv");

/// Rows that need more than one request, and who tests them.
const ELSEWHERE: &[(&str, &str)] =
    &[("name_dns_timeout", "a_resolver_that_never_answers_is_not_waited_for")];

fn class(outcome: &Result<Excerpt, EgressError>) -> &'static str {
    let error = match outcome {
        Ok(excerpt) if excerpt.is_cut => return "CUT_AT_LIMIT",
        Ok(_) => return "ALLOW",
        Err(error) => error,
    };
    match error.code() {
        "scheme" => "DENY_SCHEME",
        "url" => "DENY_URL",
        "userinfo" => "DENY_USERINFO",
        "port" => "DENY_PORT",
        "host" => "DENY_HOST",
        "private_address" => "DENY_PRIVATE_IP",
        "redirects" => "DENY_REDIRECTS",
        "downgrade" => "DENY_DOWNGRADE",
        "cross_origin_body" => "DENY_CROSS_ORIGIN_BODY",
        "timeout" => "DENY_TIMEOUT",
        "tls" => "DENY_TLS",
        "protocol" => "DENY_PROTOCOL",
        "truncated" => "DENY_TRUNCATED",
        // What would be too much is either cut or, by what it is packed in, refused.
        "encoding" if is_of_a_bomb(error) => "CUT_AT_LIMIT",
        other => panic!("`{other}` is no class of the table: {error}"),
    }
}

/// Whether an answer is refused for how much it would unpack to, not for being damaged.
fn is_of_a_bomb(error: &EgressError) -> bool {
    let said = error.to_string();
    ["times its size", "is packed more than once", "`br` was not asked for"]
        .iter()
        .any(|words| said.ends_with(words))
}

fn fits(expected: &str, class: &str) -> bool {
    expected.split('|').any(|wanted| {
        wanted == class
            || (class == "ALLOW" && wanted.starts_with("ALLOW_"))
            || (wanted == "DENY" && class.starts_with("DENY_"))
    })
}

async fn fetch(egress: &Egress, name: &str, url: &str) -> Result<Excerpt, EgressError> {
    let secret = HeaderValue::from_static("TGCANARY");
    let mut headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, secret.clone())]);
    headers.insert("x-api-key", secret.clone());
    headers.insert("cookie", secret);
    let mut fetch = Fetch { headers, ..get(url)? };
    match name {
        "redir_307_body" => {
            fetch.method = Method::POST;
            fetch.body = "body".into();
        }
        "body_slow_body" | "body_sse_endless" => {
            fetch.deadline = Instant::now() + Duration::from_millis(300);
        }
        _ => {}
    }
    egress.excerpt(fetch).await
}

#[tokio::test]
async fn every_row_holds() {
    let town = Town::start().await;
    let egress = trusting(&town);
    let mut wrong = Vec::new();
    let mut count = 0;
    for row in ROWS.lines().skip(1) {
        let [name, url, expected, ..] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not a row: {row}")
        };
        if ELSEWHERE.iter().any(|(elsewhere, _)| *elsewhere == name) {
            continue;
        }
        let mut url: String = serde_json::from_str(url).unwrap();
        if name == "redir_downgrade" {
            url = url.replacen("http:", "https:", 1);
        }
        let outcome = fetch(&egress, name, &url).await;
        let class = class(&outcome);
        if !fits(expected, class) {
            wrong.push(format!("{name}: {class} instead of {expected}"));
        }
        let said = outcome.map_or_else(
            |error| error.to_string(),
            |excerpt| {
                let elsewhere = excerpt.fetched.url.host_str() != Some("hostile.tg.test");
                let body = String::from_utf8_lossy(&excerpt.fetched.body).into_owned();
                if elsewhere { body } else { String::new() }
            },
        );
        assert!(!said.contains("TGCANARY"), "{name}: {said}");
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 100, "{count}");
    assert_eq!(town.breaches(), 0);
}

#[tokio::test]
async fn five_redirects_are_followed() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    assert_eq!(text(&egress, "http://hostile.tg.test/chain?n=5").await, "chain");
    let error = excerpt(&egress, "http://hostile.tg.test/chain?n=6").await.unwrap_err();
    assert_eq!(error.code(), "redirects");
}

#[tokio::test]
async fn credentials_go_to_their_own_server_only() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for (to, kept) in [("http://hostile.tg.test/echo", true), ("http://other.tg.test/echo", false)]
    {
        let url = format!("http://hostile.tg.test/redir?to={to}");
        let excerpt = fetch(&egress, "", &url).await.unwrap();
        let seen = String::from_utf8_lossy(&excerpt.fetched.body).to_ascii_lowercase();
        for name in ["authorization", "x-api-key", "cookie"] {
            assert_eq!(seen.contains(name), kept, "{name} at {to}");
        }
        assert!(seen.contains("user-agent: drawgate/"), "{seen}");
        assert_eq!(excerpt.fetched.url.as_str(), to);
    }
}

#[tokio::test]
async fn there_is_no_memory_between_requests() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for _ in 0..2 {
        let seen = text(&egress, "http://hostile.tg.test/cookie").await;
        assert!(!seen.to_ascii_lowercase().contains("cookie:"), "{seen}");
    }
}

#[tokio::test]
async fn sizes_count_what_comes_out() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    assert_eq!(text(&egress, "http://hostile.tg.test/gzip").await, "unpacked");
    let long = get("http://hostile.tg.test/long").unwrap();
    let cut = egress.excerpt(long.clone()).await.unwrap();
    assert_eq!((cut.fetched.body.len(), cut.is_cut), (1_000_000, true));
    assert!(matches!(egress.fetch(long).await, Err(EgressError::TooLarge(1_000_000))));
    let stays = text(&egress, "http://hostile.tg.test/metarefresh").await;
    assert!(stays.ends_with("stay"), "{stays}");
}
