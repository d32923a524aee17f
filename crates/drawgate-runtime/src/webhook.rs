//! Tells people elsewhere, by HTTP, that a call waits for them: a chat, a pager, a program of their own.
//! What is sent is redacted like the audit log, is signed, and decides nothing.

use std::time::{Duration, Instant};

use bytes::Bytes;
use drawgate_core::policy::Approval;
use drawgate_core::registry::visible_text;
use drawgate_host::Host;
use drawgate_host::egress::{Body, Reach};
use http::Request;
use ring::hmac;
use serde_json::{Value, json};

use crate::config::{Loaded, Webhook};

/// How long the receiver may take for one try.
const SEND_TIME: Duration = Duration::from_secs(5);
/// Pauses before the second and the third try.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// Bytes of arguments that are sent; longer ones are on the page.
const MAX_ARGUMENTS: usize = 8 * 1024;
/// The signature of a body, with its time.
const SIGNATURE: &str = "drawgate-signature";

/// Sends an approval to the address that the configuration names, if it names one. What can't be sent
/// is logged.
pub(crate) async fn send(loaded: &Loaded, host: &Host, approval: &Approval, page: Option<&str>) {
    let Some(webhook) = &loaded.config.approvals.webhook else { return };
    let body = body(approval, page).to_string();
    let mut problem = String::new();
    for pause in PAUSES.map(Some).into_iter().chain([None]) {
        match post(webhook, host, &body).await {
            Ok(()) => return,
            Err(error) => problem = error,
        }
        let Some(pause) = pause else { break };
        tokio::time::sleep(pause).await;
    }
    tracing::warn!(
        problem,
        approval = approval.id,
        "an approval could not be sent to `approvals.webhook`"
    );
}

/// What is sent. `text` is what chats show.
fn body(approval: &Approval, page: Option<&str>) -> Value {
    let Approval {
        id,
        tool_id,
        principal,
        arguments,
        reason,
        risk_tags,
        created_at,
        expires_at,
        ..
    } = approval;
    let place = page.map(|page| format!(": {page}")).unwrap_or_default();
    let is_long = arguments.to_string().len() > MAX_ARGUMENTS;
    json!({
        "event": "approval_required",
        "text": format!("`{principal}` wants to call `{tool_id}` and needs a person's approval{place}"),
        "approvalId": id,
        "toolId": tool_id,
        "principal": principal,
        "arguments": if is_long { Value::Null } else { visible(arguments) },
        "reason": visible_text(reason),
        "riskTags": risk_tags,
        "createdAt": created_at,
        "expiresAt": expires_at,
        "page": page,
    })
}

/// A value whose texts have their hidden and control characters shown: chats obey some of them.
fn visible(value: &Value) -> Value {
    match value {
        Value::String(text) => visible_text(text).into(),
        Value::Array(items) => items.iter().map(visible).collect(),
        Value::Object(members) => {
            let shown = |(name, value): (&String, &Value)| {
                (visible_text(name).into_owned(), visible(value))
            };
            members.iter().map(shown).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

async fn post(webhook: &Webhook, host: &Host, body: &str) -> Result<(), String> {
    // Looked up each time, so that an edit or a variable that was missing counts at once.
    let url = host.secrets.resolve(webhook.url.expose()).map_err(|error| error.to_string())?;
    let mut request = Request::post(url.expose()).header("content-type", "application/json");
    if let Some(secret) = &webhook.secret {
        let secret = host.secrets.resolve(secret.expose()).map_err(|error| error.to_string())?;
        let now = host.clock.now_ms() / 1000;
        request = request.header(SIGNATURE, signature(secret.expose(), now, body));
    }
    let request = request
        .body(Body::from(Bytes::from(body.to_owned())))
        .map_err(|_| "`approvals.webhook.url` is not a URL".to_owned())?;
    // The operator wrote the address.
    let reach = Reach::own(request.uri());
    let answer = host.egress.request(request, &reach, Instant::now() + SEND_TIME).await;
    match answer.map_err(|error| error.to_string())?.status() {
        status if status.is_success() => Ok(()),
        status => Err(format!("the answer was {status}")),
    }
}

/// `t=SECONDS,v1=HEX`: the time, and HMAC-SHA256 of `SECONDS.BODY`. With the time in it, an old body
/// can't be sent again unnoticed.
fn signature(secret: &str, seconds: u64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, format!("{seconds}.{body}").as_bytes());
    format!("t={seconds},v1={}", hex::encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_sent_without_control_characters() {
        let hidden = "a\u{1b}[2J\u{202e}b";
        let approval = serde_json::from_value(json!({
            "id": "1", "state": "pending", "principal": "ann", "toolId": "s:t", "binding": "x",
            "arguments": { hidden: [hidden, { "n": hidden }] }, "reason": hidden, "riskTags": [],
            "createdAt": 0, "expiresAt": 1,
        }));
        let body = body(&approval.unwrap(), None);
        let shown = r"a\u{1b}[2J\u{202e}b";
        assert_eq!(body["arguments"], json!({ shown: [shown, { "n": shown }] }));
        assert_eq!(body["reason"], shown);
        assert_eq!(body["text"], "`ann` wants to call `s:t` and needs a person's approval");
    }

    #[test]
    fn a_body_is_signed_with_its_time() {
        // As `printf '%s' '1700000000.{}' | openssl dgst -sha256 -hmac secret` has it.
        assert_eq!(
            signature("secret", 1_700_000_000, "{}"),
            "t=1700000000,v1=b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163"
        );
        assert_ne!(signature("secret", 1, "{}"), signature("secret", 2, "{}"));
        assert_ne!(signature("secret", 1, "{}"), signature("other", 1, "{}"));
    }
}
