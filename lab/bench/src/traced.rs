//! Insertions that valgrind's `lackey` watches, and flushes in what it says.
//!
//! Lackey writes down each load and store with its address. It knows no flushes: so the program that it watches has an
//! observer, which stores into a cell of its own for each line that is flushed, and the reader of the trace takes a store there
//! for a flush.
//!
//! ```text
//!   cells   │ 0 │ 1 … 255 │ line 0 of the pool │ line 1 │ …
//!
//!   64 stores into cell 0                      what follows counts, and the cells begin at this address
//!   8 stores into cells 0 to 255               the pool's address, lowest byte first
//!   8 stores into cells 0 to 255               the number of its lines, lowest byte first
//!   a store into the cell of a line            that line is flushed
//!   a store into cell 0                        the end
//! ```

use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tembo_pmem::{LINE, Observer, Stored};

use crate::contender::{Size, volatile_pool};
use crate::keys::Keys;
use crate::{Error, Kind};

/// Cells that are no line's.
const FIRST_LINE: u64 = 256;
/// Stores into the first cell that nothing else does.
const BEGIN: u32 = 64;

/// The cells.
struct Marks(Vec<AtomicU8>);

impl Marks {
    fn new(pool_size: u64) -> Marks {
        let count = FIRST_LINE + pool_size / LINE;
        Marks((0..count).map(|_| AtomicU8::new(0)).collect())
    }

    fn mark(&self, cell: u64) {
        self.0[cell as usize].store(1, Ordering::Relaxed);
    }

    fn begin(&self, pool: u64) {
        (0..BEGIN).for_each(|_| self.mark(0));
        let lines = self.0.len() as u64 - FIRST_LINE;
        for number in [pool, lines] {
            number.to_le_bytes().into_iter().for_each(|byte| self.mark(byte.into()));
        }
    }

    fn end(&self) {
        self.mark(0);
    }
}

impl Observer for Marks {
    fn load(&self, _: u64, _: u64) {}

    fn store(&self, _: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
    }

    fn flush(&self, _: &'static str, offset: u64, len: u64) {
        let lines = offset / LINE..(offset + len).div_ceil(LINE);
        lines.for_each(|line| self.mark(FIRST_LINE + line));
    }

    fn fence(&self, _: &'static str) {}

    fn sync(&self) {}

    fn resize(&self, _: u64) {}
}

/// Inserts keys into a bare tree in memory: what lackey is to watch.
///
/// # Errors
/// Those of the tree.
pub fn insert(kind: Kind, keys: u64, node_size: u32) -> Result<(), Error> {
    let size = Size::new(keys, node_size);
    let marks = Arc::new(Marks::new(size.volatile_bytes()));
    let pool = volatile_pool(size, Some(marks.clone()))?;
    let base = std::ptr::from_ref(&pool.region().words(0, 1)?[0]).addr() as u64;
    let mut contender = kind.over(pool, size)?;
    let plan = Keys { count: keys, seed: 1 }.shuffled(0);
    marks.begin(base);
    contender.inserts(&plan)?;
    marks.end();
    Ok(())
}

/// What a trace says between its begin and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Bytes at an address are read or written.
    Access { address: u64, len: u64 },
    /// The line at an address is flushed.
    Flush { address: u64 },
}

/// Reads a trace up to its end; false: it has none, or not even a begin.
///
/// # Errors
/// Those of the reader.
pub(crate) fn read(trace: &mut dyn BufRead, visit: &mut dyn FnMut(Event)) -> io::Result<bool> {
    let mut trace = Trace { trace, line: Vec::new() };
    let Some(Begin { cells, pool, lines }) = trace.begin()? else { return Ok(false) };
    while let Some(Access { is_store, address, len }) = trace.next()? {
        match address.checked_sub(cells).filter(|_| is_store && len == 1) {
            Some(0) => return Ok(true),
            Some(cell) if (FIRST_LINE..FIRST_LINE + lines).contains(&cell) => {
                visit(Event::Flush { address: pool + (cell - FIRST_LINE) * LINE });
            }
            _ => visit(Event::Access { address, len }),
        }
    }
    Ok(false)
}

/// What a trace begins with.
struct Begin {
    cells: u64,
    pool: u64,
    lines: u64,
}

/// A line of a trace: ` S 1fff000748,8`; `L` is a load, `M` both.
struct Access {
    is_store: bool,
    address: u64,
    len: u64,
}

impl Access {
    fn parse(line: &[u8]) -> Option<Access> {
        let (what, rest) = (line.get(1)?, std::str::from_utf8(line.get(3..)?).ok()?);
        let is_access = line.starts_with(b" ") && matches!(what, b'L' | b'S' | b'M');
        let (address, len) = rest.trim_end().split_once(',').filter(|_| is_access)?;
        let address = u64::from_str_radix(address, 16).ok()?;
        Some(Access { is_store: *what == b'S', address, len: len.parse().ok()? })
    }
}

struct Trace<'t> {
    trace: &'t mut dyn BufRead,
    line: Vec<u8>,
}

impl Trace<'_> {
    /// The next access to data.
    fn next(&mut self) -> io::Result<Option<Access>> {
        loop {
            self.line.clear();
            if self.trace.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if let Some(access) = Access::parse(&self.line) {
                return Ok(Some(access));
            }
        }
    }

    /// The address of the next store of one byte.
    fn next_mark(&mut self) -> io::Result<Option<u64>> {
        while let Some(Access { is_store, address, len }) = self.next()? {
            if is_store && len == 1 {
                return Ok(Some(address));
            }
        }
        Ok(None)
    }

    fn begin(&mut self) -> io::Result<Option<Begin>> {
        let (mut cells, mut same) = (0, 0);
        while same < BEGIN {
            let Some(address) = self.next_mark()? else { return Ok(None) };
            same = if address == cells { same + 1 } else { 1 };
            cells = address;
        }
        let mut numbers = [[0; size_of::<u64>()]; 2];
        for byte in numbers.as_flattened_mut() {
            let Some(address) = self.next_mark()? else { return Ok(None) };
            *byte = address.wrapping_sub(cells) as u8;
        }
        let [pool, lines] = numbers.map(u64::from_le_bytes);
        Ok(Some(Begin { cells, pool, lines }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn trace(marks: &[u64]) -> String {
        marks.iter().map(|mark| format!(" S {:x},1\n", 0x5000 + mark)).collect()
    }

    fn begin() -> String {
        let pool = 0x7f00_0000_u64.to_le_bytes();
        let numbers = pool.into_iter().chain(100_u64.to_le_bytes()).map(u64::from);
        trace(&vec![0; BEGIN as usize]) + &trace(&numbers.collect::<Vec<_>>())
    }

    fn events(text: &str) -> (bool, Vec<Event>) {
        let mut events = Vec::new();
        let ended = read(&mut text.as_bytes(), &mut |event| events.push(event)).unwrap();
        (ended, events)
    }

    #[test]
    fn what_lies_between_begin_and_end_counts() {
        let noise = "==12== Lackey\n L 10,4\n S 5000,1\n S 10,1\nI  0401ab70,3\n";
        let body = "I  04,3\n L 7f000040,8\n M 20,4\n S 5000,8\n";
        let text = format!(
            "{noise}{}{body}{}{}{body}",
            begin(),
            trace(&[FIRST_LINE + 3, FIRST_LINE + 100]),
            trace(&[0])
        );
        let (ended, events) = events(&text);
        assert!(ended);
        let access = |address, len| Event::Access { address, len };
        let beyond = access(0x5000 + FIRST_LINE + 100, 1);
        let flush = Event::Flush { address: 0x7f00_00c0 };
        let read = [access(0x7f00_0040, 8), access(0x20, 4), access(0x5000, 8)];
        assert_eq!(events, [&read[..], &[flush, beyond]].concat());
    }

    #[test]
    fn a_trace_without_its_end_is_none() {
        assert!(!events("").0);
        assert!(!events(&trace(&[0; 10])).0);
        assert!(!events(&begin()).0);
        assert!(!events(&(begin() + " L 10,8\n")).0);
        assert!(events(&(begin() + &trace(&[0]))).0);
    }
}
