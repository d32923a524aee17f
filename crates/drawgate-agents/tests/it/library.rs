//! The library does not assume that it is the program, and its folders depend on one another in one
//! direction.

use drawgate_core::testing::structure::{check_layers, check_library};

/// The folders of this crate, one a line. Each uses only those before it.
const ORDER: &[&str] = &["model", "profile", "plugin", "runs", "source", "tasks", "plugins"];

#[test]
fn nothing_assumes_that_it_is_the_program() {
    check_library(env!("CARGO_MANIFEST_DIR"));
}

#[test]
fn folders_use_only_those_below_them() {
    check_layers(env!("CARGO_MANIFEST_DIR"), ORDER);
}
