//! Outputs that are too long to return.

use http::StatusCode;
use serde_json::{Value, json};

use crate::load::{fixture, offers};
use crate::support::TestFolder;

const BYTES: usize = 5 * 1024 * 1024;

#[tokio::test]
async fn five_megabytes_come_back_as_a_link() {
    let place = TestFolder::new(&format!("{}capabilities = [\"demo\"]\n", fixture()));
    let gateway = place.serve();
    let owner = place.ok(&["agents", "add", "owner", "--capability", "demo", "--quiet"]);
    let other = place.ok(&["agents", "add", "other", "--capability", "demo", "--quiet"]);
    let (owner, other) = (owner.trim(), other.trim());
    offers(&gateway, "fixture__big").await;
    let result = gateway.call(owner, "fixture__big", json!({ "bytes": BYTES })).await;
    let short = result["content"][0]["text"].as_str().unwrap();
    assert!(short.len() < 5000 && short.contains("0123456789abcde"), "{short}");
    let link = &result["content"][1];
    assert_eq!(link["type"], "resource_link", "{link}");
    assert_eq!(link["size"], BYTES);
    let uri = link["uri"].as_str().unwrap();
    assert!(short.contains(uri));

    let whole = "0123456789abcde\n".repeat(BYTES / 16);
    let read =
        async |token: &str| gateway.stateless(token, "resources/read", json!({ "uri": uri })).await;
    for token in [owner, &gateway.token] {
        let answer = read(token).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(
            answer.json()["result"]["contents"][0]["text"] == whole.as_str(),
            "not the whole output"
        );
    }
    let refused = read(other).await.json();
    assert!(refused["error"]["code"].is_i64() && refused["result"].is_null(), "{refused}");
    let listed = async |token: &str| {
        gateway.rpc(token, "resources/list", json!({})).await["result"]["resources"].clone()
    };
    assert_eq!(listed(owner).await[0]["uri"], uri);
    assert_eq!(listed(other).await, json!([]));

    let hash = uri.rsplit('/').next().unwrap();
    for name in [uri, hash] {
        assert!(place.ok(&["artifacts", "get", name]) == whole, "not the whole output: {name}");
    }
    let file = place.path().join("whole.txt");
    place.ok(&["artifacts", "get", hash, "--output", file.to_str().unwrap()]);
    assert!(std::fs::read_to_string(file).unwrap() == whole);
    assert_eq!(gateway.terminate(), Some(0));
    assert!(place.ok(&["artifacts", "get", hash]) == whole, "without a gateway");
    let all = place.json(&["artifacts", "list"]);
    assert_eq!(
        (&all[0]["sha256"], &all[0]["owner"]),
        (&Value::from(hash), &json!("owner")),
        "{all}"
    );
    place.ok(&["artifacts", "remove", hash]);
    assert!(!place.run(&["artifacts", "get", hash]).status.success());
    assert!(
        place.ok(&["audit", "verify", "--artifacts"]).starts_with("intact"),
        "a removal in order is no tampering"
    );
}
