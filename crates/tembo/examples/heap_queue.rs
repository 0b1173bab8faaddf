//! A queue of jobs that loses none: a job is taken and counted as done in one transaction.
//!
//! `cargo run --example heap_queue -- jobs.pool put mail`, `… take`

use std::path::Path;

use tembo::heap::{Error, Heap, PDeque, PString, Persist};

#[derive(Persist)]
struct Queue<'h> {
    jobs: PDeque<'h, PString<'h>>,
    done: u64,
}

pub(crate) fn run(path: &Path, words: &[String]) -> Result<String, Error> {
    Heap::open(path, |heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(Queue { jobs: PDeque::new(), done: 0 }))?;
        let jobs = root.field(Queue::JOBS);
        match words {
            [word, job] if word == "put" => heap
                .atomic(|tx| {
                    let job = PString::new(tx, job)?;
                    jobs.push_back(tx, job)
                })
                .map(|()| String::new()),
            [word] if word == "take" => {
                let job = heap.atomic(|tx| {
                    let Some(job) = jobs.pop_front(tx)? else { return Ok(None) };
                    let done = tx.get(&root, Queue::DONE)?;
                    tx.set(&root, Queue::DONE, done + 1)?;
                    job.to_text(tx).map(Some)
                })?;
                Ok(job.unwrap_or_else(|| "nothing to do".to_owned()))
            }
            _ => {
                let (waiting, done) =
                    heap.atomic(|tx| Ok::<_, Error>((jobs.len(tx)?, tx.get(&root, Queue::DONE)?)))?;
                Ok(format!("{waiting} wait, {done} are done"))
            }
        }
    })
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (path, words) = words.split_first().ok_or(Error::NoRoot)?;
    println!("{}", run(Path::new(path), words)?);
    Ok(())
}
