//! A to-do list.
//!
//! `cargo run --example heap_todo -- todo.pool add "buy milk"`, `… done 0`, `… list`

use std::path::Path;

use tembo::heap::{Error, Heap, PString, PVec, Persist};

#[derive(Persist)]
struct Todo<'h> {
    entries: PVec<'h, Entry<'h>>,
}

#[derive(Persist)]
struct Entry<'h> {
    text: PString<'h>,
    is_done: bool,
}

pub(crate) fn run(path: &Path, words: &[String]) -> Result<String, Error> {
    Heap::open(path, |heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(Todo { entries: PVec::new() }))?;
        let entries = root.field(Todo::ENTRIES);
        match words {
            [word, text] if word == "add" => heap.atomic(|tx| {
                let text = PString::new(tx, text)?;
                entries.push(tx, Entry { text, is_done: false })
            })?,
            [word, number] if word == "done" => heap.atomic(|tx| {
                let number = number.parse().unwrap_or(u64::MAX);
                let entry = entries.get(tx, number)?;
                entries.set(tx, number, Entry { is_done: true, ..entry })
            })?,
            _ => {}
        }
        let lines = heap.atomic(|tx| {
            let mut lines = Vec::new();
            for Entry { text, is_done } in entries.to_vec(tx)? {
                let mark = if is_done { 'x' } else { ' ' };
                lines.push(format!("[{mark}] {}", text.to_text(tx)?));
            }
            Ok::<_, Error>(lines)
        })?;
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
