//! Answers that come too slowly to be honest. Time stands still here and jumps to what is waited for.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use drawgate_host::egress::{Egress, EgressError, Excerpt, Fetch};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::sleep;

use super::town::{Ledger, Town};
use super::{get, hold_time};

/// Long enough for a patient reader to spend an hour on it.
const DRIPS: usize = 3600;

/// Writes so many bytes each second.
pub(super) async fn drip(
    stream: &mut (impl AsyncWrite + Unpin),
    bytes: usize,
    ledger: &Ledger,
) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes * DRIPS);
    stream.write_all(head.as_bytes()).await?;
    for _ in 0..DRIPS {
        sleep(Duration::from_secs(1)).await;
        stream.write_all(&vec![b'x'; bytes]).await?;
        ledger.pieces.fetch_add(1, Ordering::SeqCst);
    }
    Ok(())
}

/// Writes a head that never ends.
pub(super) async fn drip_head(
    stream: &mut (impl AsyncWrite + Unpin),
    ledger: &Ledger,
) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await?;
    loop {
        sleep(Duration::from_secs(1)).await;
        stream.write_all(b"x").await?;
        ledger.pieces.fetch_add(1, Ordering::SeqCst);
    }
}

/// Fetches with two hours of time, and says how many pieces were written meanwhile.
async fn fetch(path: &str) -> (Result<Excerpt, EgressError>, usize) {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    let fetch = get(&format!("http://hostile.tg.test/{path}")).unwrap();
    let deadline = Instant::now() + Duration::from_hours(2);
    let fetch = Fetch { deadline, max_bytes: 100_000_000, ..fetch };
    (once_arrived(&town, egress.excerpt(fetch)).await, town.pieces())
}

/// Time passes only once the server has got the request.
async fn once_arrived<T>(town: &Town, work: impl Future<Output = T>) -> T {
    let hold = hold_time();
    let release = async {
        town.arrival().await;
        drop(hold);
    };
    tokio::join!(work, release).0
}

/// Five seconds are free, and then each is worth a kibibyte.
#[tokio::test(start_paused = true)]
async fn a_body_that_drips_is_given_up() {
    for (bytes, most) in [(1, 6), (100, 7), (512, 12), (1000, 230)] {
        let (outcome, pieces) = fetch(&format!("drip?n={bytes}")).await;
        let error = outcome.unwrap_err();
        assert_eq!(error.code(), "timeout", "{bytes}: {error}");
        assert!((4..=most).contains(&pieces), "{bytes} bytes a second: {pieces} pieces");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_that_keeps_the_pace_is_read_to_its_end() {
    let (outcome, pieces) = fetch("drip?n=1100").await;
    let excerpt = outcome.unwrap();
    assert!(!excerpt.is_cut);
    assert_eq!((excerpt.fetched.body.len(), pieces), (1100 * DRIPS, DRIPS));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_ends_at_the_deadline() {
    let town = Town::start().await;
    let egress = Egress::over(town.network());
    let fetch = get("http://hostile.tg.test/driphead").unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let error = once_arrived(&town, egress.excerpt(Fetch { deadline, ..fetch })).await.unwrap_err();
    assert_eq!(error.code(), "timeout", "{error}");
    assert!((25..=31).contains(&town.pieces()), "{}", town.pieces());
}
