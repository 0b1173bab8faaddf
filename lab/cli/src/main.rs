//! The binary `tembo-lab`: what judges the product. Nothing of it is in the binary `tembo`.

mod args;
mod bench;
mod contender;
mod crashtest;
mod exit;
mod guard;
mod output;
mod program;
mod progress;
mod signals;
mod store;
mod torture;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match args::Cli::parse().command.run() {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error).into(),
    }
}
