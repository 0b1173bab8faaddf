//! `tembo completions`: what a shell needs to complete the words of the command line.

use std::io;

use clap_complete::Shell;

use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints them for the whole `command`.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tembo", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(Exit::Done)
}
