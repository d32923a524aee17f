//! `multipart/form-data`, as browsers write it.

use bytes::{BufMut as _, Bytes, BytesMut};

/// One part.
pub(super) struct Content<'a> {
    pub(super) name: &'a str,
    /// Files have a file name, which is the part's name here.
    pub(super) file: bool,
    pub(super) media: Option<&'a str>,
    pub(super) bytes: Bytes,
}

/// The parts, each behind the boundary.
pub(super) fn write(parts: &[Content<'_>], boundary: &str) -> Bytes {
    let mut out = BytesMut::new();
    for part in parts {
        let name = quoted(part.name);
        out.put(
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"").as_bytes(),
        );
        if part.file {
            out.put(format!("; filename=\"{name}\"").as_bytes());
        }
        if let Some(media) = part.media {
            out.put(format!("\r\nContent-Type: {media}").as_bytes());
        }
        out.put_slice(b"\r\n\r\n");
        out.put_slice(&part.bytes);
        out.put_slice(b"\r\n");
    }
    out.put(format!("--{boundary}--\r\n").as_bytes());
    out.freeze()
}

/// No name can end its quotes or its line.
fn quoted(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '"' => out.push_str("%22"),
            '\r' => out.push_str("%0D"),
            '\n' => out.push_str("%0A"),
            c if c.is_control() => out.push('_'),
            c => out.push(c),
        }
    }
    out
}
