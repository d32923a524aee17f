use super::*;

fn with_paths(paths: &str) -> String {
    format!(r#"{{"openapi":"3.0.3","info":{{"title":"T","version":"1"}},"paths":{paths}}}"#)
}

fn parse(text: &str) -> Result<Document, DocumentError> {
    Document::parse(text.as_bytes())
}

fn ids(document: &Document) -> Vec<&str> {
    document.operations().iter().map(|operation| operation.id.as_str()).collect()
}

#[test]
fn json_and_yaml_mean_the_same() {
    let yaml = "\
openapi: 3.1.0
info: {title: T, version: '1'}
paths:
  /pets/{id}:
    get:
      operationId: getPet
      deprecated: true
      tags: [pets]
      responses:
        200: {description: ok}
        default: {description: \"no\"}
";
    let json = r#"{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/pets/{id}":{
        "get":{"operationId":"getPet","deprecated":true,"tags":["pets"],
        "responses":{"200":{"description":"ok"},"default":{"description":"no"}}}}}}"#;
    let (yaml, json) = (parse(yaml).unwrap(), parse(json).unwrap());
    assert_eq!(yaml.root(), json.root());
    assert_eq!(yaml.operations(), json.operations());
    assert_eq!(yaml.title(), (Some("T"), Some("1")));
}

#[test]
fn yaml_is_read_strictly() {
    let document = parse(
        "openapi: 3.0.0\npaths:\n  /a:\n    get:\n      summary: no\n      deprecated: yes\n",
    )
    .unwrap();
    let operation = &document.operations()[0];
    assert_eq!((operation.summary.as_str(), operation.deprecated), ("no", false));
    let bomb: String = (1..30).fold("openapi: 3.0.0\na0: &a0 [x]\n".to_owned(), |text, level| {
        let before = level - 1;
        text + &format!("a{level}: &a{level} [*a{before}, *a{before}, *a{before}, *a{before}]\n")
    });
    let deep = format!("openapi: 3.0.0\na: {}{}", "[".repeat(500), "]".repeat(500));
    for bad in [
        "openapi: 3.0.0\nopenapi: 3.0.1\npaths: {}\n",
        "openapi: 3.0.0\npaths: {/a: {get: {}, get: {}}}\n",
        &bomb,
        &deep,
        "openapi: [",
        "\u{0}",
    ] {
        let error = parse(bad).unwrap_err();
        assert!(matches!(error, DocumentError::Yaml(_)), "{error}");
    }
}

#[test]
fn what_is_no_document_is_refused_with_a_reason() {
    let deep = format!(r#"{{"openapi":{}"#, "[".repeat(100_000));
    for (text, expected) in [
        (r#"{"swagger":"2.0","paths":{}}"#, "convert it to OpenAPI 3.0 or 3.1"),
        (r#"{"openapi":"4.0.0"}"#, "OpenAPI `4.0.0` is not supported"),
        (r#"{"openapi":3}"#, "no `openapi` version"),
        ("{}", "no `openapi` version"),
        ("", "no `openapi` version"),
        ("just text", "no `openapi` version"),
        (r#"{"openapi":"3.0.0","openapi":"3.1.0"}"#, "duplicate key `openapi`"),
        (r#"{"openapi":"3.0.0"}"#, "has no operations"),
        (r#"{"openapi":"3.0.0","paths":[]}"#, "has no operations"),
        (&deep, "nested deeper"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let document = parse(&with_paths(
        r##"{
        "/pets": {"get": {"operationId": "listPets"}, "post": {}, "parameters": [], "x-get": {}},
        "/pets/{petId}": {"get": {"operationId": "listPets"}, "put": {"operationId": ""}},
        "/odd": {"get": {"operationId": "list_pets"}, "delete": {"operationId": "a\u0000\u202eb\n"}},
        "/twice": {"$ref": "#/paths/~1pets"},
        "/broken": {"$ref": "#/nowhere"},
        "/remote": {"$ref": "other.json"},
        "/circle": {"$ref": "#/paths/~1circle"},
        "x-path": {"get": {}}
    }"##,
    ))
    .unwrap();
    let found = ids(&document);
    assert_eq!(&found[..4], ["listPets", "post_pets", "get_pets_by_pet_id", "put_pets_by_pet_id"]);
    assert_eq!(&found[4..6], ["list_pets", "a\u{0}\u{202e}b\n"]);
    assert_eq!(&found[6..], ["get_twice", "post_twice"]);
    let names: std::collections::BTreeSet<String> =
        document.operations().iter().map(|operation| operation.tool_name(Some("x_"))).collect();
    assert_eq!(names.len(), found.len());
    for name in &names {
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
        assert!(name.starts_with("x_") && name.len() <= 48, "{name}");
    }
}

#[test]
fn an_unknown_operation_is_answered_with_the_nearest() {
    let document = parse(&with_paths(r#"{"/p": {"get": {"operationId": "getPetById"}}}"#)).unwrap();
    let error = document.operation("getPetByID").unwrap_err();
    assert_eq!(error.to_string(), "unknown operation `getPetByID`; did you mean `getPetById`?");
    assert_eq!(error.suggestion(), Some("getPetById"));
    assert_eq!(document.operation("x").unwrap_err().to_string(), "unknown operation `x`");
}

fn base(servers: &str) -> String {
    let text = with_paths(r#"{"/p": {"get": {}}}"#);
    let text = text.replacen('{', &format!(r#"{{"servers":{servers},"#), 1);
    match parse(&text).unwrap().base_url() {
        Ok(url) => url.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn servers_are_absolute_and_their_variables_filled() {
    for (servers, expected) in [
        (r#"[{"url":"https://a.example/v1/"}]"#, "https://a.example/v1/"),
        (
            r#"[{"url":"https://{region}.a.example:{port}/{v}","variables":{
                "region":{"default":"eu","enum":["eu","us"]},"port":{"default":8443},"v":{"default":"v2"}}}]"#,
            "https://eu.a.example:8443/v2",
        ),
        (r#"[{"url":"/v1"}]"#, "the server address `/v1` of the OpenAPI document is not absolute"),
        (r#"[{"url":"//a.example"}]"#, "the server address `//a.example` of the"),
        (r#"[{"url":"a.example/v1"}]"#, "the server address `a.example/v1` of the"),
        ("[]", "names no server; set `base_url`"),
        ("{}", "names no server; set `base_url`"),
        (r#"[{"url":"ftp://a.example"}]"#, "`ftp://a.example` can't be used"),
        (r#"[{"url":"https://u:p@a.example"}]"#, "can't be used"),
        (r#"[{"url":"https://a.example?x=1"}]"#, "can't be used"),
        (r#"[{"url":"https://{x}.example"}]"#, "the server variable `x` has no default"),
        (
            r#"[{"url":"https://{x}.example","variables":{"x":{"default":"c","enum":["a","b"]}}}]"#,
            "the server variable `x` has no default, or one that is not in its `enum`",
        ),
    ] {
        let found = base(servers);
        assert!(found.contains(expected), "{servers}: {found}");
    }
}

#[test]
fn all_addresses_are_known() {
    let text = r#"{"openapi":"3.0.0","servers":[{"url":"https://a.example"}],"paths":{
        "/p":{"servers":[{"url":"https://b.example"}],"get":{"servers":[{"url":"https://c.example"}]}}},
        "components":{"securitySchemes":{"o":{"type":"oauth2","flows":{"clientCredentials":
        {"tokenUrl":"https://d.example/token"}}}}}}"#;
    let document = parse(text).unwrap();
    let found: Vec<String> = document.addresses().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "https://a.example/",
            "https://b.example/",
            "https://c.example/",
            "https://d.example/token"
        ]
    );
    let operation = &document.operations()[0];
    assert_eq!(document.server(operation, None).unwrap().as_str(), "https://c.example/");
    assert_eq!(document.schemes(), ["o"]);
}

#[test]
fn only_plain_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("api.json"), folder.path().join("link.json"));
    std::fs::write(&file, with_paths(r#"{"/p": {"get": {}}}"#)).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(Document::read(&file).unwrap().operations().len(), 1);
    let reason = |path: &Path| Document::read(path).unwrap_err().to_string();
    assert!(reason(&link).contains("symbolic link"), "{}", reason(&link));
    assert!(reason(folder.path()).contains("not a regular file"));
    assert!(reason(&folder.path().join("absent")).contains("can't be read"));
    assert!(reason(Path::new("api.json")).contains("must be absolute"));
}
