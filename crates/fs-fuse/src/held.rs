//! Files that others have taken the names of, which are kept for a moment.
//!
//! A program opens a file in two steps: the kernel looks for the name, and opens what it has found. A rename in between replaces that,
//! and the program would be refused a name that is there at each moment.

use std::time::{Duration, Instant};

use tembo_fs::Fs;

/// How long they are kept at least, and twice that at most: a program that has found a name comes sooner mostly.
const MOMENT: Duration = Duration::from_millis(50);

/// Files that are kept at most, or for a shorter time. They are closed by few commits.
const HELD_MAX: usize = 256;

/// Files that are kept open. What is not closed is removed by the next open of the file system.
#[derive(Default)]
pub(crate) struct Held {
    /// Those that are closed next, and those that came later.
    older: Vec<u64>,
    newer: Vec<u64>,
    /// When the next are closed, and of which file system.
    next: Option<(Instant, Fs)>,
}

impl Held {
    /// Keeps one that is open until it is closed.
    pub(crate) fn add(&mut self, fs: &Fs, inode: u64) {
        self.next.get_or_insert_with(|| (Instant::now() + MOMENT, fs.clone()));
        self.newer.push(inode);
        if self.newer.len() >= HELD_MAX / 2 {
            self.turn();
        }
    }

    /// How long until some are to be closed; `None`: there is none.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.next.as_ref().map(|(next, _)| next.saturating_duration_since(Instant::now()))
    }

    /// Closes those that came before the last turn.
    pub(crate) fn turn(&mut self) {
        let Some((next, fs)) = &mut self.next else { return };
        let closed = std::mem::replace(&mut self.older, std::mem::take(&mut self.newer));
        // The next open of the file system removes what this does not.
        let _ = fs.close_inodes(&closed);
        *next = Instant::now() + MOMENT;
        if self.older.is_empty() {
            self.next = None;
        }
    }

    /// Closes all.
    pub(crate) fn end(&mut self) {
        self.turn();
        self.turn();
    }
}

#[cfg(test)]
mod tests {
    use tembo_fs::{FileKind, Format, New, ROOT, Time};
    use tembo_kv::{Durability, Options, Store};

    use super::*;

    #[test]
    fn what_is_kept_is_there_for_a_turn_and_then_removed() {
        let store = Store::volatile(&Options::new()).unwrap();
        let now = Time::default();
        let fs = Fs::format(&store, &Format::default(), now).unwrap();
        let new = New { kind: FileKind::Regular, ..Format::default().root };
        let mut held = Held::default();
        let add = |held: &mut Held, name: &[u8]| {
            let work = |tree: &mut tembo_fs::AnyTreeMut<'_, '_>| tree.create(ROOT, name, &new);
            let number = fs.write(now, Durability::Buffered, work).unwrap().number;
            fs.open_inode(number).unwrap();
            let unlink = |tree: &mut tembo_fs::AnyTreeMut<'_, '_>| tree.unlink(ROOT, name);
            fs.write(now, Durability::Buffered, unlink).unwrap();
            held.add(&fs, number);
            number
        };
        let is_there = |number| fs.snapshot().unwrap().inode(number).is_ok();
        assert!(held.patience().is_none());
        let first = add(&mut held, b"first");
        assert!(held.patience().is_some_and(|patience| patience <= MOMENT));
        held.turn();
        let second = add(&mut held, b"second");
        assert!(is_there(first) && is_there(second));
        held.turn();
        assert!(!is_there(first) && is_there(second) && held.patience().is_some());
        held.end();
        assert!(!is_there(second) && held.patience().is_none());
        // Many are kept for a shorter time.
        let first = add(&mut held, b"first");
        for at in 0..HELD_MAX {
            add(&mut held, format!("{at}").as_bytes());
        }
        assert!(!is_there(first));
        held.end();
        assert_eq!(fs.snapshot().unwrap().check().unwrap().inodes, 1);
    }
}
