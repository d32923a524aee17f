use super::*;

#[test]
fn folders() {
    for text in [".", "./a", "../a", "/a/b", "~/a", "a", "a/b/c", "./owner/repo@v1"] {
        assert_eq!(text.parse(), Ok(Origin::Folder(text.into())), "{text}");
    }
    assert_eq!(Origin::Folder("/a/b".into()).locked_as(), "path:/a/b");
}

#[test]
fn repositories() {
    let commit = "0123456789ABCDEF0123456789abcdef01234567";
    let long = format!("o/r@{commit}");
    for (text, repository, reference) in [
        ("owner/repo", "owner/repo", "main"),
        ("o-w/r.e_p-o@v1.0.0", "o-w/r.e_p-o", "v1.0.0"),
        ("o/r@feature/x", "o/r", "feature/x"),
        ("o/r@refs/tags/abcdef1", "o/r", "refs/tags/abcdef1"),
        ("o/r@2024", "o/r", "2024"),
        (&long, "o/r", &commit.to_ascii_lowercase()),
    ] {
        let Ok(Origin::Github(source)) = text.parse() else { panic!("{text}") };
        assert_eq!((source.repository(), source.reference()), (repository.to_owned(), reference));
        assert_eq!(source.locked_as(), format!("github:{repository}"));
    }
}

#[test]
fn what_is_neither() {
    for text in [
        "",
        "a\0b",
        "https://github.com/owner/repo",
        "owner/",
        "-owner/repo",
        "owner-/repo",
        "own er/repo",
        "owner/re po",
        "owner/..",
        "owner/repo?x",
        "owner/repo#x",
        "owner/%2e%2e",
        "öwner/repo",
    ] {
        assert!(matches!(text.parse::<Origin>(), Err(OriginError::Neither(_))), "{text}");
    }
}

#[test]
fn references() {
    for text in [
        "",
        " ",
        "a b",
        "a..b",
        "-x",
        "/x",
        "x/",
        "x//y",
        ".x",
        "x.",
        "x.lock",
        "a~1",
        "a^",
        "a:b",
        "a?b",
        "a*",
        "a[b",
        "a\\b",
        "a@{1}",
        "@",
        "a\nb",
        "x/../y",
        "x/.y",
        "x/-y",
        "../../../x",
    ] {
        let parsed = format!("o/r@{text}").parse::<GithubSource>();
        assert!(matches!(parsed, Err(OriginError::Reference(_))), "{text:?}: {parsed:?}");
    }
    for text in ["abcdef1", "0123456789abcdef0123456789abcdef0123456", "ABCDEF12"] {
        let parsed = format!("o/r@{text}").parse::<GithubSource>();
        assert_eq!(parsed, Err(OriginError::Abbreviated(text.to_owned())));
    }
}
