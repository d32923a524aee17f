//! The gateway as it is shipped, with an allocator that counts. Every line on standard input is answered
//! with what has been allocated so far, as one line of JSON; all else is the gateway's.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the counts are this program's output")]

use std::alloc::System;
use std::io::BufRead as _;
use std::process::ExitCode;

use drawgate_host::process;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    // As in the gateway itself: a child of it on its way to become the real command.
    if let Some(code) = process::launcher::main(std::env::args_os().skip(1)) {
        return code;
    }
    process::raise_open_files();
    std::thread::spawn(tell);
    drawgate::cli::main()
}

/// Answers until the input ends.
fn tell() {
    for _ in std::io::stdin().lock().lines().map_while(Result::ok) {
        let so_far = ALLOCATOR.stats();
        let allocations = so_far.allocations + so_far.reallocations;
        println!(r#"{{"allocations":{allocations},"bytes":{}}}"#, so_far.bytes_allocated);
    }
}
