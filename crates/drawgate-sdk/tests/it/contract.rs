//! The committed code is what the contract generates. `DRAWGATE_GENERATE=1` writes it anew.

use std::path::{Path, PathBuf};

use prost::Message as _;

fn own(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the variable is meant for this test alone")]
fn generated_code_is_current() {
    let descriptors = protox::compile([own("proto/drawgate.proto")], [own("proto")]).unwrap();
    let binary = descriptors.encode_to_vec();
    let folder = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .out_dir(folder.path())
        // `PackService.Connect` would clash with the client's own `connect`.
        .build_transport(false)
        .client_mod_attribute(".", "#[cfg(feature = \"services\")]")
        .server_mod_attribute(".", "#[cfg(feature = \"services\")]")
        .compile_fds(descriptors)
        .unwrap();
    let code = std::fs::read(folder.path().join("drawgate.v1.rs")).unwrap();
    for (path, wanted) in [("drawgate.v1.rs", code), ("drawgate.bin", binary)] {
        let path = own("src/generated").join(path);
        if std::env::var_os("DRAWGATE_GENERATE").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        assert!(
            std::fs::read(&path).is_ok_and(|found| found == wanted),
            "`{}` is not what the contract generates; run this test with DRAWGATE_GENERATE=1",
            path.display()
        );
    }
}
