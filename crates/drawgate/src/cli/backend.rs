//! What commands talk to: the gateway that runs on the data folder, or one of their own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use arc_swap::ArcSwap;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use drawgate_core::redact::Redactor;
use drawgate_core::registry::SourceState;
use drawgate_host::store::DataDirError;
use http::{Method, Request, Response, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower::ServiceExt;

use super::Context;
use super::machine::runtime_options;
use super::running::Running;
use crate::surface::control::{Control, Refused};
use crate::surface::mcp::{Mcp, Sessions};
use crate::telemetry::Spans;
use drawgate_runtime::assemble::{Runtime, RuntimeOptions, Start, StateLocation};
use drawgate_runtime::config::Loaded;
use drawgate_runtime::operations::ServerReport;

/// How long a gateway of a command's own waits for its sources.
const SETTLE: Duration = Duration::from_secs(15);
/// How often another process is asked whether its sources have started.
const PAUSE: Duration = Duration::from_millis(100);
/// Sessions in a gateway of a command's own.
const FEW_SESSIONS: usize = 16;

/// A gateway to talk to.
pub(super) enum Backend {
    /// Another process.
    Running(Running),
    /// This process.
    Own(Box<OwnGateway>),
}

/// A gateway of a command's own, without an endpoint.
pub(super) struct OwnGateway {
    loaded: Loaded,
    data: PathBuf,
    start: Start,
    is_home: bool,
    opened: tokio::sync::Mutex<Opened>,
}

/// What of it is open.
enum Opened {
    Nothing,
    /// In memory, on a data folder that is not there: a command that only looks creates none.
    Memory(Box<Runtime>, Router),
    /// In its folder.
    Folder(Box<Runtime>, Router),
}

impl Backend {
    /// Finds the running gateway, or puts one together without an endpoint.
    pub(super) async fn open(context: &Context, start: Start) -> anyhow::Result<Self> {
        if let Some(running) = Running::find(&context.data).await {
            context.warn_of_errors();
            return Ok(Self::Running(running));
        }
        let loaded = match start {
            Start::Sources => context.whole()?,
            Start::Nothing => {
                context.warn_of_errors();
                &context.loaded
            }
        };
        context.note_other_gateway().await;
        let own = OwnGateway {
            loaded: loaded.clone(),
            data: context.data.clone(),
            start,
            is_home: context.target.is_home,
            opened: tokio::sync::Mutex::new(Opened::Nothing),
        };
        if !own.data.exists() {
            return Ok(Self::Own(Box::new(own)));
        }
        match own.in_folder().await {
            Ok(opened) => {
                *own.opened.lock().await = opened;
                Ok(Self::Own(Box::new(own)))
            }
            Err(error) if is_in_use(&error) => {
                Ok(Self::Running(Running::wait(&context.data).await?))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether it is the gateway that callers use.
    pub(super) const fn is_running(&self) -> bool {
        match self {
            Self::Running(_) => true,
            Self::Own(_) => false,
        }
    }

    /// Waits until all sources have started or failed.
    pub(super) async fn settle(&self, limit: Duration) {
        match self {
            Self::Running(_) => self.settle_elsewhere(limit).await,
            Self::Own(own) => {
                if let Opened::Memory(runtime, _) | Opened::Folder(runtime, _) =
                    &*own.opened.lock().await
                {
                    runtime.supervisor().settle(limit).await;
                }
            }
        }
    }

    async fn settle_elsewhere(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let is_starting =
            |server: &ServerReport| server.source.status.state == SourceState::Starting;
        while Instant::now() < until {
            match self.get::<Vec<ServerReport>>("/servers").await {
                Ok(servers) if servers.iter().any(is_starting) => {
                    tokio::time::sleep(PAUSE).await;
                }
                // What is wrong is told by whoever asks next.
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Asks for something.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let answer = self.exchange(Method::GET, path, Vec::new()).await?;
        serde_json::from_slice(&answer).context("the gateway's answer can't be read")
    }

    /// Asks for bytes.
    pub(super) async fn get_bytes(&self, path: &str) -> anyhow::Result<Bytes> {
        self.exchange(Method::GET, path, Vec::new()).await
    }

    /// Has something done.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<T> {
        let answer = self.exchange(Method::POST, path, serde_json::to_vec(body)?).await?;
        serde_json::from_slice(&answer).context("the gateway's answer can't be read")
    }

    /// Has something removed.
    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.exchange(Method::DELETE, path, Vec::new()).await.map(drop)
    }

    async fn exchange(&self, method: Method, path: &str, body: Vec<u8>) -> anyhow::Result<Bytes> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body))?;
        let answer = match self {
            Self::Running(running) => running.exchange(request).await?,
            Self::Own(own) => {
                let router = own.router(request.method() == Method::GET).await?;
                let (head, body) = router.oneshot(request).await?.into_parts();
                Response::from_parts(head, body.collect().await?.to_bytes())
            }
        };
        if answer.status().is_success() {
            return Ok(answer.into_body());
        }
        match serde_json::from_slice::<Refused>(answer.body()) {
            Ok(refused) => bail!(refused.error),
            Err(_) => bail!(
                "the gateway answered {}: {}",
                answer.status(),
                String::from_utf8_lossy(answer.body())
            ),
        }
    }

    /// Ends a gateway of our own in order.
    pub(super) async fn close(self) {
        match self {
            Self::Running(_) => {}
            Self::Own(own) => own.opened.into_inner().close().await,
        }
    }
}

impl OwnGateway {
    /// The control routes, of a gateway that is opened now if need be.
    async fn router(&self, only_looks: bool) -> anyhow::Result<Router> {
        let mut opened = self.opened.lock().await;
        let is_enough = match &*opened {
            Opened::Nothing => false,
            Opened::Memory(..) => only_looks,
            Opened::Folder(..) => true,
        };
        if !is_enough {
            std::mem::replace(&mut *opened, Opened::Nothing).close().await;
            *opened = if only_looks { self.in_memory().await? } else { self.in_folder().await? };
        }
        match &*opened {
            Opened::Memory(_, router) | Opened::Folder(_, router) => Ok(router.clone()),
            Opened::Nothing => bail!("no gateway is open"),
        }
    }

    async fn in_memory(&self) -> anyhow::Result<Opened> {
        if !self.is_home {
            eprintln!("drawgate: no gateway has run on `{}` yet", self.data.display());
        }
        let (runtime, router) = Box::pin(self.runtime(StateLocation::Memory)).await?;
        Ok(Opened::Memory(runtime, router))
    }

    async fn in_folder(&self) -> anyhow::Result<Opened> {
        let (runtime, router) =
            Box::pin(self.runtime(StateLocation::Folder(self.data.clone()))).await?;
        Ok(Opened::Folder(runtime, router))
    }

    async fn runtime(&self, state: StateLocation) -> anyhow::Result<(Box<Runtime>, Router)> {
        let redactor = Arc::new(ArcSwap::from_pointee(Redactor::new([])));
        let options = runtime_options(&self.loaded, &self.data, self.start, redactor)?;
        let runtime = Runtime::open(RuntimeOptions { state, ..options }).await?;
        runtime.supervisor().settle(SETTLE).await;
        let router = control(&runtime, None).router();
        Ok((Box::new(runtime), router))
    }
}

impl Opened {
    async fn close(self) {
        match self {
            Self::Nothing => {}
            Self::Memory(runtime, _) | Self::Folder(runtime, _) => runtime.close().await,
        }
    }
}

/// The control routes of a runtime, with or without an endpoint.
pub(super) fn control(runtime: &Runtime, mcp: Option<(Mcp, String)>) -> Control {
    let (mcp, endpoint) = if let Some((mcp, endpoint)) = mcp {
        (mcp, Some(endpoint))
    } else {
        let (clock, ids) = (runtime.host.clock.clone(), runtime.host.ids.clone());
        let sessions = Sessions::new(FEW_SESSIONS, u64::MAX, clock, ids);
        let max_body = drawgate_runtime::config::Config::default().server.max_body_bytes;
        (Mcp::new(runtime.gateway().clone(), sessions, Spans::default(), max_body), None)
    };
    Control {
        operations: runtime.operations.clone(),
        mcp,
        endpoint,
        edits: Arc::clone(&runtime.edits),
    }
}

/// Whether the folder could not be opened because another process has it.
pub(super) fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<DataDirError>(), Some(DataDirError::Locked { .. }))
}

/// A name as one part of a path.
pub(super) fn part(name: &str) -> String {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(name, ESCAPED).to_string()
}
