//! The command line.

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::Exit;
use crate::{
    backup, check, compact, completions, device, doctor, dump, exit, fs, heap, import, load, mount,
    serve, snapshots, sqlite, stat, top, txn,
};

/// A durable server that speaks Redis: an acknowledged write survives.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, after_long_help = exit::table())]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a pool to Redis clients, creating it if there is none
    Serve(Box<serve::Args>),
    /// Say what a pool holds and how it is kept
    Stat(stat::Args),
    /// Walk everything in a pool and account for every byte
    Check(check::Args),
    /// Show what a running server does, again and again
    Top(top::Args),
    /// List the named snapshots of a pool, or drop some
    Snapshots(snapshots::Args),
    /// Make the file of a pool as small as what the pool holds
    Compact(compact::Args),
    /// Write every key of a pool as JSON lines
    Dump(dump::Args),
    /// Read JSON lines into a pool, creating it if there is none
    Load(load::Args),
    /// Bring what Redis has, an RDB file or a server that runs, into a server
    Import(import::Args),
    /// Write what a pool holds, or what has changed since, into one file
    Backup(backup::Args),
    /// Make a pool of a backup and the incremental ones that follow it
    Restore(backup::RestoreArgs),
    /// Look at the heap of a pool
    Heap(heap::Args),
    /// Mount the file system of a pool at a directory, until it is unmounted
    Mount(mount::Args),
    /// Unmount a file system
    Umount(mount::UmountArgs),
    /// Run a program whose changes of a mounted file system happen as a whole or not at all
    Txn(txn::Args),
    #[command(hide = true)]
    TxnInside(txn::InsideArgs),
    /// Work on the file system of a pool without a mount
    Fs(fs::Args),
    /// Work on the SQLite databases of a pool
    Sqlite(sqlite::Args),
    /// Work on the block devices of a pool
    Device(device::Args),
    /// Say what this machine offers, and what durability costs here
    Doctor(doctor::Args),
    /// Print the completions of a shell
    Completions(completions::Args),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        match self {
            Command::Serve(args) => serve::run(&args),
            Command::Stat(args) => stat::run(&args),
            Command::Check(args) => check::run(&args),
            Command::Top(args) => top::run(&args),
            Command::Snapshots(args) => snapshots::run(&args),
            Command::Compact(args) => compact::run(&args),
            Command::Dump(args) => dump::run(&args),
            Command::Load(args) => load::run(&args),
            Command::Import(args) => import::run(&args),
            Command::Backup(args) => backup::run(&args),
            Command::Restore(args) => backup::restore(&args),
            Command::Heap(args) => heap::run(&args),
            Command::Mount(args) => mount::run(&args),
            Command::Umount(args) => mount::umount(&args),
            Command::Txn(args) => txn::run(&args),
            Command::TxnInside(args) => txn::inside(&args),
            Command::Fs(args) => fs::run(&args),
            Command::Sqlite(args) => sqlite::run(&args),
            Command::Device(args) => device::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Completions(args) => completions::run(&args, Cli::command()),
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
