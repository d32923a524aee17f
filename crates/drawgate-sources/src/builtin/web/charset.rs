//! Bytes as text: UTF-8, UTF-16 with its mark, and the Latin alphabet of old pages.

/// How much of a page tells whether it is text.
const SAMPLE: usize = 8 * 1024;

/// What Windows has where Latin-1 has control characters; its five gaps stay what they are.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
    '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The text; `None` if it is none.
pub(super) fn decode(content_type: &str, bytes: &[u8]) -> Option<String> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => return Some(wide(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => return Some(wide(rest, u16::from_be_bytes)),
        _ => {}
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.iter().take(SAMPLE).any(|byte| is_foreign(*byte)) {
        return None;
    }
    if is_latin(content_type) {
        return Some(bytes.iter().map(|byte| latin(*byte)).collect());
    }
    // One bad byte, or a character that the limit cut, does not make it binary; many do.
    let text = String::from_utf8_lossy(bytes).into_owned();
    let odd = text.chars().filter(|character| *character == char::REPLACEMENT_CHARACTER).count();
    (odd <= 1 + text.len() / 20).then_some(text)
}

/// Bytes that no text has.
const fn is_foreign(byte: u8) -> bool {
    matches!(byte, 0..=8 | 14..=26 | 28..=31)
}

fn is_latin(content_type: &str) -> bool {
    let lower = content_type.to_ascii_lowercase();
    let name = lower.split(';').find_map(|part| part.trim().strip_prefix("charset="));
    let name = name.map(|name| name.trim_matches('"'));
    matches!(name, Some("iso-8859-1" | "latin1" | "latin-1" | "windows-1252" | "cp1252"))
}

fn latin(byte: u8) -> char {
    let windows = byte.checked_sub(0x80).and_then(|at| WINDOWS.get(usize::from(at)));
    windows.copied().unwrap_or(char::from(byte))
}

fn wide(bytes: &[u8], join: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).filter_map(|pair| Some(join(pair.try_into().ok()?)));
    char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
