//! Renewal: before the end, on refusal, once for many, and what happens when it fails.

use drawgate_host::credentials::Bearer as _;
use drawgate_sources::mcp::oauth::LoginState;

use super::*;

/// Renewals that the authorization server has seen.
fn renewals(stage: &Stage) -> usize {
    let all = stage.world.seen("/token");
    all.iter().filter(|form| form["grant_type"] == "refresh_token").count()
}

#[tokio::test]
async fn tokens_are_renewed_before_they_end() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    let first = stage.header().await;
    stage.clock.advance(3_539_000);
    assert_eq!(stage.header().await, first);
    stage.clock.advance(2_000);
    let second = stage.header().await;
    assert_ne!(second, first);
    assert_eq!(renewals(&stage), 1);
    let sent = stage.world.seen("/token").remove(1);
    assert_eq!(sent["resource"], stage.world.url());
    // The refresh token changed, and the new one is used the next time, after a restart too.
    stage.world.behave(|it| it.expires_in = 7200);
    let stage = stage.restarted().await;
    stage.clock.advance(2 * 3_600_000);
    assert_ne!(stage.header().await, second);
    assert_eq!(renewals(&stage), 2);
    assert_ne!(stage.world.seen("/token")[2]["refresh_token"], sent["refresh_token"]);
}

#[tokio::test]
async fn many_requests_make_one_renewal() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    stage.clock.advance(3_600_000);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let login = Arc::clone(&stage.login);
        asking.spawn(async move { login.header().await.unwrap().unwrap() });
    }
    let headers = asking.join_all().await;
    assert!(headers.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(renewals(&stage), 1);
}

#[tokio::test]
async fn a_caller_that_gives_up_loses_no_token() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    stage.clock.advance(3_600_000);
    {
        // Polled once, which begins the renewal, and dropped.
        let mut asked = std::pin::pin!(stage.login.header());
        let waker = std::task::Waker::noop();
        let mut context = std::task::Context::from_waker(waker);
        assert!(Future::poll(asked.as_mut(), &mut context).is_pending());
    }
    stage.header().await;
    assert_eq!(renewals(&stage), 1, "the second caller waits for the first one's renewal");
}

#[tokio::test]
async fn old_tokens_are_not_masked_for_ever() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    for _ in 0..10 {
        stage.clock.advance(3_600_000);
        stage.header().await;
    }
    assert_eq!(stage.host.secrets.known_values().len(), 6, "three generations of two");
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    let first = stage.header().await;
    assert_eq!(stage.rejected(401, "Bearer").await, Ok(true));
    let second = stage.header().await;
    assert_ne!(first, second);
    // A late refusal of the first token: there is a new one already.
    let mut headers = HeaderMap::new();
    headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    let late =
        stage.login.rejected(Try::First, Some(&first), StatusCode::UNAUTHORIZED, &headers).await;
    assert!(late.unwrap());
    assert_eq!(renewals(&stage), 1);
    // The new one is refused too: no third is asked for, by later requests neither.
    for attempt in [Try::Again, Try::First] {
        let needed = stage.rejected_at(attempt, 401, "Bearer").await.unwrap_err();
        assert_eq!(
            needed,
            "the login at `far` has expired; the gateway's operator must log in again"
        );
    }
    assert_eq!(renewals(&stage), 1);
    assert_eq!(stage.login.state(), LoginState::Expired);
    // Much later, it is worth a try again.
    stage.clock.advance(120_000);
    assert_eq!(stage.rejected(401, "Bearer").await, Ok(true));
    assert_eq!(renewals(&stage), 2);
}

#[tokio::test]
async fn a_server_without_a_login_says_that_it_wants_one() {
    let stage = Stage::new().await;
    let needed = stage.rejected(401, "Bearer").await.unwrap_err();
    assert_eq!(needed, "`far` needs a login; the gateway's operator must log in");
    assert_eq!(stage.login.state(), LoginState::Needed);
}

#[tokio::test]
async fn revocation_ends_the_login_until_the_next() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    stage.world.revoke_all();
    stage.clock.advance(3_600_000);
    let expired = "the login at `far` has expired; the gateway's operator must log in again";
    assert_eq!(stage.login.header().await.unwrap_err().to_string(), expired);
    assert_eq!(stage.login.state(), LoginState::Expired);
    assert_eq!(stage.login.header().await.unwrap_err().to_string(), expired);
    assert_eq!(renewals(&stage), 1, "a refused refresh token is not tried again");
    let stage = stage.restarted().await;
    assert_eq!(stage.login.header().await.unwrap_err().to_string(), expired);
    let mut news = stage.logins.news();
    stage.log_in().await.unwrap();
    assert_eq!(news.recv().await.unwrap(), id());
    stage.header().await;
    assert_eq!(stage.world.seen("/register").len(), 1, "the client is still known");
}

#[tokio::test]
async fn an_authority_that_is_away_is_not_a_lost_login() {
    let stage = Stage::new().await;
    stage.log_in().await.unwrap();
    let first = stage.header().await;
    stage.world.behave(|it| it.token_status = Some(503));
    stage.clock.advance(3_545_000);
    assert_eq!(stage.header().await, first, "what is not over yet serves");
    stage.clock.advance(60_000);
    let needed = stage.login.header().await.unwrap_err().to_string();
    assert!(needed.contains("can't be renewed now"), "{needed}");
    let tries = renewals(&stage);
    stage.login.header().await.unwrap_err();
    assert_eq!(renewals(&stage), tries, "it is left alone for a while");
    stage.world.behave(|it| it.token_status = None);
    stage.clock.advance(10_000);
    assert_ne!(stage.header().await, first);
}

#[tokio::test]
async fn without_a_refresh_token_the_login_ends_with_its_token() {
    let stage = Stage::new().await;
    stage.world.behave(|it| it.refresh = false);
    stage.log_in().await.unwrap();
    stage.clock.advance(3_599_000);
    stage.header().await;
    stage.clock.advance(1_000);
    assert!(stage.login.header().await.unwrap_err().to_string().contains("has expired"));
    assert_eq!(stage.login.state(), LoginState::Expired);
}
