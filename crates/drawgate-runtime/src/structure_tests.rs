//! The runtime does not assume that it is the program, and its folders depend on one another in one
//! direction.

use drawgate_core::testing::structure::{check_layers, check_library};

/// The modules of this crate. Each uses only those before it.
const ORDER: &[&str] = &[
    "time",
    "settle",
    "start",
    "background",
    "refusals",
    "files",
    "lock",
    "toolpacks",
    "packages",
    "config",
    "edits",
    "anchors",
    "webhook",
    "callers",
    "peers",
    "packs",
    "tasks",
    "toolpack_sources",
    "profiles",
    "providers",
    "agents",
    "plugins",
    "operations",
    "assemble",
    "follow",
    "upkeep",
];

#[test]
fn the_runtime_does_not_assume_that_it_is_the_program() {
    check_library(env!("CARGO_MANIFEST_DIR"));
}

#[test]
fn modules_use_only_those_below_them() {
    check_layers(env!("CARGO_MANIFEST_DIR"), ORDER);
}

#[test]
fn the_node_binding_does_not_assume_that_it_is_the_program() {
    check_library(concat!(env!("CARGO_MANIFEST_DIR"), "/../drawgate-node"));
}
