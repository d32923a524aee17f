//! `drawgate`: the tool gateway for AI agents.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use drawgate_host::sandbox::init;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    // Before anything else: a child of the gateway on its way to become the real command, or to build
    // a sandbox for it.
    if first.as_ref().is_some_and(|first| first == init::SUBCOMMAND) {
        return init::init_main();
    }
    if first.is_some_and(|first| first == "__spawn") {
        let error = drawgate_host::process::launcher::spawn_main(args);
        eprintln!("drawgate: {error}");
        return ExitCode::from(127);
    }
    drawgate_host::process::raise_open_files();
    drawgate::cli::main()
}
