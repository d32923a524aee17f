//! Every row of the catalogue of hostile archives, from the archive to the lock file.

use super::testing::hostile::archive;
use super::testing::{
    COMMIT, INSTALL, OTHER_COMMIT, TOP, Tar, TestFolder, code, download, everything_in, manifest,
    pinned,
};
use super::{Code, Origin, OriginError, ToolpackError};

/// Name, what is expected (one of several), and why.
const ROWS: &str = include_str!("catalogue.tsv");

#[test]
fn every_row_holds() {
    let rows: Vec<Vec<&str>> = ROWS.lines().skip(1).map(|row| row.split('\t').collect()).collect();
    assert_eq!(rows.len(), 66);
    for row in rows {
        let [name, expected, why] = row[..] else { panic!("{row:?}") };
        let outcome = outcome(name);
        assert!(expected.split('|').any(|word| word == outcome), "{name} ({why}): {outcome}");
    }
}

fn outcome(name: &str) -> &'static str {
    match name {
        "lock_sha_moved" => moved(),
        "lock_downgrade" => downgrade(),
        "lock_short_sha" => short(),
        name => installed(name),
    }
}

/// Installs the archive; what was refused must have left nothing.
fn installed(name: &str) -> &'static str {
    let fixture = TestFolder::new();
    let before = everything_in(fixture.root.path());
    match fixture.folder.stage_archive(&download(archive(name)), &INSTALL) {
        Err(error) => {
            assert_eq!(everything_in(fixture.root.path()), before, "{name}");
            error.code().unwrap_or_else(|| panic!("{name}: {error:?}")).as_str()
        }
        Ok(staged) => {
            let pack = fixture.folder.commit(staged).unwrap();
            let found = everything_in(&pack.folder);
            let ordinary = |line: &String| {
                [" file 644", " file 755", " folder 755"].iter().any(|end| line.ends_with(end))
            };
            assert!(found.iter().all(ordinary), "{name}: {found:?}");
            if name.starts_with('m') { "ACCEPT_STRIPPED" } else { "ACCEPT" }
        }
    }
}

fn install(fixture: &TestFolder, tar: Tar) -> Result<(), ToolpackError> {
    let staged = fixture.folder.stage_archive(&download(tar.packed()), &INSTALL)?;
    fixture.folder.commit(staged).map(drop)
}

fn moved() -> &'static str {
    let fixture = TestFolder::new();
    install(&fixture, Tar::pack()).unwrap();
    fixture.folder.check_pin(&pinned("v1", COMMIT), &INSTALL).unwrap();
    code(fixture.folder.check_pin(&pinned("v1", OTHER_COMMIT), &INSTALL)).unwrap().as_str()
}

fn downgrade() -> &'static str {
    let fixture = TestFolder::new();
    let version = |version: &str| {
        Tar::empty().entry(&format!("{TOP}toolpack.json"), b'0', manifest(version).as_bytes())
    };
    install(&fixture, version("1.2.0")).unwrap();
    let mut older = download(version("1.1.9").packed());
    older.pinned = pinned("v0", OTHER_COMMIT);
    code(fixture.folder.stage_archive(&older, &INSTALL)).unwrap().as_str()
}

fn short() -> &'static str {
    match format!("owner/repo@{}", &COMMIT[..12]).parse::<Origin>() {
        Err(OriginError::Abbreviated(_)) => Code::Ref.as_str(),
        other => panic!("{other:?}"),
    }
}
