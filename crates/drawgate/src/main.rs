//! `drawgate`: the tool gateway for AI agents.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use drawgate_host::process;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Before anything else: a child of the gateway on its way to become the real command, or to build
    // a sandbox for it.
    if let Some(code) = process::launcher::main(std::env::args_os().skip(1)) {
        return code;
    }
    process::raise_open_files();
    drawgate::cli::main()
}
