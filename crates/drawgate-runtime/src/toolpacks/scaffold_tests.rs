use super::*;
use crate::toolpacks::testing::{INSTALL, TestFolder};

#[test]
fn a_new_pack_can_be_installed() {
    let fixture = TestFolder::new();
    for name in ["my-pack", "9_lives"] {
        let folder = fixture.root.path().join("new").join(name);
        let made = scaffold(&folder).unwrap();
        assert_eq!(made, [folder.join("toolpack.json"), folder.join("README.md")]);
        let staged = fixture.folder.stage_folder(&folder, &INSTALL).unwrap();
        assert_eq!(staged.id.as_str(), name);
        assert_eq!(
            fixture.folder.commit(staged).unwrap().integrity,
            crate::toolpacks::Integrity::Locked
        );
    }
}

#[test]
fn nothing_is_overwritten() {
    let fixture = TestFolder::new();
    let source = fixture.source("1.0.0");
    let file = source.join("toolpack.json");
    let before = fs::read(&file).unwrap();
    for there in [&source, &file] {
        let error = scaffold(there).unwrap_err();
        assert!(
            matches!(error, ToolpackError::Exists(_) | ToolpackError::Rejected { .. }),
            "{error:?}"
        );
    }
    assert_eq!(fs::read(&file).unwrap(), before);
    assert!(scaffold(&fixture.root.path().join("No Name")).is_err());
}
