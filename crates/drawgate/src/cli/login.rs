//! `drawgate servers login` and `logout`: a person agrees in a browser that the gateway may use a
//! protected server.

use std::process::ExitCode;

use anyhow::Context as _;
use drawgate_host::process::{Processes, Running, Spawn};
use drawgate_sources::mcp::oauth::{Address, LoginState, LoginSummary};
use serde_json::json;
use tokio::io::AsyncRead;

use super::Context;
use super::backend::{Backend, part};
use super::machine;
use super::progress::Progress;
use drawgate_runtime::assemble::Start;
use drawgate_runtime::operations::{ServerReport, StartedLogin};

/// Whether the browser is started, or only the address shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Browser {
    Open,
    Leave,
}

pub(super) async fn log_in(
    name: &str,
    browser: Browser,
    context: Context,
) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = attend(&backend, name, browser, &context).await;
    backend.close().await;
    let login = done?;
    context
        .out
        .either(&login, || format!("logged in at `{}` for `{}`", login.issuer, login.server))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn log_out(name: &str, context: Context) -> anyhow::Result<ExitCode> {
    let backend = Backend::open(&context, Start::Nothing).await?;
    let done = backend.delete(&format!("/servers/{}/login", part(name))).await;
    backend.close().await;
    done?;
    context.out.either(&json!({}), || format!("logged out at `{name}`"))?;
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with the login at a server, if anything is.
pub(super) fn complaint(server: &ServerReport) -> Option<String> {
    let name = &server.source.status.id;
    let what = match server.login.as_ref()? {
        LoginState::Needed => "it needs a login",
        LoginState::Expired => "its login has expired",
        LoginState::Lacking(_) => "its login does not allow all that was asked of it",
        LoginState::None | LoginState::Active(_) | LoginState::Refused { .. } => return None,
    };
    Some(format!("{what}; run `drawgate servers login {name}`"))
}

async fn attend(
    backend: &Backend,
    name: &str,
    browser: Browser,
    context: &Context,
) -> anyhow::Result<LoginSummary> {
    let path = format!("/servers/{}/login", part(name));
    let begun: StartedLogin = backend.post(&path, &json!({})).await?;
    // What is shown will be opened, by us or by hand: it must command neither terminal nor browser.
    let address = Address::for_browser(&begun.url).context("nothing was opened")?;
    let url = address.as_str();
    context.out.either(&json!({ "url": url }), || {
        format!("Open this address in a browser on this machine, and agree:\n\n{url}\n")
    })?;
    let _started = match browser {
        Browser::Open => Some(open(&address)?),
        Browser::Leave => None,
    };
    let _progress = Progress::new("waiting for the login in the browser");
    backend.get(&format!("{path}/{}", part(&begun.attempt))).await
}

/// Starts the browser. The address is one argument, and no shell of ours sees it.
fn open(address: &Address) -> anyhow::Result<Running> {
    let secrets = machine::secrets();
    let spawn = Spawn {
        // A session of its own: the browser stays when this command ends.
        program: "setsid".to_owned(),
        args: ["--fork", "xdg-open", address.as_str()].map(str::to_owned).to_vec(),
        env: machine::desktop(&secrets),
        ..Spawn::default()
    };
    let mut browser = Processes::new(&secrets, None)
        .spawn(&spawn)
        .context("the browser can't be started; open the address by hand")?;
    ignore(browser.take_stdout());
    ignore(browser.take_stderr());
    Ok(browser)
}

/// Reads and discards what a browser writes: a full pipe would stop it.
fn ignore(words: Option<impl AsyncRead + Send + Unpin + 'static>) {
    if let Some(mut words) = words {
        tokio::spawn(async move { tokio::io::copy(&mut words, &mut tokio::io::sink()).await });
    }
}
