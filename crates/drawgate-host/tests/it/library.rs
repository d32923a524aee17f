//! What keeps this crate a library: the embedder gives the environment and the launcher, owns signals,
//! logs and the allocator, and adds advice about its own command line.

#[test]
fn nothing_assumes_that_it_is_the_program() {
    drawgate_core::testing::structure::check_library(env!("CARGO_MANIFEST_DIR"));
}
