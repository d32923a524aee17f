//! An authorization server, a protected MCP server and a browser, as real programs on loopback. The
//! two servers can be told to misbehave.

#![allow(dead_code, reason = "two test binaries share this file, and each uses its part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use drawgate_host::egress::{Body, Egress, Reach, read_body};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub(crate) type Fields = BTreeMap<String, String>;

/// How the servers behave. All can be changed while they run.
#[expect(clippy::struct_excessive_bools, reason = "independent switches of a test")]
pub(crate) struct Behaviour {
    pub(crate) s256: bool,
    /// In the metadata, in place of the true one.
    pub(crate) issuer: Option<String>,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) registers: bool,
    pub(crate) methods: Vec<&'static str>,
    pub(crate) scopes: Vec<&'static str>,
    pub(crate) takes_documents: bool,
    /// Whether metadata say that answers name their issuer.
    pub(crate) promises_issuer: bool,
    /// What answers say about their issuer; `None` for the truth.
    pub(crate) answer_issuer: Option<&'static str>,
    pub(crate) names_issuer: bool,
    pub(crate) answer_state: Option<&'static str>,
    /// An error in place of the code.
    pub(crate) denies: Option<&'static str>,
    /// Where the browser is sent, in place of where it should.
    pub(crate) answer_path: Option<&'static str>,
    pub(crate) expires_in: u64,
    pub(crate) refresh: bool,
    /// All requests for metadata are redirected here.
    pub(crate) metadata_redirect: Option<String>,
    /// What a client that asks in its own name must prove itself with, if not by a key.
    pub(crate) client_secret: Option<&'static str>,
    /// The token endpoint fails with this status.
    pub(crate) token_status: Option<u16>,
    /// The authorization server that the protected server names, if not the one here.
    pub(crate) authority: Option<String>,
    /// What the protected server says in its metadata that it is.
    pub(crate) resource: Option<String>,
    pub(crate) has_metadata: bool,
    pub(crate) names_metadata: bool,
    /// Where the protected server says that its metadata are, if not where they are.
    pub(crate) resource_metadata: Option<String>,
    pub(crate) challenged: Option<&'static str>,
    pub(crate) resource_scopes: Option<Vec<&'static str>>,
    /// The scope that the tool `admin` needs.
    pub(crate) admin_scope: Option<&'static str>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            s256: true,
            issuer: None,
            authorization_endpoint: None,
            token_endpoint: None,
            registration_endpoint: None,
            revocation_endpoint: None,
            registers: true,
            methods: vec!["none"],
            scopes: Vec::new(),
            takes_documents: false,
            promises_issuer: true,
            answer_issuer: None,
            names_issuer: true,
            answer_state: None,
            denies: None,
            answer_path: None,
            expires_in: 3600,
            refresh: true,
            metadata_redirect: None,
            client_secret: None,
            token_status: None,
            authority: None,
            resource: None,
            has_metadata: true,
            names_metadata: true,
            resource_metadata: None,
            challenged: None,
            resource_scopes: None,
            admin_scope: None,
        }
    }
}

#[derive(Default)]
struct Memory {
    behaviour: Behaviour,
    /// What was asked, in order: the path and the fields.
    seen: Vec<(String, Fields)>,
    /// Codes and what they were given for.
    codes: BTreeMap<String, Fields>,
    /// Tokens that are valid, and their scopes.
    access: BTreeMap<String, String>,
    refresh: BTreeMap<String, String>,
    /// Every secret that was ever given out, in order.
    given: Vec<String>,
    count: u64,
}

/// Both servers.
#[derive(Clone)]
pub(crate) struct World {
    memory: Arc<Mutex<Memory>>,
    /// The authorization server's issuer.
    pub(crate) issuer: String,
    /// The protected server's address, without `/mcp`.
    pub(crate) origin: String,
}

impl World {
    /// Starts both on free ports of `127.0.0.1`.
    pub(crate) async fn start() -> Self {
        let listeners = [listen().await, listen().await];
        let [authority, protected] = listeners;
        let world = Self { memory: Arc::default(), issuer: authority.1, origin: protected.1 };
        serve(authority.0, world.clone().authority());
        serve(protected.0, world.clone().protected());
        world
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// Changes how they behave.
    pub(crate) fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.memory().behaviour);
    }

    /// The fields of every request to a path.
    pub(crate) fn seen(&self, path: &str) -> Vec<Fields> {
        let memory = self.memory();
        let there = memory.seen.iter().filter(|(at, _)| at == path);
        there.map(|(_, fields)| fields.clone()).collect()
    }

    /// The paths of all requests, in order.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.memory().seen.iter().map(|(path, _)| path.clone()).collect()
    }

    /// Every token, code and secret that was given out so far.
    pub(crate) fn given(&self) -> Vec<String> {
        self.memory().given.clone()
    }

    /// Ends all tokens of both kinds, as a person does who withdraws consent.
    pub(crate) fn revoke_all(&self) {
        let mut memory = self.memory();
        memory.access.clear();
        memory.refresh.clear();
    }

    /// Ends access tokens only.
    pub(crate) fn end_access_tokens(&self) {
        self.memory().access.clear();
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, path: &str, fields: Fields) {
        self.memory().seen.push((path.to_owned(), fields));
    }

    fn authority(self) -> Router {
        Router::new()
            .route("/.well-known/oauth-authorization-server", get(metadata))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/register", post(register))
            .route("/revoke", post(revoke))
            .with_state(self)
    }

    fn protected(self) -> Router {
        Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/mcp", post(mcp).get(async || StatusCode::METHOD_NOT_ALLOWED))
            .with_state(self)
    }
}

impl Memory {
    fn fresh(&mut self, kind: &str) -> String {
        self.count += 1;
        let hash = Sha256::digest(format!("{kind}{}", self.count));
        let text = format!("{kind}-{}", URL_SAFE_NO_PAD.encode(hash));
        self.given.push(text.clone());
        text
    }

    fn tokens(&mut self, scope: &str) -> Value {
        let access = self.fresh("access");
        self.access.insert(access.clone(), scope.to_owned());
        let mut answer = json!({
            "access_token": access, "token_type": "Bearer", "expires_in": self.behaviour.expires_in
        });
        if !scope.is_empty() {
            answer["scope"] = scope.into();
        }
        if self.behaviour.refresh {
            let refresh = self.fresh("refresh");
            self.refresh.insert(refresh.clone(), scope.to_owned());
            answer["refresh_token"] = refresh.into();
        }
        answer
    }
}

async fn listen() -> (tokio::net::TcpListener, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    (listener, origin)
}

fn serve(listener: tokio::net::TcpListener, router: Router) {
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
}

async fn metadata(State(world): State<World>) -> Response {
    world.note("/metadata", Fields::new());
    let memory = world.memory();
    let behaviour = &memory.behaviour;
    if let Some(place) = &behaviour.metadata_redirect {
        return redirect(place);
    }
    let issuer = &world.issuer;
    let endpoint = |named: &Option<String>, path: &str| {
        named.clone().unwrap_or_else(|| format!("{issuer}{path}"))
    };
    let mut metadata = json!({
        "issuer": behaviour.issuer.as_ref().unwrap_or(issuer),
        "authorization_endpoint": endpoint(&behaviour.authorization_endpoint, "/authorize"),
        "token_endpoint": endpoint(&behaviour.token_endpoint, "/token"),
        "revocation_endpoint": endpoint(&behaviour.revocation_endpoint, "/revoke"),
        "response_types_supported": ["code"],
        "token_endpoint_auth_methods_supported": behaviour.methods,
        "client_id_metadata_document_supported": behaviour.takes_documents,
        "authorization_response_iss_parameter_supported": behaviour.promises_issuer,
    });
    if behaviour.s256 {
        metadata["code_challenge_methods_supported"] = json!(["plain", "S256"]);
    }
    if behaviour.registers {
        metadata["registration_endpoint"] =
            endpoint(&behaviour.registration_endpoint, "/register").into();
    }
    if !behaviour.scopes.is_empty() {
        metadata["scopes_supported"] = json!(behaviour.scopes);
    }
    Json(metadata).into_response()
}

async fn authorize(State(world): State<World>, RawQuery(query): RawQuery) -> Response {
    let fields = fields(&query.unwrap_or_default());
    world.note("/authorize", fields.clone());
    let mut memory = world.memory();
    let mut place = fields["redirect_uri"].clone();
    if let Some(path) = memory.behaviour.answer_path {
        place = place.replace("/callback", path);
    }
    let state = memory.behaviour.answer_state.unwrap_or(&fields["state"]);
    let mut pairs = vec![("state".to_owned(), state.to_owned())];
    if memory.behaviour.names_issuer {
        let issuer = memory.behaviour.answer_issuer.unwrap_or(&world.issuer);
        pairs.push(("iss".to_owned(), issuer.to_owned()));
    }
    if let Some(error) = memory.behaviour.denies {
        pairs.push(("error".to_owned(), error.to_owned()));
    } else {
        let code = memory.fresh("code");
        memory.codes.insert(code.clone(), fields);
        pairs.push(("code".to_owned(), code));
    }
    let query: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
    redirect(&format!("{place}?{}", query.join("&")))
}

async fn token(State(world): State<World>, headers: HeaderMap, body: String) -> Response {
    let mut form = fields(&body);
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        form.insert("authorization".to_owned(), value.to_str().unwrap().to_owned());
    }
    world.note("/token", form.clone());
    let mut memory = world.memory();
    if let Some(status) = memory.behaviour.token_status {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    let scope = match form["grant_type"].as_str() {
        "authorization_code" => memory.codes.remove(&form["code"]).filter(|asked| {
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
            challenge == asked["code_challenge"]
                && asked["redirect_uri"] == form["redirect_uri"]
                && asked["resource"] == form["resource"]
        }),
        "client_credentials" => {
            let given = form.get("client_secret").cloned();
            let given = given.or_else(|| Some(basic(form.get("authorization")?).1));
            let expected = memory.behaviour.client_secret;
            if expected.is_some() && given.as_deref() != expected {
                let error = json!({ "error": "invalid_client" });
                return (StatusCode::UNAUTHORIZED, Json(error)).into_response();
            }
            Some(form.clone())
        }
        // A refresh token is good for one renewal.
        "refresh_token" => memory
            .refresh
            .remove(&form["refresh_token"])
            .map(|scope| Fields::from([("scope".to_owned(), scope)])),
        _ => None,
    };
    let Some(asked) = scope else {
        let words = format!("`{body}` is worth nothing");
        let error = json!({ "error": "invalid_grant", "error_description": words });
        return (StatusCode::BAD_REQUEST, Json(error)).into_response();
    };
    let scope = asked.get("scope").cloned().unwrap_or_default();
    Json(memory.tokens(&scope)).into_response()
}

async fn register(State(world): State<World>, Json(asked): Json<Value>) -> Response {
    let text = Fields::from([("body".to_owned(), asked.to_string())]);
    world.note("/register", text);
    let mut memory = world.memory();
    let mut answer = asked;
    memory.count += 1;
    answer["client_id"] = format!("client-{}", memory.count).into();
    if answer["token_endpoint_auth_method"] != "none" {
        answer["client_secret"] = memory.fresh("secret").into();
    }
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn revoke(State(world): State<World>, body: String) -> StatusCode {
    let form = fields(&body);
    let mut memory = world.memory();
    memory.refresh.remove(&form["token"]);
    memory.access.clear();
    drop(memory);
    world.note("/revoke", form);
    StatusCode::OK
}

async fn resource(State(world): State<World>) -> Response {
    world.note("/resource", Fields::new());
    let memory = world.memory();
    if !memory.behaviour.has_metadata {
        return StatusCode::NOT_FOUND.into_response();
    }
    let mut metadata = json!({
        "resource": memory.behaviour.resource.clone().unwrap_or(world.url()),
        "authorization_servers": [memory.behaviour.authority.as_ref().unwrap_or(&world.issuer)],
    });
    if let Some(scopes) = &memory.behaviour.resource_scopes {
        metadata["scopes_supported"] = json!(scopes);
    }
    Json(metadata).into_response()
}

async fn mcp(
    State(world): State<World>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let tool = message["params"]["name"].as_str().unwrap_or_default().to_owned();
    let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = sent.and_then(|text| text.strip_prefix("Bearer ")).unwrap_or_default().to_owned();
    let noted =
        Fields::from([("method".to_owned(), method.clone()), ("token".to_owned(), token.clone())]);
    world.note("/mcp", noted);
    let memory = world.memory();
    let Some(scope) = memory.access.get(&token) else {
        return challenge(&world, &memory.behaviour, StatusCode::UNAUTHORIZED, None);
    };
    if let Some(needed) = memory.behaviour.admin_scope.filter(|_| tool == "admin")
        && !scope.split(' ').any(|held| held == needed)
    {
        return challenge(&world, &memory.behaviour, StatusCode::FORBIDDEN, Some(needed));
    }
    let result = match method.as_str() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "protected", "version": "1" },
        }),
        "tools/list" => {
            let tool = |name: &str| json!({ "name": name, "description": "Says hello", "inputSchema": { "type": "object" } });
            json!({ "tools": [tool("hello"), tool("admin")] })
        }
        // A server that repeats the token that it was shown.
        "tools/call" => {
            json!({ "content": [{ "type": "text", "text": format!("hello {token}") }] })
        }
        _ if message.get("id").is_none() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({ "code": -32601, "message": "unknown method" });
            return Json(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }))
                .into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
}

fn challenge(
    world: &World,
    behaviour: &Behaviour,
    status: StatusCode,
    needed: Option<&str>,
) -> Response {
    let mut parts = Vec::new();
    if let Some(scope) = needed {
        parts.push(format!("error=\"insufficient_scope\", scope=\"{scope}\""));
    } else if let Some(scope) = behaviour.challenged {
        parts.push(format!("scope=\"{scope}\""));
    }
    if behaviour.names_metadata {
        let place = behaviour.resource_metadata.clone().unwrap_or_else(|| {
            format!("{}/.well-known/oauth-protected-resource/mcp", world.origin)
        });
        parts.push(format!("resource_metadata=\"{place}\""));
    }
    let text = format!("Bearer {}", parts.join(", "));
    (status, [(header::WWW_AUTHENTICATE, text)]).into_response()
}

fn redirect(place: &str) -> Response {
    let place = HeaderValue::from_str(place).unwrap();
    (StatusCode::FOUND, [(header::LOCATION, place)]).into_response()
}

/// What a person does: opens an address and follows where it leads. Returns the last page.
pub(crate) async fn browse(url: &str) -> (StatusCode, String) {
    let egress = Egress::new();
    let mut place = url.to_owned();
    for _ in 0..5 {
        let request = Request::get(&place).body(Body::default()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let reach = Reach::own(request.uri());
        let (head, body) = egress.request(request, &reach, deadline).await.unwrap().into_parts();
        let Some(next) = head.headers.get(header::LOCATION) else {
            let body = read_body(body, 1 << 20, deadline).await.unwrap();
            return (head.status, String::from_utf8_lossy(&body).into_owned());
        };
        next.to_str().unwrap().clone_into(&mut place);
    }
    panic!("too many redirects, the last to {place}");
}

/// The parameters of an address or of a form.
pub(crate) fn fields(text: &str) -> Fields {
    let query = text.split_once('?').map_or(text, |(_, query)| query);
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((unescape(name), unescape(value)))
    };
    query.split('&').filter_map(pair).collect()
}

/// The client and the secret in a `Basic` header.
pub(crate) fn basic(header: &str) -> (String, String) {
    let pair = STANDARD.decode(header.strip_prefix("Basic ").unwrap()).unwrap();
    let pair = String::from_utf8(pair).unwrap();
    let (id, secret) = pair.split_once(':').unwrap();
    (unescape(id), unescape(secret))
}

fn escape(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let one =
        |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap()
}
