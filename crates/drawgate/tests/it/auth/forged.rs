//! Tokens that must not be taken.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::{Value, json};

use super::issuer::{Key, encode};
use super::{Keys, claims, header};

/// Longer than the gateway reads.
const TOO_LONG: usize = 9 * 1024;

/// A token, and why the operator reads that it was refused.
pub(super) struct Forged {
    pub(super) name: String,
    pub(super) reason: &'static str,
    pub(super) token: String,
}

type Tokens = Vec<(&'static str, String)>;

/// All of them.
pub(super) fn all(keys: &Keys) -> Vec<Forged> {
    let groups = [
        ("algorithm", algorithms(keys)),
        ("key name", key_names(keys)),
        ("header", headers(keys)),
        ("claim", wrong_claims(keys)),
        ("missing claim", missing_claims(keys)),
        ("json", json_texts(keys)),
        ("signature", signatures(keys)),
        ("form", forms(keys)),
        ("key of another use", other_uses(keys)),
    ];
    let numbered = groups.into_iter().flat_map(|(group, tokens)| {
        tokens.into_iter().enumerate().map(move |(index, (reason, token))| Forged {
            name: format!("{group} {index}"),
            reason,
            token,
        })
    });
    numbered.collect()
}

fn ed(keys: &Keys, change: &Value) -> String {
    keys.ed.token(&header("EdDSA", "ed").to_string(), &claims(change).to_string())
}

fn with_header(keys: &Keys, name: &str, value: Value) -> String {
    let mut header = header("EdDSA", "ed");
    header[name] = value;
    keys.ed.token(&header.to_string(), &claims(&json!({})).to_string())
}

fn algorithms(keys: &Keys) -> Tokens {
    let claims = claims(&json!({})).to_string();
    let signed =
        |alg: &str, kid: &str, key: &Key| key.token(&header(alg, kid).to_string(), &claims);
    let unsigned = |alg: &str, end: &str| {
        format!("{}.{}.{end}", encode(header(alg, "ed").to_string()), encode(&claims))
    };
    let hmac = |kid: &str, secret: &[u8]| {
        let signed = format!("{}.{}", encode(header("HS256", kid).to_string()), encode(&claims));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
        format!("{signed}.{}", encode(ring::hmac::sign(&key, signed.as_bytes())))
    };
    let text = keys.rsa.public("rsa").to_string();
    let modulus = keys.rsa.public("rsa")["n"].as_str().unwrap().to_owned();
    let raw = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(&modulus).unwrap();
    vec![
        ("jwt_algorithm", unsigned("none", "")),
        ("jwt_algorithm", unsigned("None", "")),
        ("jwt_algorithm", unsigned("nOnE", &encode("x"))),
        ("jwt_algorithm", unsigned("", &encode("x"))),
        ("jwt_form", unsigned("EdDSA", "")),
        ("jwt_algorithm", hmac("rsa", text.as_bytes())),
        ("jwt_algorithm", hmac("rsa", &raw)),
        ("jwt_algorithm", hmac("oct", b"0123456789abcdef0123456789abcdef")),
        ("jwt_key", signed("RS256", "ed", &keys.ed)),
        ("jwt_key", signed("ES256", "rsa", &keys.rsa)),
        ("jwt_key", signed("EdDSA", "rsa", &keys.rsa)),
        ("jwt_algorithm", signed("RS512", "rsa", &keys.rsa)),
        ("jwt_algorithm", signed("PS256", "rsa", &keys.rsa)),
        ("jwt_algorithm", signed("eddsa", "ed", &keys.ed)),
        ("jwt_algorithm", with_header(keys, "alg", json!(["EdDSA"]))),
        ("jwt_algorithm", with_header(keys, "alg", Value::Null)),
    ]
}

fn key_names(keys: &Keys) -> Tokens {
    let names = [
        ("jwt_key", json!("../../../../../dev/null")),
        ("jwt_key", json!("/etc/passwd")),
        ("jwt_key", json!("ed' OR '1'='1")),
        ("jwt_key", json!("http://127.0.0.1:1/key")),
        ("jwt_key", json!("unknown")),
        ("jwt_key", json!("ED")),
        ("jwt_key", json!("")),
        ("jwt_header", json!(7)),
        ("jwt_header", json!(["ed"])),
        ("jwt_header", Value::Null),
    ];
    let tokens = names.into_iter().map(|(reason, name)| (reason, with_header(keys, "kid", name)));
    let mut tokens: Tokens = tokens.collect();
    // Two keys of this kind are published, so that a token must say which.
    let unnamed = json!({ "alg": "ES256" }).to_string();
    tokens.push(("jwt_key", keys.ec.token(&unnamed, &claims(&json!({})).to_string())));
    tokens
}

fn headers(keys: &Keys) -> Tokens {
    let stranger = Key::ed();
    let public = stranger.public("ed");
    let own = |name: &str, value: Value| {
        let mut header = header("EdDSA", "ed");
        header[name] = value;
        stranger.token(&header.to_string(), &claims(&json!({})).to_string())
    };
    vec![
        ("jwt_header", own("jku", json!("http://127.0.0.1:1/jwks"))),
        ("jwt_header", own("x5u", json!("http://127.0.0.1:1/cert.pem"))),
        ("jwt_header", own("jwk", public.clone())),
        ("jwt_header", with_header(keys, "jku", json!("http://127.0.0.1:1/jwks"))),
        ("jwt_header", with_header(keys, "x5u", json!("https://login.example/cert.pem"))),
        ("jwt_header", with_header(keys, "jwk", public)),
        ("jwt_header", with_header(keys, "crit", json!(["exp"]))),
        ("jwt_header", with_header(keys, "crit", json!([]))),
        ("jwt_header", with_header(keys, "typ", json!("logout+jwt"))),
        ("jwt_header", with_header(keys, "typ", json!("id+jwt"))),
        ("jwt_header", with_header(keys, "typ", json!(""))),
        ("jwt_header", with_header(keys, "typ", json!(1))),
    ]
}

fn wrong_claims(keys: &Keys) -> Tokens {
    let changes = [
        ("jwt_audience", json!({ "aud": "https://other.example/mcp" })),
        ("jwt_audience", json!({ "aud": "https://gate.example/mcp/" })),
        ("jwt_audience", json!({ "aud": "https://gate.example" })),
        ("jwt_audience", json!({ "aud": ["https://other.example/mcp", "https://third.example"] })),
        ("jwt_audience", json!({ "aud": [["https://gate.example/mcp"]] })),
        ("jwt_audience", json!({ "aud": [] })),
        ("jwt_audience", json!({ "aud": { "https://gate.example/mcp": true } })),
        ("jwt_issuer", json!({ "iss": "https://evil.example" })),
        ("jwt_issuer", json!({ "iss": "https://login.example/" })),
        ("jwt_issuer", json!({ "iss": "https://LOGIN.example" })),
        ("jwt_issuer", json!({ "iss": ["https://login.example"] })),
        ("jwt_expired", json!({ "exp": 1_000_000_000 })),
        ("jwt_expired", json!({ "exp": 0 })),
        ("jwt_expired", json!({ "exp": -1 })),
        ("jwt_expired", json!({ "exp": 1e300 })),
        ("jwt_expired", json!({ "exp": u64::MAX })),
        ("jwt_expired", json!({ "exp": "4102444800" })),
        ("jwt_expired", json!({ "exp": [4_102_444_800_u64] })),
        ("jwt_not_yet", json!({ "nbf": 4_102_444_000_u64 })),
        ("jwt_not_yet", json!({ "nbf": "0" })),
        ("jwt_not_yet", json!({ "nbf": u64::MAX })),
        ("jwt_principal", json!({ "sub": "" })),
        ("jwt_principal", json!({ "sub": "a".repeat(65) })),
        ("jwt_principal", json!({ "sub": "ü".repeat(20) })),
        ("jwt_principal", json!({ "sub": "al\nice" })),
        ("jwt_principal", json!({ "sub": "al\u{0}ice" })),
        ("jwt_principal", json!({ "sub": "al\u{9b}ice" })),
        ("jwt_principal", json!({ "sub": "local" })),
        ("jwt_principal", json!({ "sub": "older" })),
        ("jwt_principal", json!({ "sub": 7 })),
        ("jwt_principal", json!({ "sub": ["alice"] })),
    ];
    changes.iter().map(|(reason, change)| (*reason, ed(keys, change))).collect()
}

fn missing_claims(keys: &Keys) -> Tokens {
    let without = |(name, reason)| {
        let mut claims = claims(&json!({}));
        claims.as_object_mut().unwrap().remove(name);
        (reason, keys.ed.token(&header("EdDSA", "ed").to_string(), &claims.to_string()))
    };
    let needed = [
        ("aud", "jwt_audience"),
        ("iss", "jwt_issuer"),
        ("exp", "jwt_expired"),
        ("sub", "jwt_principal"),
    ];
    needed.into_iter().map(without).collect()
}

fn json_texts(keys: &Keys) -> Tokens {
    let (head, body) = (header("EdDSA", "ed").to_string(), claims(&json!({})).to_string());
    let twice = |text: &str, member: &str| text.replacen('{', &format!("{{{member},"), 1);
    vec![
        ("jwt_form", keys.ed.token(&head, &twice(&body, r#""sub":"admin""#))),
        ("jwt_form", keys.ed.token(&head, &twice(&body, r#""exp":1"#))),
        ("jwt_form", keys.ed.token(&head, &twice(&body, r#""aud":"x""#))),
        ("jwt_form", keys.ed.token(&twice(&head, r#""alg":"none""#), &body)),
        ("jwt_form", keys.ed.token(&twice(&head, r#""kid":"other""#), &body)),
        ("jwt_form", keys.ed.token(&head, &format!("[{body}]"))),
        ("jwt_form", keys.ed.token(&format!("[{head}]"), &body)),
        ("jwt_form", keys.ed.token(&head, &format!("{body}{body}"))),
        ("jwt_form", keys.ed.token(&head, "null")),
        ("jwt_form", keys.ed.token(&head, "not json")),
        ("jwt_form", keys.ed.token("not json", &body)),
        ("jwt_form", keys.ed.token(&head, &"[".repeat(4000))),
    ]
}

fn signatures(keys: &Keys) -> Tokens {
    let good = ed(keys, &json!({}));
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (head, _) = signed.split_once('.').unwrap();
    let other = encode(claims(&json!({ "sub": "admin" })).to_string());
    let curve = keys.ec.token(&header("ES256", "ec").to_string(), &claims(&json!({})).to_string());
    let (curve_signed, _) = curve.rsplit_once('.').unwrap();
    let of_curve = keys.ec.sign(curve_signed);
    let with = |bytes: &[u8]| format!("{curve_signed}.{}", encode(bytes));
    let mut longer = of_curve.clone();
    longer.push(0);
    let flipped: Vec<u8> =
        of_curve.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 40)).collect();
    let stranger = |key: Key, alg: &str, kid: &str| {
        key.token(&header(alg, kid).to_string(), &claims(&json!({})).to_string())
    };
    vec![
        ("jwt_signature", format!("{head}.{other}.{signature}")),
        ("jwt_signature", format!("{signed}.{}", encode([0; 64]))),
        ("jwt_signature", format!("{signed}.{}", encode("short"))),
        ("jwt_signature", with(&of_curve[..63])),
        ("jwt_signature", with(&longer)),
        ("jwt_signature", with(&flipped)),
        ("jwt_signature", with(&[0; 64])),
        ("jwt_signature", with(&der(&of_curve))),
        ("jwt_signature", stranger(Key::ed(), "EdDSA", "ed")),
        ("jwt_signature", stranger(Key::ec(), "ES256", "ec")),
        (
            "jwt_signature",
            keys.ec.token(&header("ES256", "ec2").to_string(), &claims(&json!({})).to_string()),
        ),
        ("jwt_signature", keys.small.clone()),
    ]
}

/// The other form of such signatures, which other formats use.
fn der(fixed: &[u8]) -> Vec<u8> {
    let (r, s) = fixed.split_at(32);
    let integer = |bytes: &[u8]| {
        let mut out = vec![2, 33, 0];
        out.extend_from_slice(bytes);
        out
    };
    let body = [integer(r), integer(s)].concat();
    [vec![0x30, u8::try_from(body.len()).unwrap()], body].concat()
}

fn forms(keys: &Keys) -> Tokens {
    let good = ed(keys, &json!({}));
    let parts: Vec<&str> = good.split('.').collect();
    let [head, body, signature] = parts.as_slice() else { panic!("{good}") };
    let padded = |text: &str| format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4));
    let long = "x".repeat(TOO_LONG);
    let other_alphabet = {
        let raw = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(signature).unwrap();
        STANDARD.encode(raw)
    };
    let padding_signed = {
        let claims = claims(&json!({})).to_string();
        let filled = format!("{claims}{}", " ".repeat(3 - claims.len() % 3 + 1));
        let signed = format!("{head}.{}", URL_SAFE.encode(filled));
        assert!(signed.ends_with('='));
        format!("{signed}.{}", encode(keys.ed.sign(&signed)))
    };
    // The last letter of 64 bytes has four bits that mean nothing; they must be zero.
    let (rest, last) = signature.split_at(signature.len() - 1);
    let respelled = char::from(last.as_bytes()[0] + 1);
    vec![
        ("jwt_form", format!("{head}.{body}")),
        ("jwt_form", format!("{head}.{body}.")),
        ("jwt_form", format!("{head}.{body}.{signature}.{signature}")),
        ("jwt_form", format!("{head}.{body}.{signature}.x.y")),
        ("jwt_form", format!(".{body}.{signature}")),
        ("jwt_signature", format!("{head}..{signature}")),
        ("jwt_form", "..".to_owned()),
        ("jwt_form", ".".to_owned()),
        ("jwt_signature", good[..good.len() - 2].to_owned()),
        ("jwt_form", format!("{head}.{body}.{}", padded(signature))),
        ("jwt_signature", format!("{head}.{body}=.{signature}")),
        ("jwt_form", format!("{head}=.{body}.{signature}")),
        ("jwt_form", padding_signed),
        ("jwt_form", format!("{head}.{body}.{other_alphabet}")),
        ("jwt_form", format!("{head}.{body}.{rest}{respelled}")),
        ("jwt_signature", format!("{head}. {body}.{signature}")),
        ("jwt_form", format!("{head}.{body}.{signature},")),
        ("jwt_form", ed(keys, &json!({ "filler": long }))),
    ]
}

fn other_uses(keys: &Keys) -> Tokens {
    let token =
        |kid| keys.ed.token(&header("EdDSA", kid).to_string(), &claims(&json!({})).to_string());
    ["enc", "wrap", "misnamed"].into_iter().map(|kid| ("jwt_key", token(kid))).collect()
}
