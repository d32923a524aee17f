//! Egress against a hostile town: names that lie, servers that misbehave, and inner addresses that
//! nobody may knock at.

mod abuse;
mod answers;
mod bombs;
mod certificates;
mod locations;
mod pace;
mod packing;
mod proxy;
mod rebinding;
mod secure;
mod smuggling;
mod table;
mod town;

use std::sync::Arc;
use std::time::{Duration, Instant};

use drawgate_host::egress::{
    AnswerBody, Body, Egress, EgressError, Excerpt, Fetch, HostRule, Reach, address,
};
use http::{Request, Response};
use secure::trusting;
use town::Town;

/// Keeps a clock that jumps from standing still to the next event where it is, until this is dropped:
/// what passes between real sockets takes no time then.
fn hold_time() -> std::sync::mpsc::Sender<()> {
    let (hold, release) = std::sync::mpsc::channel();
    // The clock waits for work that blocks.
    tokio::task::spawn_blocking(move || release.recv());
    hold
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn rules(texts: &[&str]) -> Vec<HostRule> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// A document of the internet.
fn get(url: &str) -> Result<Fetch, EgressError> {
    Ok(Fetch::get(address::parse(url)?, Reach::public(), soon(), 1_000_000))
}

async fn excerpt(egress: &Egress, url: &str) -> Result<Excerpt, EgressError> {
    egress.excerpt(get(url)?).await
}

async fn ask(
    egress: &Egress,
    url: &str,
    reach: &Reach,
) -> Result<Response<AnswerBody>, EgressError> {
    let request = Request::get(url).body(Body::default()).unwrap();
    egress.request(request, reach, soon()).await
}

async fn text(egress: &Egress, url: &str) -> String {
    let excerpt = excerpt(egress, url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    String::from_utf8(excerpt.fetched.body.to_vec()).unwrap()
}

#[tokio::test]
async fn a_connection_made_for_anywhere_serves_nobody_else() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    let url = "http://inner.tg.test/plain";
    let own = Reach::own(&url.parse().unwrap());
    for _ in 0..3 {
        let answer = ask(&egress, url, &own).await.unwrap();
        let body = drawgate_host::egress::read_body(answer.into_body(), 100, soon()).await;
        assert_eq!(body.unwrap(), "plain");
    }
    assert_eq!(town.visits(), 1, "the connection is kept");
    for reach in [Reach::public(), Reach::only(rules(&["inner.tg.test"]))] {
        let error = ask(&egress, url, &reach).await.unwrap_err();
        assert_eq!(error.code(), "private_address", "{error}");
        assert!(error.nothing_was_sent());
    }
    assert_eq!(town.visits(), 1);
}

#[tokio::test]
async fn the_operator_may_allow_inner_hosts() {
    let town = Town::start().await;
    let egress = Arc::new(Egress::over(town.network()));
    let url = "http://inner.tg.test/plain";
    assert_eq!(excerpt(&egress, url).await.unwrap_err().code(), "private_address");
    egress.allow(rules(&["inner.tg.test"]));
    assert_eq!(text(&egress, url).await, "plain");
    let named = Reach::only(rules(&["inner.tg.test"]));
    assert!(ask(&egress, url, &named).await.is_ok());
    let strangers = Reach::only(rules(&["other.tg.test"]));
    assert_eq!(ask(&egress, url, &strangers).await.unwrap_err().code(), "host");
    egress.allow(Vec::new());
    assert_eq!(excerpt(&egress, url).await.unwrap_err().code(), "private_address");
}

/// Whoever asks, and however: what holds for documents holds for every request.
#[tokio::test]
async fn no_way_out_puts_up_with_broken_answers() {
    let town = Town::start().await;
    let egress = trusting(&town);
    for scheme in ["http", "https"] {
        for (path, expected) in [
            ("flood100", "it never comes to the point"),
            ("clte", "it says its length in two ways"),
        ] {
            let url = format!("{scheme}://hostile.tg.test/{path}");
            let error = ask(&egress, &url, &Reach::public()).await.unwrap_err();
            assert_eq!(error.code(), "protocol", "{url}: {error}");
            assert!(error.to_string().contains(expected), "{url}: {error}");
            let request = Request::get(&url).header("upgrade", "x").header("connection", "upgrade");
            let request = request.body(Body::default()).unwrap();
            let error = egress.upgrade(request, &Reach::public(), soon()).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{url}: {error}");
        }
    }
}

#[tokio::test]
async fn the_operator_may_allow_names_of_no_internet() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    for url in ["http://a.private/plain", "http://x.metadata.goog/plain"] {
        assert_eq!(excerpt(&egress, url).await.unwrap_err().code(), "host");
        assert_eq!(town.visits(), 0, "{url}");
    }
    egress.allow(rules(&["a.private"]));
    assert_eq!(text(&egress, "http://a.private/plain").await, "plain");
}

#[tokio::test]
async fn one_inner_address_among_public_ones_is_enough() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    let error = excerpt(&egress, "http://mixed.tg.test/plain").await.unwrap_err();
    assert_eq!(error.code(), "private_address");
    assert_eq!(town.visits(), 0);
}

/// The words for an inner address are the same whether something is there or not.
#[tokio::test]
async fn refusals_tell_nothing_about_inner_servers() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    let say = async |to: &str| {
        let url = format!("http://hostile.tg.test/redir?to={to}");
        excerpt(&egress, &url).await.unwrap_err().to_string()
    };
    let open = say(&format!("http://{}/", town.address())).await;
    let closed = say("http://127.0.0.1:1/").await;
    let port = town.address().port().to_string();
    assert_eq!(open.replace(&port, "1"), closed);
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_never_answers_is_not_waited_for() {
    let town = Town::deserted();
    let egress = Egress::over(town.network());
    let error = excerpt(&egress, "http://slowdns.tg.test/").await.unwrap_err();
    assert_eq!(error.code(), "timeout");
    assert!(error.nothing_was_sent(), "{error}");
}

#[tokio::test]
async fn a_name_of_nobody_is_said_to_be_so() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    let error = excerpt(&egress, "http://nowhere.tg.test/?k=TGCANARY").await.unwrap_err();
    assert_eq!((error.code(), error.nothing_was_sent()), ("connect", true), "{error}");
    assert_eq!(error.to_string(), "no connection to `nowhere.tg.test`: the name can't be resolved");
}
