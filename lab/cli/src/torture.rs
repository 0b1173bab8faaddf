//! `tembo-lab torture`: long tests of stores and heaps under several threads, and under SIGKILL.

mod bank;
mod heap;
mod histories;
mod life;
mod served;
mod soak;

use clap::Subcommand;

use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    test: Test,
}

#[derive(Debug, Subcommand)]
enum Test {
    /// Record the answers that several threads get, and judge them
    Histories(histories::Args),
    /// Move money between accounts, kill the process at random moments, and audit the books
    Bank(bank::Args),
    /// Run random programs on the structures of a heap, kill the process at random moments, and compare
    Heap(heap::Args),
    /// Mixed load on a store that is larger than its memory: answers, memory, space and stalls
    Soak(soak::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.test {
        Test::Histories(args) => histories::run(args),
        Test::Bank(args) => bank::run(args),
        Test::Heap(args) => heap::run(args),
        Test::Soak(args) => soak::run(args),
    }
}
