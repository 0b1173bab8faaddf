//! `tembo completions`: what a shell needs to complete our words.

use std::io;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::Cli::command(), "tembo", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(Exit::Done)
}
