//! A game that is saved by being played: guess a number. Kill it at any time.
//!
//! `cargo run --example heap_game -- game.pool 40`

use std::path::Path;

use tembo::heap::{Error, Heap, Persist};

#[derive(Persist, Clone, Copy)]
struct Game {
    secret: u64,
    guesses: u64,
    won: u64,
}

impl Game {
    fn next(self) -> u64 {
        (self.secret * 73 + 41) % 101
    }
}

pub(crate) fn run(path: &Path, words: &[String]) -> Result<String, Error> {
    Heap::open(path, |heap| {
        let game = heap.root_or::<_, Error>(|_| Ok(Game { secret: 42, guesses: 0, won: 0 }))?;
        let mut lines = Vec::new();
        for guess in words.iter().filter_map(|word| word.parse::<u64>().ok()) {
            let answer = heap.atomic(|tx| {
                let mut now = tx.read(&game)?;
                now.guesses += 1;
                let answer = match guess.cmp(&now.secret) {
                    std::cmp::Ordering::Less => "larger".to_owned(),
                    std::cmp::Ordering::Greater => "smaller".to_owned(),
                    std::cmp::Ordering::Equal => {
                        let guesses = now.guesses;
                        now = Game { secret: now.next(), guesses: 0, won: now.won + 1 };
                        format!("yes, after {guesses} guesses; game {} begins", now.won + 1)
                    }
                };
                tx.write(&game, now)?;
                Ok::<_, Error>(answer)
            })?;
            lines.push(format!("{guess}: {answer}"));
        }
        Ok(lines.join("\n"))
    })
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (path, words) = words.split_first().ok_or(Error::NoRoot)?;
    println!("{}", run(Path::new(path), words)?);
    Ok(())
}
