//! How deep a page is nested, roughly, before it is laid out: that takes time by the square of
//! the depth, which a page of a hundred kilobytes can raise to minutes.

/// The deepest that is laid out: real pages stay below.
const DEEPEST: usize = 200;
/// The same for what indents its content, and so repeats itself in every line.
const DEEPEST_INDENTED: usize = 24;
/// The same for tables, each of which is measured before it is laid out.
const DEEPEST_TABLE: usize = 8;

/// Tags without an end.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Tags whose end people leave out; the next of them ends the last.
const CLOSED_BY_NEXT: [&str; 12] =
    ["p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option", "optgroup"];
const INDENTS: [&str; 6] = ["blockquote", "ul", "ol", "dl", "table", "pre"];

/// Whether a page can be laid out in reasonable time.
pub(super) fn is_reasonable(html: &str) -> bool {
    let (mut depth, mut indented, mut tables) = (0_usize, 0_usize, 0_usize);
    for tag in html.split('<').skip(1) {
        let (name, opens) = match tag.strip_prefix('/') {
            Some(rest) => (name(rest), false),
            None => (name(tag), true),
        };
        if name.is_empty() || VOID.contains(&&*name) || CLOSED_BY_NEXT.contains(&&*name) {
            continue;
        }
        let step = |count: usize| if opens { count + 1 } else { count.saturating_sub(1) };
        depth = step(depth);
        if INDENTS.contains(&&*name) {
            indented = step(indented);
        }
        if name == "table" {
            tables = step(tables);
        }
        if depth > DEEPEST || indented > DEEPEST_INDENTED || tables > DEEPEST_TABLE {
            return false;
        }
    }
    true
}

/// The text of a page without its tags, for one that is not laid out.
pub(super) fn stripped(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    for piece in html.split('<') {
        let words = piece.split_once('>').map_or(piece, |(_, words)| words);
        if !words.trim().is_empty() {
            text.push_str(words.trim());
            text.push('\n');
        }
    }
    text
}

fn name(tag: &str) -> String {
    tag.chars()
        .take_while(char::is_ascii_alphanumeric)
        .take(12)
        .collect::<String>()
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_pages_are_reasonable_and_towers_are_not() {
        let list = format!("<ul>{}</ul>", "<li>item <p>text<br>".repeat(5000));
        let table = format!("<table>{}</table>", "<tr><td>a<td>b".repeat(5000));
        let deep = format!("{}x{}", "<div>".repeat(150), "</div>".repeat(150));
        let broad = "<div><b>x</b></div>".repeat(10_000);
        for page in [list, table, deep, broad, "no tags < at all".to_owned()] {
            assert!(is_reasonable(&page), "{}", page.chars().take(40).collect::<String>());
        }
        for tag in ["<div>", "<B>", "<span x=y>", "<blockquote>", "<table><tr><td>", "<x-y>"] {
            assert!(!is_reasonable(&tag.repeat(1000)), "{tag}");
        }
    }

    #[test]
    fn tags_can_be_left_out() {
        assert_eq!(stripped("<p>one <b>two</b></p>\n three"), "one\ntwo\nthree\n");
    }
}
