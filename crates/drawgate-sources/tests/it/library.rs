//! What keeps this crate a library: it reads no environment of its own, and the program that embeds it
//! adds advice about its command line.

#[test]
fn nothing_assumes_that_it_is_the_program() {
    drawgate_core::testing::structure::check_library(env!("CARGO_MANIFEST_DIR"));
}
