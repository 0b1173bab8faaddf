//! The binary `tembo`, which some tests and measurements start as a server.

use std::path::PathBuf;

use anyhow::Context;

use crate::exit::{Exit, refuse};

/// Which binary to start.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ProgramArgs {
    /// The binary `tembo` that serves; the one beside this program unless given
    #[arg(long, value_name = "FILE")]
    tembo: Option<PathBuf>,
}

impl ProgramArgs {
    /// As if `tembo` had been given.
    pub(crate) fn of(tembo: Option<PathBuf>) -> ProgramArgs {
        ProgramArgs { tembo }
    }

    /// Where it stands, or would stand.
    pub(crate) fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.tembo {
            Some(path) => Ok(path.clone()),
            None => {
                Ok(std::env::current_exe().context("finding this program")?.with_file_name("tembo"))
            }
        }
    }

    /// As [`path`](ProgramArgs::path), of one that is there.
    pub(crate) fn existing(&self) -> anyhow::Result<PathBuf> {
        let path = self.path()?;
        if path.is_file() {
            return Ok(path);
        }
        let what = format!(
            "{} does not exist: `cargo build --package tembo-cli` builds it, --tembo names another one",
            path.display()
        );
        refuse(Exit::Usage, what)
    }
}
