//! What a person sees before saying yes: all of it.

use http::{Method, StatusCode};
use serde_json::json;

use super::authentication::ASKING;
use crate::callers::ready;
use crate::support::{TestFolder, text};

/// Arguments whose dangerous part stands where nobody looks; what must be seen of it.
fn rows() -> Vec<(&'static str, String, &'static str)> {
    let long = |end: &str| format!("{}{end}", "harmless ".repeat(1200));
    vec![
        ("at the end of a long text", long("rm -rf at-the-end"), "rm -rf at-the-end"),
        ("after many lines", format!("a{}rm far-below", "\n".repeat(5000)), "rm far-below"),
        ("after many blanks", format!("a{}rm far-right", " ".repeat(20_000)), "rm far-right"),
        ("behind an escape", "\u{1b}[8mrm unseen\u{1b}[2K\r".to_owned(), "rm unseen"),
        ("backwards", "\u{202e}elif-eht mr".to_owned(), "{202e}elif-eht mr"),
        ("in tag characters", "ok\u{e0072}\u{e006d}".to_owned(), "{e0072}"),
        ("of zero width", "r\u{200b}m".to_owned(), "{200b}m"),
        ("markup", "</pre><b>approved</b>".to_owned(), "approved"),
    ]
}

#[tokio::test]
async fn approval_truncation() {
    let place = TestFolder::new(ASKING);
    let gateway = ready(&place).await;
    for (row, content, wanted) in rows() {
        let arguments = json!({ "path": "a", "content": content });
        let held = gateway.call(&gateway.token, "vfs_write", arguments).await;
        let id = held["_meta"]["drawgate/error"]["details"]["approvalId"].as_str().unwrap();
        let origin = format!("http://{}", gateway.address);
        let headers =
            [("content-type", "application/x-www-form-urlencoded"), ("origin", origin.as_str())];
        let form = format!("token={}", gateway.token);
        let page = gateway.send(Method::POST, &format!("/approvals/{id}"), &headers, form).await;
        assert_eq!(page.status, StatusCode::OK, "{row}");
        let page = text(&page.body);
        assert!(!page.contains("<b>approved"), "{row}");
        for shown in [place.ok(&["approvals", "show", id]), page] {
            assert!(shown.contains(wanted), "{row}: {wanted} is not in {shown}");
            let hidden = |c: char| {
                (c.is_control() && c != '\n')
                    || matches!(c, '\u{202e}' | '\u{200b}' | '\u{e0000}'..='\u{e0fff}')
            };
            assert!(!shown.contains(hidden), "{row}: {shown:?}");
        }
    }
}
