//! Archives of packs, made byte by byte where no program would make them. The program's own tests use
//! this file too.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const TOP: &str = "pack-0123456/";

/// A valid manifest.
pub(crate) fn manifest(version: &str) -> String {
    let manifest = json!({
        "id": "pack",
        "name": "Pack",
        "version": version,
        "enabled": true,
        "tools": [{
            "name": "pack_say",
            "type": "command",
            "description": "Says something.",
            "command_template": "printf -- '%s' {{words}}",
            "parameters": {
                "type": "object",
                "properties": { "words": { "type": "string" } },
                "required": ["words"]
            }
        }]
    });
    format!("{manifest:#}\n")
}

/// An archive under construction.
#[derive(Clone)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

impl Tar {
    pub(crate) fn empty() -> Self {
        Self(Vec::new())
    }

    /// An archive of a valid pack, but for its end.
    pub(crate) fn pack() -> Self {
        Self::empty().entry(TOP, b'5', b"").entry(
            &format!("{TOP}toolpack.json"),
            b'0',
            manifest("1.0.0").as_bytes(),
        )
    }

    pub(crate) fn entry(self, name: &str, flag: u8, content: &[u8]) -> Self {
        self.edited(name, flag, content, |_| {})
    }

    /// A file below the top folder.
    pub(crate) fn file(self, name: &str) -> Self {
        self.entry(&format!("{TOP}{name}"), b'0', b"content")
    }

    /// An entry whose header is changed before its checksum is made.
    pub(crate) fn edited(
        mut self,
        name: &str,
        flag: u8,
        content: &[u8],
        edit: impl FnOnce(&mut [u8; 512]),
    ) -> Self {
        let mut header = [0; 512];
        put(&mut header, 0, name.as_bytes());
        put(&mut header, 100, if flag == b'5' { b"0000755\0" } else { b"0000644\0" });
        put(&mut header, 108, b"0001750\x000001750\0");
        put(&mut header, 124, format!("{:011o}\0", content.len()).as_bytes());
        put(&mut header, 136, b"14000000000\0");
        header[156] = flag;
        put(&mut header, 257, b"ustar\x0000");
        edit(&mut header);
        seal(&mut header);
        self.0.extend(header);
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// A link: its target stands in the header.
    pub(crate) fn link(self, name: &str, flag: u8, target: &str) -> Self {
        self.edited(&format!("{TOP}{name}"), flag, b"", |header| {
            put(header, 157, target.as_bytes());
        })
    }

    /// Attributes before the next entry, each a key and a value.
    pub(crate) fn pax(self, flag: u8, records: &[(&str, &str)]) -> Self {
        let lines: String = records.iter().map(|(key, value)| record(key, value)).collect();
        self.entry("pax_header", flag, lines.as_bytes())
    }

    /// The blocks at the end.
    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }

    /// The whole archive, compressed.
    pub(crate) fn packed(self) -> Vec<u8> {
        gzip(&self.end())
    }
}

pub(crate) fn put(header: &mut [u8], at: usize, bytes: &[u8]) {
    header[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Makes the checksum right.
pub(crate) fn seal(header: &mut [u8]) {
    put(header, 148, b"        ");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    put(header, 148, format!("{sum:06o}\0 ").as_bytes());
}

fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let length = (1..20).find(|digits| (rest.len() + digits).to_string().len() == *digits).unwrap();
    format!("{}{rest}", rest.len() + length)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
