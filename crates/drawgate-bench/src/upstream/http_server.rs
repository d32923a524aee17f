//! The upstream over streamable HTTP: one message per POST, plain JSON answers, sessions checked.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use super::answers::{Answers, Message, Reply, refusal};
use crate::listen;

const SESSION: &str = "mcp-session-id";

type Answer = Response<Full<Bytes>>;

/// Serves until killed.
pub(super) async fn serve(address: SocketAddr, answers: Answers) -> Result<()> {
    let answers = Arc::new(answers);
    listen::serve(address, move |request| respond(Arc::clone(&answers), request)).await
}

async fn respond(answers: Arc<Answers>, request: Request<Incoming>) -> Result<Answer> {
    if request.method() != Method::POST {
        return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let message: Message<'_> = match serde_json::from_slice(&body) {
        Ok(message) => message,
        Err(error) => return Ok(json(StatusCode::BAD_REQUEST, refusal(&error.to_string()))),
    };
    if !message.opens_a_session()
        && let Err(refused) = check_session(&answers, &head.headers)
    {
        return Ok(refused);
    }
    Ok(match answers.reply(&message) {
        Reply::Nothing => empty(StatusCode::ACCEPTED),
        Reply::Message(body) => json(StatusCode::OK, body),
        Reply::Opened { session, body } => {
            let mut answer = json(StatusCode::OK, body);
            answer.headers_mut().insert(SESSION, HeaderValue::from(session));
            answer
        }
    })
}

#[expect(clippy::result_large_err, reason = "the refusal is sent as it is")]
fn check_session(answers: &Answers, headers: &HeaderMap) -> Result<(), Answer> {
    let Some(session) = headers.get(SESSION) else {
        return Err(json(StatusCode::BAD_REQUEST, refusal("`Mcp-Session-Id` is missing")));
    };
    match session.to_str().ok().and_then(|session| session.parse().ok()) {
        Some(session) if answers.knows(session) => Ok(()),
        Some(_) | None => Err(json(StatusCode::NOT_FOUND, refusal("unknown session"))),
    }
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

fn json(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
