//! Headers that only the gateway writes; neither an operator nor a pack, a document or a caller can
//! set them. They belong to the connection, to the length of the message, or to its packing; who sets
//! them decides where a request ends or whom it is for.

use http::HeaderName;

const OF_GATEWAY: [&str; 13] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a header is the gateway's own in every protocol.
pub(crate) fn is_of_gateway(name: &HeaderName) -> bool {
    let name = folded(name.as_str());
    name.starts_with("proxy-") || OF_GATEWAY.contains(&name.as_str())
}

/// A name as servers compare it: many read `Content_Length` and `Content-Length` as one.
pub(crate) fn folded(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_frames_or_leads_a_request_is_nobody_elses() {
        for (name, expected) in [
            ("Host", true),
            ("Content-Length", true),
            ("content_length", true),
            ("Transfer-Encoding", true),
            ("Transfer_Encoding", true),
            ("Connection", true),
            ("Keep-Alive", true),
            ("Proxy-Authorization", true),
            ("Proxy-Connection", true),
            ("proxy_anything", true),
            ("TE", true),
            ("Trailer", true),
            ("Upgrade", true),
            ("HTTP2-Settings", true),
            ("Expect", true),
            ("Content-Type", true),
            ("Content-Encoding", true),
            ("Accept-Encoding", true),
            ("Authorization", false),
            ("Cookie", false),
            ("X-API-Key", false),
            ("Accept", false),
            ("X-Host", false),
            ("Test", false),
        ] {
            assert_eq!(is_of_gateway(&HeaderName::try_from(name).unwrap()), expected, "{name}");
        }
    }
}
