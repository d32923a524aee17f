#![expect(clippy::needless_pass_by_value, reason = "`json!` stands in the tables as it is")]

use super::*;

fn answer(grounding: Value) -> Value {
    json!({
        "candidates": [{"content": {"parts": [{"text": "…"}]}, "groundingMetadata": grounding}],
        "usageMetadata": {"promptTokenCount": 7, "toolUsePromptTokenCount": 20, "candidatesTokenCount": 5},
    })
}

fn page(url: &str, title: &str) -> Value {
    json!({"web": {"uri": url, "title": title}})
}

#[test]
fn pages_come_with_what_they_support() {
    let answer = answer(json!({
        "groundingChunks": [
            page("https://a.example/", "A"), page("https://b.example/", "B"), {"maps": {}},
            page("https://a.example/", "A again"), page("https://c.example/", "C"),
        ],
        "groundingSupports": [
            {"segment": {"text": "One."}, "groundingChunkIndices": [0, 1]},
            {"segment": {"text": "Two."}, "groundingChunkIndices": [0]},
            {"segment": {}, "groundingChunkIndices": [1]},
        ],
    }));
    let found = read(&answer, 10).unwrap();
    let shown: Vec<_> = found
        .results
        .iter()
        .map(|r| (r.title.as_str(), r.url.as_str(), r.snippet.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            ("A", "https://a.example/", "One. Two."),
            ("B", "https://b.example/", "One."),
            ("C", "https://c.example/", ""),
        ]
    );
    assert_eq!(found.usage, Usage { input: 27, output: 5, ..Usage::default() });
    assert_eq!(read(&answer, 1).unwrap().results.len(), 1);
}

#[test]
fn a_search_may_find_nothing_or_be_malformed() {
    assert_eq!(read(&answer(json!({})), 10).unwrap().results, []);
    assert_eq!(read(&json!({}), 10).unwrap().results, []);
    for bad in
        [json!({"groundingChunks": 1}), json!({"groundingChunks": [{"web": {"title": "A"}}]})]
    {
        assert!(read(&answer(bad), 10).is_err());
    }
}
