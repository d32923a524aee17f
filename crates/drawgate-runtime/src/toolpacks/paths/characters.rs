//! Which characters a name may have, and which of them are taken for one another.

use icu_normalizer::ComposingNormalizerBorrowed;

/// What is wrong with a character in a name.
pub(super) fn fault(c: char) -> Option<&'static str> {
    match c {
        '\\' => Some("a backslash separates folders elsewhere; use `/`"),
        ':' => Some("a colon means a drive or a stream elsewhere"),
        '<' | '>' | '|' | '"' | '?' | '*' => {
            Some("a name elsewhere can't have any of `<`, `>`, `|`, `\"`, `?` and `*`")
        }
        c if c.is_control() => Some("there is a control character in its name"),
        c if is_invisible(c) => Some("there is an invisible character in its name"),
        c if c != ' ' && c.is_whitespace() => Some("there is an unusual space in its name"),
        c if is_without_meaning(c) => {
            Some("there is a character in its name that looks different everywhere")
        }
        c if is_like_a_slash(c) => Some("a character in its name looks like a slash"),
        _ => None,
    }
}

/// What a path has in common with all that some file system, or a reader, would take for the same:
/// one without capitals, or one that stores accents in another way.
pub(in super::super) fn folded(path: &str) -> String {
    const PLAIN: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfkc();
    // Some letters have one only in one of the two cases: `ẞ` is `ß`, which is `SS`, which is `ss`.
    let plain = PLAIN.normalize(path);
    let lower = plain.chars().flat_map(char::to_lowercase);
    let upper = lower.flat_map(char::to_uppercase);
    let cases: String = upper.flat_map(char::to_lowercase).collect();
    PLAIN.normalize(&cases).into_owned()
}

/// Characters without a shape: they change the direction of text, join or part it, or tag it.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffc}' | '\u{13430}'..='\u{1343f}' | '\u{16fe4}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d159}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Kept for private use, or no character at all.
fn is_without_meaning(c: char) -> bool {
    let number = u32::from(c);
    matches!(number, 0xe000..=0xf8ff | 0xfdd0..=0xfdef | 0xf_0000..) || number & 0xfffe == 0xfffe
}

/// Signs that are drawn as `/` or `\`. Letters that are may stay.
fn is_like_a_slash(c: char) -> bool {
    matches!(
        c,
        '\u{2041}'
            | '\u{2044}'
            | '\u{2215}'
            | '\u{2216}'
            | '\u{2571}'
            | '\u{2572}'
            | '\u{27cb}'
            | '\u{27cd}'
            | '\u{29f5}'
            | '\u{29f8}'
            | '\u{29f9}'
            | '\u{1d20f}'
            | '\u{1d23a}'
            | '\u{1d23b}'
    )
}
