//! Media types.

/// The type without its parameters, in lower case.
pub(super) fn essence(media: &str) -> String {
    media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// JSON, by whatever name.
pub(super) fn is_json(media: &str) -> bool {
    let essence = essence(media);
    essence == "application/json"
        || essence == "text/json"
        || essence == "*/*"
        || essence.ends_with("+json")
}

/// Something that people can read.
pub(super) fn is_text(media: &str) -> bool {
    const TEXTS: [&str; 7] = [
        "application/graphql",
        "application/javascript",
        "application/sql",
        "application/toml",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
    ];
    let essence = essence(media);
    essence.starts_with("text/")
        || TEXTS.contains(&essence.as_str())
        || essence.ends_with("+xml")
        || essence.ends_with("+yaml")
}

/// Whether it can be sent as it stands, or stands for a family of types.
pub(super) fn concrete(media: &str) -> Option<&str> {
    (!media.contains('*') && http::HeaderValue::try_from(media).is_ok()).then_some(media)
}
