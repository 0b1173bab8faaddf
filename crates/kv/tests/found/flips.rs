//! Whatever bytes stand in a pool: it opens and is read, or there is an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tembo_kv::Store;

use super::bench::{Random, directory, ends, tiny};
use super::image::{ROOT_WORD, SIZE, closed, judge, patch, word};

/// One change of an image.
#[derive(Clone, Copy, Debug)]
enum Change {
    Byte(usize, u8),
    Word(usize, u64),
}

fn apply(image: &mut [u8], change: Change) {
    match change {
        Change::Byte(at, flip) => image[at] ^= flip,
        Change::Word(at, value) => patch(image, at, value),
    }
}

/// The words of lines that are in use: the others lie in free space.
fn used(image: &[u8]) -> impl Iterator<Item = usize> {
    let line = |at: &usize| image[*at..at + 64].iter().any(|&byte| byte != 0);
    let lines: Vec<usize> = (4096..image.len()).step_by(64).filter(line).collect();
    lines.into_iter().flat_map(|at| (at..at + 64).step_by(8))
}

fn words(image: &[u8]) -> Vec<Change> {
    let mut random = Random(2024);
    let one = |at: usize| {
        let near = word(image, at).wrapping_add(1);
        [0, !0, near, random.next()].map(|value| Change::Word(at, value))
    };
    used(image).flat_map(one).collect()
}

fn bytes(image: &[u8]) -> Vec<Change> {
    let mut random = Random(1871);
    let mut byte = |at: usize| Change::Byte(at, 1 << random.below(8));
    let words = used(image).filter(|&at| word(image, at) != 0);
    words.flat_map(|at| at..at + 8).map(&mut byte).collect()
}

/// Judges the changes one after another; each must end, though the store may say anything.
fn bear(changes: Vec<Change>) {
    let image = closed();
    let count = changes.len();
    let (at, all) = (Arc::new(AtomicUsize::new(0)), changes.clone());
    let progress = at.clone();
    let work = move || {
        let mut panics = Vec::new();
        for change in changes {
            let mut damaged = image.clone();
            apply(&mut damaged, change);
            if let Err(panic) = judge(&damaged) {
                panics.push(format!("{change:?}: {panic}"));
            }
            progress.fetch_add(1, Ordering::AcqRel);
        }
        panics
    };
    let worker = std::thread::spawn(work);
    let (mut last, mut waited) = (0, 0);
    while !worker.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        let now = at.load(Ordering::Acquire);
        waited = if now > last { 0 } else { waited + 1 };
        last = now;
        assert!(waited < 3000, "no end of {:?}, number {now} of {count}", all[now.min(count - 1)]);
    }
    let panics = worker.join().unwrap();
    let some = &panics[..panics.len().min(12)];
    assert!(panics.is_empty(), "{} of {count}, as {some:#?}", panics.len());
}

#[test]
fn any_word_may_be_another() {
    bear(words(&closed()));
}

#[test]
fn any_byte_may_be_another() {
    bear(bytes(&closed()));
}

/// The media header, which only a file has, and the superblock.
#[test]
fn any_byte_of_the_headers_may_be_another() {
    let image = closed();
    let directory = directory("headers");
    let places = (0..512).chain(2048..2560).chain(4096..ROOT_WORD + 8).step_by(3);
    for at in places {
        let mut damaged = image.clone();
        apply(&mut damaged, Change::Byte(at, 0x55));
        let path = directory.path().join(format!("{at}.pool"));
        std::fs::write(&path, &damaged).unwrap();
        let opened = ends(&format!("byte {at}"), {
            let path = path.clone();
            move || Store::open(&path, &tiny(SIZE)).and_then(|store| store.check().map(drop))
        });
        // What a label or a sealed word says is vouched for; a header has a second slot.
        let must_fail = (4096..4096 + 88).contains(&at);
        assert!(opened.is_err() || !must_fail, "byte {at} is not noticed");
        std::fs::remove_file(&path).unwrap();
    }
}
