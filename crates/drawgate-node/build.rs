//! Tells the linker that what Node offers is found when Node loads the library.

fn main() {
    napi_build::setup();
}
