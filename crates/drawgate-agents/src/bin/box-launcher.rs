//! Starts programs in the sandbox for the tests of this crate, as the gateway's own program does for the gateway.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1);
    drawgate_host::process::launcher::main(args).unwrap_or(ExitCode::FAILURE)
}
