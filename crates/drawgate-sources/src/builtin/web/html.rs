//! HTML as readable text.

use html2text::config;

use super::{Page, nesting};

/// Of a larger page only the beginning is laid out.
const MAX_HTML: usize = 2 * 1024 * 1024;
/// How wide lines are; words and links that are longer stay whole.
const WIDTH: usize = 120;
/// Where a title is looked for, and how much of it is kept.
const TITLE_WITHIN: usize = 64 * 1024;
const MAX_TITLE: usize = 300;

/// Whether a text without a type is a page.
pub(super) fn looks_like(text: &str) -> bool {
    let head: String = text.trim_start().chars().take(20).collect::<String>().to_ascii_lowercase();
    head.starts_with("<!doctype html") || head.starts_with("<html")
}

pub(super) fn read(html: &str) -> Option<Page> {
    let html = beginning(html, MAX_HTML);
    Some(Page { title: title(html), text: render(html)? })
}

fn render(html: &str) -> Option<String> {
    if !nesting::is_reasonable(html) {
        return Some(tidy(&nesting::stripped(html)));
    }
    let config = config::plain().no_table_borders().no_link_wrapping().allow_width_overflow();
    let text = config.string_from_read(html.as_bytes(), WIDTH).ok()?;
    Some(tidy(&text))
}

/// Lines without what is at their ends, and no more than one empty line between them.
fn tidy(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    let mut empty = 2_usize;
    for line in text.lines().map(str::trim_end) {
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            tidied.push_str(line);
            tidied.push('\n');
        }
    }
    tidied.truncate(tidied.trim_end().len());
    tidied
}

fn title(html: &str) -> Option<String> {
    let head = beginning(html, TITLE_WITHIN);
    // In ASCII alone, so that places in both texts are the same.
    let lower = head.to_ascii_lowercase();
    let tag = lower.find("<title")?;
    let open = tag + lower.get(tag..)?.find('>')? + 1;
    let close = open + lower.get(open..)?.find("</title")?;
    let text = head.get(open..close)?.replace('<', "&lt;");
    let text = render(&format!("<p>{text}</p>"))?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let title: String = words.join(" ").chars().take(MAX_TITLE).collect();
    (!title.is_empty()).then_some(title)
}

fn beginning(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}
