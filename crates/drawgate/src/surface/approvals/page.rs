//! The HTML of the pages: no script, no address but this one, nothing kept by the browser.

use std::fmt::Write as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use drawgate_core::canonical;
use drawgate_core::policy::Approval;
use drawgate_core::redact::has_masks;
use drawgate_core::registry::visible_text;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};

use drawgate_runtime::operations::ListedApproval;
use drawgate_runtime::time::shown as time;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;\
color:#111;background:#fff}pre{background:#f3f3f3;padding:1rem;overflow:auto;white-space:pre-wrap;\
overflow-wrap:anywhere}dt{font-weight:600}dd{margin:0 0 .6rem}label,input{display:block}\
input{width:100%;padding:.5rem;margin:.3rem 0 1rem;box-sizing:border-box}\
button{font:inherit;padding:.5rem 1.2rem;margin-right:.8rem}";

static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

/// Asks for the token.
pub(super) fn ask(status: StatusCode, id: &str, problem: &str) -> Response {
    let mut main = String::from("<h1>Decide about a call</h1>");
    if !problem.is_empty() {
        push(&mut main, format_args!("<p role=\"alert\">{}</p>", escaped(problem)));
    }
    push(
        &mut main,
        format_args!(
            "<form method=\"post\" autocomplete=\"off\">\
             <label for=\"token\">The operator's token, from the file <code>admin.token</code> in the data folder</label>\
             <input id=\"token\" name=\"token\" type=\"password\" required autocomplete=\"off\">\
             <button>Show the call</button></form>\
             <p>Or decide at a terminal of the gateway's machine; the approval's id is <code>{id}</code>.</p>",
            id = escaped(id)
        ),
    );
    html(status, &main)
}

/// Shows a call in full and asks for the decision. `exact` are its arguments without any mask.
pub(super) fn call(listed: &ListedApproval, exact: Option<&str>, key: &str, now: u64) -> Response {
    let ListedApproval { approval, is_awaited, .. } = listed;
    let tags: Vec<&str> = approval.risk_tags.iter().map(|tag| tag.as_str()).collect();
    let rows = [
        ("Tool", approval.tool_id.clone()),
        ("Caller", approval.principal.to_string()),
        ("Reason", approval.reason.clone()),
        ("Risks", if tags.is_empty() { "none named".to_owned() } else { tags.join(", ") }),
        ("State", standing(approval, *is_awaited == Some(true), now)),
    ];
    let mut main = String::from("<h1>Approve this call?</h1><dl>");
    for (name, value) in rows {
        push(&mut main, format_args!("<dt>{name}</dt><dd>{}</dd>", escaped(&value)));
    }
    push(
        &mut main,
        format_args!(
            "</dl><h2 id=\"arguments\">Arguments</h2>\
             <pre tabindex=\"0\" aria-labelledby=\"arguments\">{}</pre>{}\
             <form method=\"post\" autocomplete=\"off\"><input type=\"hidden\" name=\"key\" value=\"{}\">\
             <button name=\"decision\" value=\"approve\">Approve</button>\
             <button name=\"decision\" value=\"deny\">Deny</button></form>",
            escaped(&arguments(&approval.arguments)),
            masked_parts(approval, exact),
            escaped(key)
        ),
    );
    html(StatusCode::OK, &main)
}

fn standing(approval: &Approval, is_awaited: bool, now: u64) -> String {
    let until = until(approval.expires_at, now);
    if is_awaited {
        format!("a call waits for your answer; the question expires at {until}")
    } else {
        format!(
            "no call waits for your answer at this moment: the one that asked has been answered that a person must decide, or was given up. If you approve, the next call of {} with the same arguments passes, once, until {until}",
            approval.principal
        )
    }
}

/// A time to come, and how long that is.
pub(super) fn until(at: u64, now: u64) -> String {
    let seconds = at.saturating_sub(now) / 1000;
    match seconds {
        0..120 => format!("{} (in {seconds} s)", time(at)),
        120..7200 => format!("{} (in {} min)", time(at), seconds / 60),
        _ => format!("{} (in {} h)", time(at), seconds / 3600),
    }
}

/// The exact arguments, folded, if some of them are masked.
fn masked_parts(approval: &Approval, exact: Option<&str>) -> String {
    let exact = exact.and_then(|text| serde_json::from_str::<Value>(text).ok());
    match exact {
        Some(exact) if exact == approval.arguments => String::new(),
        Some(exact) => format!(
            "<p>Parts that look like secrets are masked above. The tool gets all of it.</p>\
             <details><summary>Show the exact arguments, with what is masked</summary>\
             <pre tabindex=\"0\">{}</pre></details>",
            escaped(&arguments(&exact))
        ),
        None if !has_masks(&approval.arguments) => String::new(),
        None => {
            "<p role=\"alert\">Parts of the call are masked, and what they hide is not kept: the \
                 gateway was started again since, or the call is too large. Have the agent call \
                 again, or deny it.</p>"
                .to_owned()
        }
    }
}

/// Says one thing.
pub(super) fn note(status: StatusCode, text: &str) -> Response {
    html(status, &format!("<h1>Drawgate</h1><p role=\"status\">{}</p>", escaped(text)))
}

/// In the canonical order, on lines of their own, whole.
fn arguments(arguments: &Value) -> String {
    let mut bytes = Vec::new();
    canonical::write(arguments, &mut bytes);
    let ordered = serde_json::from_slice::<Value>(&bytes);
    let text = ordered.and_then(|ordered| serde_json::to_string_pretty(&ordered));
    text.unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into_owned())
}

fn push(out: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = out.write_fmt(part);
}

/// Fit for HTML, and nothing in it hidden from who reads it.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible_text(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

fn html(status: StatusCode, main: &str) -> Response {
    let body = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Drawgate: approval</title>\
         <style>{STYLE}</style></head><body><main>{main}</main></body></html>\n"
    );
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let fixed = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Not `no-referrer`: browsers would then send the form with `Origin: null`, which is refused.
        (REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    response
}
