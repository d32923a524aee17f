//! The library does not assume that it is the program.

#[test]
fn nothing_assumes_that_it_is_the_program() {
    drawgate_core::testing::structure::check_library(env!("CARGO_MANIFEST_DIR"));
}
