//! A server that repeats whatever it was told in confidence, in every spelling and in every kind of
//! answer: as a result, an error, a redirect, a broken document, or never.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, StatusCode, Uri, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

type Heard = Arc<Mutex<String>>;

/// A running server.
pub(super) struct Echo {
    /// `127.0.0.1:PORT`.
    pub(super) address: String,
    heard: Heard,
    serving: JoinHandle<()>,
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Echo {
    pub(super) async fn start() -> Self {
        let heard = Heard::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&heard));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, heard, serving }
    }

    /// Whether it was ever told this.
    pub(super) fn heard(&self, what: &str) -> bool {
        self.heard.lock().contains(what)
    }
}

async fn answer(
    State(heard): State<Heard>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let told = told(&uri, &headers, &body);
    heard.lock().push_str(&told.join("\n"));
    let repeated = repeated(&told);
    let first = told.first().cloned().unwrap_or_default();
    let to = |place: &str| {
        let query = escaped(&first);
        [(header::LOCATION, format!("{place}?again={query}"))]
    };
    match uri.path().rsplit(['/', '_']).next().unwrap_or_default() {
        "ok" => axum::Json(json!({ "echo": repeated })).into_response(),
        "moved" => (StatusCode::FOUND, to("/x_ok"), repeated).into_response(),
        "away" => (StatusCode::FOUND, to("http://127.0.0.1:9/"), repeated).into_response(),
        "broken" => {
            ([(header::CONTENT_TYPE, "application/json")], format!("{{{repeated}")).into_response()
        }
        "slow" => std::future::pending().await,
        "token" => {
            axum::Json(json!({ "access_token": TOKEN, "token_type": "bearer" })).into_response()
        }
        "refused" => {
            let said = json!({ "error": first, "error_description": repeated });
            (StatusCode::UNAUTHORIZED, axum::Json(said)).into_response()
        }
        "asks" => {
            let challenge = [(
                header::WWW_AUTHENTICATE,
                format!("Bearer error=\"{}\"", first.replace('"', "'")),
            )];
            (StatusCode::UNAUTHORIZED, challenge, repeated).into_response()
        }
        "rpc" => {
            let id = serde_json::from_str::<Value>(&body).unwrap_or_default()["id"].clone();
            let error = json!({ "code": -32000, "message": repeated, "data": { "told": told } });
            axum::Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response()
        }
        _ => (StatusCode::INTERNAL_SERVER_ERROR, repeated).into_response(),
    }
}

/// What the token endpoint gives out.
pub(super) const TOKEN: &str = "cnry-token-given-out-7Kq2";

/// Everything in a request that may be a secret, also as it was before it was encoded.
fn told(uri: &Uri, headers: &HeaderMap, body: &str) -> Vec<String> {
    let own = ["authorization", "x-api-key", "x-extra", "cookie"];
    let values = own.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    let mut told: Vec<String> = Vec::new();
    for value in values {
        let credentials = value.split_once(' ').map_or(value, |(_, rest)| rest);
        let decoded = STANDARD.decode(credentials).ok().and_then(|it| String::from_utf8(it).ok());
        told.extend(decoded.iter().filter_map(|both| Some(both.split_once(':')?.1.to_owned())));
        told.extend(decoded);
        told.extend([credentials.to_owned(), value.to_owned()]);
    }
    for text in [uri.query().unwrap_or_default(), body] {
        let pairs = text.split('&').filter_map(|pair| Some(pair.split_once('=')?.1));
        told.extend(pairs.map(plain));
        told.push(text.to_owned());
    }
    let plain: Vec<String> = told.iter().map(|text| plain(text)).collect();
    told.extend(plain);
    told
}

fn repeated(told: &[String]) -> String {
    let spell = |text: &String| {
        [
            text.clone(),
            STANDARD.encode(text),
            URL_SAFE_NO_PAD.encode(text),
            STANDARD.encode(format!("user:{text}")),
            hex::encode(text),
            hex::encode_upper(text),
            escaped(text),
            Value::from(text.as_str()).to_string(),
        ]
        .join(" ; ")
    };
    told.iter().map(spell).collect::<Vec<_>>().join("\n")
}

/// What an address may hold of a text.
pub(super) fn escaped(text: &str) -> String {
    let one = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

/// The text of something in an address.
fn plain(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after
            .get(..2)
            .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        let (byte, left) = match code.filter(|_| *first == b'%') {
            Some(byte) => (byte, after.get(2..).unwrap_or_default()),
            None => (*first, after),
        };
        bytes.push(byte);
        rest = left;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
