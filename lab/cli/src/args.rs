//! The command line.

use clap::{Parser, Subcommand};

use crate::exit::Exit;
use crate::{bench, crashtest, exit, guard, torture};

/// What judges Tembo: crash images, long tests, measurements.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_long_help = exit::table())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at what a crash could leave of every structure
    Crashtest(crashtest::Args),
    /// Judge the answers that several threads get, and what SIGKILL leaves of their work
    Torture(torture::Args),
    /// Measure side by side, in one interleaved run
    Bench(bench::Args),
    /// Count instructions, fences and lines of the hot paths, and compare them with the kept counts
    Guard(guard::Args),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Command::Crashtest(args) => crashtest::run(&args),
            Command::Torture(args) => torture::run(&args),
            Command::Bench(args) => bench::run(&args),
            Command::Guard(args) => guard::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        super::Cli::command().debug_assert();
    }
}
