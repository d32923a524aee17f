//! `drawgate`: the tool gateway for AI agents.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // Before anything else: a child of the gateway on its way to become the real command.
    if args.next().is_some_and(|first| first == "__spawn") {
        let error = drawgate_host::process::launcher::spawn_main(args);
        eprintln!("drawgate: {error}");
        return ExitCode::from(127);
    }
    drawgate::cli::main()
}
