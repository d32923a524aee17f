//! The answer to a request: what a method returns, and how it is written, once.

use drawgate_core::model::ToolResult;
use serde_json::{Value, json};

use super::era::Era;
use super::message::{INTERNAL_ERROR, RequestId, RpcError};
use super::stateless::{LIST_TTL_MS, with_ttl};
use super::tool_result::{self, ToolView};

/// What a method returns.
pub(crate) enum Answer {
    /// A result in its final form.
    Value(Value),
    /// A page of a list, whose items were written when the list was made.
    Page(Page),
    /// The result of a tool, in the form of an era.
    Tool(Era, Box<ToolResult>),
}

/// A page of a list.
pub(crate) struct Page {
    pub(crate) era: Era,
    /// The member of the result that has the items.
    pub(crate) member: &'static str,
    /// The inside of a JSON array.
    pub(crate) items: Vec<u8>,
    /// Where the next page begins.
    pub(crate) next: Option<String>,
}

impl Answer {
    /// A result of the gateway's own, which a client may keep as long as a list.
    pub(crate) fn kept(era: Era, result: Value) -> Self {
        Self::Value(with_ttl(era, LIST_TTL_MS, result))
    }

    /// The answer to a call of this tool.
    pub(crate) fn of_tool(
        era: Era,
        asked: &str,
        result: Box<ToolResult>,
    ) -> Result<Self, RpcError> {
        tool_result::check(asked, &result)?;
        Ok(match tool_result::questions(&result) {
            Some(questions) => Self::Value(questions),
            None => Self::Tool(era, result),
        })
    }

    /// The message.
    pub(crate) fn to_message(&self, id: &RequestId) -> Result<Vec<u8>, RpcError> {
        let mut out = Vec::with_capacity(self.expected_size());
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        id.write(&mut out);
        out.extend_from_slice(b",\"result\":");
        let written = match self {
            Self::Value(value) => serde_json::to_writer(&mut out, value),
            Self::Tool(era, result) => serde_json::to_writer(&mut out, &ToolView::of(*era, result)),
            Self::Page(page) => {
                page.write(&mut out);
                Ok(())
            }
        };
        written.map_err(|_| RpcError::new(INTERNAL_ERROR, "the result could not be written"))?;
        out.push(b'}');
        Ok(out)
    }

    fn expected_size(&self) -> usize {
        match self {
            Self::Value(_) => 256,
            Self::Page(page) => page.items.len() + 512,
            Self::Tool(..) => 512,
        }
    }
}

impl Page {
    fn write(&self, out: &mut Vec<u8>) {
        let Self { era, member, items, next } = self;
        out.extend_from_slice(format!("{{\"{member}\":[").as_bytes());
        out.extend_from_slice(items);
        out.push(b']');
        if let Some(next) = next {
            out.extend_from_slice(format!(",\"nextCursor\":\"{next}\"").as_bytes());
        }
        match era {
            Era::Stateless => {
                let rest = with_ttl(*era, LIST_TTL_MS, json!({})).to_string();
                out.push(b',');
                out.extend_from_slice(rest.trim_start_matches('{').as_bytes());
            }
            Era::Sessions => out.push(b'}'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_result_like_any_other() {
        let page = |era, next: Option<&str>| {
            let (items, next) = (br#"{"name":"a"},{"name":"b"}"#.to_vec(), next.map(str::to_owned));
            let page = Answer::Page(Page { era, member: "tools", items, next });
            String::from_utf8(page.to_message(&RequestId::Text("x\"".to_owned())).unwrap()).unwrap()
        };
        assert_eq!(
            page(Era::Sessions, Some("2-00")),
            r#"{"jsonrpc":"2.0","id":"x\"","result":{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"2-00"}}"#
        );
        let mut value = json!({ "tools": [{ "name": "a" }, { "name": "b" }] });
        let Value::Object(rest) = with_ttl(Era::Stateless, LIST_TTL_MS, json!({})) else {
            panic!("not an object")
        };
        value.as_object_mut().unwrap().extend(rest);
        let whole = Answer::Value(value).to_message(&RequestId::Text("x\"".to_owned())).unwrap();
        assert_eq!(page(Era::Stateless, None), String::from_utf8(whole).unwrap());
    }
}
