//! Which era a server is of: the newer one's question first, as the specification asks, then the
//! handshake of the older one on the same connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drawgate_core::source::SourceError;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::listen;
use super::stdio::Connection;
use super::wire::{self, Era, Meta, PlainParams, STATELESS, ServerInfo, WITH_SESSIONS};

pub(super) const DISCOVER: &str = "server/discover";
/// How long a server may keep silent on a question that older ones do not know.
pub(super) const DISCOVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Errors that only servers of the newer era give.
const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// What an answer to `server/discover` says.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The newer era.
    Stateless(ServerInfo),
    /// The newer era, by a server that wants to be asked once more.
    Again,
    /// The older era, or perhaps no MCP at all.
    Sessions,
    /// The newer era, and nothing can be done about it.
    Hopeless(SourceError),
}

/// Judges an answer.
pub(super) fn judge(outcome: Result<&Map<String, Value>, &SourceError>) -> Verdict {
    match outcome {
        // Some servers of the older era answer anything with an empty result.
        Ok(result) if !result.contains_key("supportedVersions") => Verdict::Sessions,
        Ok(result) => match in_common(result.get("supportedVersions")) {
            Common::Stateless => Verdict::Stateless(wire::discovered(result)),
            Common::Sessions => Verdict::Sessions,
            Common::Nothing => Verdict::Hopeless(nothing_in_common()),
        },
        Err(error) => match wire::error_code(error) {
            Some(UNSUPPORTED_VERSION) => match in_common(supported(error)) {
                Common::Stateless => Verdict::Again,
                Common::Sessions => Verdict::Sessions,
                Common::Nothing => Verdict::Hopeless(nothing_in_common()),
            },
            Some(HEADER_MISMATCH | MISSING_CAPABILITY) => Verdict::Hopeless(error.clone()),
            Some(_) | None => Verdict::Sessions,
        },
    }
}

enum Common {
    Stateless,
    Sessions,
    Nothing,
}

fn in_common(versions: Option<&Value>) -> Common {
    let versions = versions.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let speaks = |known: &str| versions.iter().any(|version| version == known);
    if speaks(STATELESS) {
        Common::Stateless
    } else if WITH_SESSIONS.into_iter().any(speaks) {
        Common::Sessions
    } else {
        Common::Nothing
    }
}

fn supported(error: &SourceError) -> Option<&Value> {
    match error {
        SourceError::Failed { details: Some(details), .. } => details.get("data")?.get("supported"),
        _ => None,
    }
}

fn nothing_in_common() -> SourceError {
    SourceError::Protocol(format!(
        "the server speaks no protocol revision that the gateway knows; those are {}, `{STATELESS}`",
        WITH_SESSIONS.map(|revision| format!("`{revision}`")).join(", ")
    ))
}

/// What is known about a server that is started again and again.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// It did not survive the newer question, or has shaken hands in the older way.
    has_sessions: AtomicBool,
}

impl Memory {
    /// Whether the newer question is to be put at all.
    pub(super) fn may_discover(&self) -> bool {
        !self.has_sessions.load(Ordering::Relaxed)
    }

    pub(super) fn has_sessions(&self) {
        self.has_sessions.store(true, Ordering::Relaxed);
    }
}

/// Shakes hands over a duplex transport, in the era of the server. The caller bounds its time.
pub(super) async fn shake_hands(connection: &Arc<Connection>) -> Result<ServerInfo, SourceError> {
    let info = meet(connection, &connection.context().memory).await?;
    tokio::spawn(listen::tend(Arc::clone(connection), info.clone()));
    Ok(info)
}

async fn meet(connection: &Arc<Connection>, memory: &Memory) -> Result<ServerInfo, SourceError> {
    if memory.may_discover() {
        // Some servers of the older era end at once when anything comes before `initialize`; the
        // next start must know.
        memory.has_sessions();
        if let Some(info) = discover(connection).await? {
            memory.has_sessions.store(false, Ordering::Relaxed);
            return Ok(info);
        }
    }
    let refused = match initialize(connection).await {
        Err(error) if wire::error_code(&error).is_some() => error,
        outcome => return outcome,
    };
    // A server of the newer era that was slow to start.
    match discover(connection).await? {
        Some(info) => {
            memory.has_sessions.store(false, Ordering::Relaxed);
            Ok(info)
        }
        None => Err(refused),
    }
}

async fn discover(connection: &Arc<Connection>) -> Result<Option<ServerInfo>, SourceError> {
    for _ in 0..2 {
        let members = Map::new();
        let meta = Meta::own(Era::Stateless, connection.allowed());
        let params = PlainParams { members: &members, meta };
        let asked = timeout(DISCOVER_TIMEOUT, connection.probe(DISCOVER, &params)).await;
        let outcome = match asked {
            Ok(Err(lost @ SourceError::Unavailable { .. })) => return Err(lost),
            Ok(outcome) => outcome,
            Err(_silence) => return Ok(None),
        };
        match judge(outcome.as_ref().map(|reply| &reply.result)) {
            Verdict::Stateless(info) => {
                connection.set_era(Era::Stateless);
                return Ok(Some(info));
            }
            Verdict::Again => {}
            Verdict::Sessions => return Ok(None),
            Verdict::Hopeless(error) => return Err(error),
        }
    }
    Ok(None)
}

async fn initialize(connection: &Arc<Connection>) -> Result<ServerInfo, SourceError> {
    let params = wire::initialize_params(connection.allowed());
    let meta = Meta::own(Era::Sessions, connection.allowed());
    let reply = connection.ask("initialize", &PlainParams { members: &params, meta }).await?;
    let info = wire::initialized(&reply.result)?;
    connection.notify(&wire::ready()).await?;
    Ok(info)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn verdict(code: i64, supported: &Value) -> Verdict {
        let error = json!({ "code": code, "message": "no", "data": { "supported": supported } });
        judge(Err(&wire::failure(error)))
    }

    #[test]
    fn errors_of_the_newer_era_are_told_from_others() {
        assert!(matches!(verdict(-32022, &json!(["2026-07-28"])), Verdict::Again));
        assert!(matches!(verdict(-32022, &json!(["2025-06-18"])), Verdict::Sessions));
        assert!(matches!(verdict(-32022, &json!(["2031-01-01"])), Verdict::Hopeless(_)));
        assert!(matches!(verdict(-32020, &json!([])), Verdict::Hopeless(_)));
        for code in [-32601, -32602, -32600, -32000, 7] {
            assert!(matches!(verdict(code, &json!([])), Verdict::Sessions), "{code}");
        }
    }

    #[test]
    fn a_server_of_both_eras_is_taken_for_the_newer() {
        let judged = |versions: Value| {
            let result = json!({ "supportedVersions": versions });
            judge(Ok(result.as_object().unwrap()))
        };
        assert!(matches!(judged(json!(["2025-11-25", "2026-07-28"])), Verdict::Stateless(_)));
        assert!(matches!(judged(json!(["2025-11-25"])), Verdict::Sessions));
        assert!(matches!(judge(Ok(&Map::new())), Verdict::Sessions));
        let hopeless = judged(json!(["2031-01-01"]));
        let Verdict::Hopeless(error) = hopeless else { panic!("{hopeless:?}") };
        assert!(error.to_string().contains("`2024-11-05`"), "{error}");
    }
}
