//! The examples of the heap do what they say, and find again what they have left.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

#[path = "../examples/heap_game.rs"]
mod game;
#[path = "../examples/heap_graph.rs"]
mod graph;
#[path = "../examples/heap_list.rs"]
mod list;
#[path = "../examples/heap_queue.rs"]
mod queue;
#[path = "../examples/heap_todo.rs"]
mod todo;

use std::path::Path;

use tembo::heap::Error;

type Run = fn(&Path, &[String]) -> Result<String, Error>;

/// Runs an example several times on one file; what it says.
fn say(run: Run, calls: &[&[&str]]) -> Vec<String> {
    let name = std::thread::current().name().unwrap().replace(':', "-");
    let folder = std::env::temp_dir().join(format!("tembo-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("pool");
    let words = |call: &&[&str]| call.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let said = calls.iter().map(|call| run(&path, &words(call)).unwrap()).collect();
    std::fs::remove_dir_all(&folder).unwrap();
    said
}

#[test]
fn the_list_is_there_again() {
    assert_eq!(say(list::run, &[&["1", "2"], &["3"]]), ["[2, 1]", "[3, 2, 1]"]);
}

#[test]
fn what_is_done_stays_done() {
    let said = say(todo::run, &[&["add", "milk"], &["add", "bread"], &["done", "0"], &["list"]]);
    assert_eq!(said[1], "[ ] milk\n[ ] bread");
    assert_eq!((&*said[2], &*said[3]), ("[x] milk\n[ ] bread", "[x] milk\n[ ] bread"));
}

#[test]
fn folders_know_their_parents() {
    let said = say(graph::run, &[&["a/b/c", "a/d"], &["a/b/e"]]);
    assert_eq!(said[0], "a/b/c: 3 below the root\na/d: 2 below the root");
    assert_eq!(said[1], "a/b/e: 3 below the root");
}

#[test]
fn a_job_is_taken_once() {
    let calls: &[&[&str]] =
        &[&["put", "one"], &["put", "two"], &["take"], &["stat"], &["take"], &["take"]];
    let said = say(queue::run, calls);
    assert_eq!(said[2..], ["one", "1 wait, 1 are done", "two", "nothing to do"]);
}

#[test]
fn a_game_goes_on() {
    let said = say(game::run, &[&["40"], &["42", "78"]]);
    assert_eq!(said[0], "40: larger");
    assert_eq!(said[1], "42: yes, after 2 guesses; game 2 begins\n78: smaller");
}
