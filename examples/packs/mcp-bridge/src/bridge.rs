//! Keeps the server and the gateway together.
//!
//! A server that dies takes its tools with it and is started again, ever more slowly. A list that
//! changes makes the pack register anew. What the gateway refuses ends the program.

use std::time::Duration;

use anyhow::Result;
use drawgate_sdk::{CancellationToken, Event, PackClient};
use tokio::time::{Instant, sleep};

use crate::options::Options;
use crate::tools;
use crate::upstream::Upstream;

/// Before the first restart of a server; twice as long before each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A server that ran this long was well.
const WELL: Duration = Duration::from_mins(1);
/// Changes that come together are one.
const SETTLE: Duration = Duration::from_millis(200);

/// What became of a server.
enum End {
    /// The program is to stop.
    Stopped,
    /// The server is gone.
    Died,
}

/// Runs until it is told to stop, or refused.
pub(crate) async fn run(options: &Options, stop: &CancellationToken) -> Result<()> {
    let client = PackClient::new(options.gateway()?, options.key().await?).observe(report);
    // What does not work at all is told at once; what has worked is tried again.
    let upstream = Upstream::connect(options).await?;
    tools::check_names(options, &upstream.tools().await?)?;
    let mut next = Some(upstream);
    let mut wait = FIRST_WAIT;
    loop {
        let since = Instant::now();
        let served = match next.take() {
            Some(upstream) => serve(options, &client, upstream, stop).await?,
            None => match Upstream::connect(options).await {
                Ok(upstream) => serve(options, &client, upstream, stop).await?,
                Err(error) => {
                    eprintln!("{error:#}");
                    End::Died
                }
            },
        };
        match served {
            End::Stopped => return Ok(()),
            End::Died if since.elapsed() >= WELL => wait = FIRST_WAIT,
            End::Died => {}
        }
        eprintln!("the MCP server is gone; next try in {} ms", wait.as_millis());
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = sleep(wait) => {}
        }
        wait = wait.saturating_mul(2).min(LONGEST_WAIT);
    }
}

/// Serves one life of the server.
async fn serve(
    options: &Options,
    client: &PackClient,
    upstream: Upstream,
    stop: &CancellationToken,
) -> Result<End> {
    loop {
        let list = match upstream.tools().await {
            Ok(list) => list,
            Err(error) => {
                eprintln!("{error:#}");
                upstream.close().await;
                return Ok(End::Died);
            }
        };
        let renew = stop.child_token();
        let pack = tools::pack(options, &upstream, list.clone());
        let serving = client.clone().stop_on(renew.clone());
        let serving = serving.serve(pack);
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => {
                upstream.close().await;
                served?;
                return Ok(End::Stopped);
            }
            // Cutting the connection takes the tools away at once.
            () = upstream.gone.cancelled() => return Ok(End::Died),
            () = another_list(&upstream, &list) => {
                eprintln!("the MCP server has other tools now; registering anew");
                renew.cancel();
                serving.await?;
            }
        }
        if stop.is_cancelled() {
            upstream.close().await;
            return Ok(End::Stopped);
        }
    }
}

/// Ends when the server's tools are really others than these.
async fn another_list(upstream: &Upstream, old: &[rmcp::model::Tool]) {
    loop {
        upstream.changed.notified().await;
        sleep(SETTLE).await;
        // A server that can't answer now is about to die, which is noticed elsewhere.
        if upstream.tools().await.is_ok_and(|new| new != old) {
            return;
        }
    }
}

/// What ends the program is told at its end.
fn report(event: &Event<'_>) {
    match event {
        Event::Refused { .. } | Event::Lost { retry_in: None, .. } => {}
        _ => eprintln!("{event}"),
    }
}
