//! The binary `tembo`: a durable server that speaks Redis, and what an operator needs beside it.

mod args;
mod backup;
mod bytes;
mod check;
mod compact;
mod completions;
mod device;
mod devices;
mod doctor;
mod dump;
mod entries;
mod exit;
mod files;
mod fs;
mod fstab;
mod heap;
mod import;
mod line;
mod load;
mod mount;
mod mounted;
mod output;
mod password;
mod progress;
mod serve;
mod signals;
mod snapshots;
mod sqlite;
mod stat;
mod store;
mod top;
mod txn;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

fn main() -> ExitCode {
    let command = args::Cli::parse_from(fstab::command_line()).command;
    let watched = signals::of_files().context("watching signals");
    match watched.and_then(|()| command.run()) {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error).into(),
    }
}
