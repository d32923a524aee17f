//! Starts the child processes of a gateway that is a part of another program, in the sandbox or outside
//! of it. The program `drawgate` does the same for itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args = std::env::args_os().skip(1);
    drawgate_host::process::launcher::main(args).unwrap_or_else(|| {
        eprintln!("this program is started by a Drawgate gateway, and does nothing by itself");
        ExitCode::FAILURE
    })
}
