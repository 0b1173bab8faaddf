//! Elements that are sorted some at a time: runs of them, and what merges the runs.
//!
//! ```text
//!   elements ──► run, sorted ─┐
//!   elements ──► run, sorted ─┼─► the first of all runs' first ones comes next
//!   elements ──► run, sorted ─┘
//! ```
//! To sort a million at once takes long, and to take the next one of some hundred runs does not. A run holds its elements in
//! one piece of memory, so that many are given up as quickly as one.

use std::cmp::Ordering;

/// In which order elements come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they were added.
    Kept,
    /// The least weight first.
    Ascending,
    /// The greatest weight first. Those of equal weight come as they were added.
    Descending,
}

/// By what an element is sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Weight<'w> {
    /// By a number, and by itself where numbers are equal.
    Number(f64),
    /// By a text alone, before all of which nothing comes.
    Text(Option<&'w [u8]>),
    /// By itself.
    Own,
}

/// Where bytes are in a run.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    size: u32,
}

#[derive(Clone, Copy)]
enum Weighed {
    Number(f64),
    Text(Option<Place>),
    Own,
}

struct Entry {
    weight: Weighed,
    element: Place,
}

/// Elements with their weights.
#[derive(Default)]
pub(crate) struct Run {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Run {
    /// Adds an element.
    pub(crate) fn push(&mut self, element: &[u8], weight: Weight<'_>) {
        let element = self.keep(element);
        let weight = self.keep_weight(weight);
        self.entries.push(Entry { weight, element });
    }

    /// Gives an element another weight.
    pub(crate) fn weigh(&mut self, at: usize, weight: Weight<'_>) {
        let weight = self.keep_weight(weight);
        if let Some(entry) = self.entries.get_mut(at) {
            entry.weight = weight;
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Place {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        Place { start, size: bytes.len() as u32 }
    }

    fn keep_weight(&mut self, weight: Weight<'_>) -> Weighed {
        match weight {
            Weight::Number(number) => Weighed::Number(number),
            Weight::Text(text) => Weighed::Text(text.map(|text| self.keep(text))),
            Weight::Own => Weighed::Own,
        }
    }

    /// Elements.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of elements and weights.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// An element; empty if it is not there.
    pub(crate) fn element(&self, at: usize) -> &[u8] {
        self.entries.get(at).map_or(&[], |entry| bytes_at(&self.bytes, entry.element))
    }

    /// The number that an element is sorted by; 0 without one.
    pub(crate) fn number(&self, at: usize) -> f64 {
        match self.entries.get(at).map(|entry| entry.weight) {
            Some(Weighed::Number(number)) => number,
            _ => 0.0,
        }
    }

    /// All elements, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], f64)> + Clone {
        (0..self.len()).map(|at| (self.element(at), self.number(at)))
    }

    /// Puts the elements in order.
    fn sort(&mut self, order: Order) {
        let Run { bytes, entries } = self;
        if order != Order::Kept {
            entries.sort_by(|a, b| compare((bytes, a), (bytes, b), order));
        }
    }
}

fn bytes_at(bytes: &[u8], place: Place) -> &[u8] {
    bytes.get(place.start..place.start + place.size as usize).unwrap_or_default()
}

/// The order of two elements of runs.
fn compare((a_bytes, a): (&[u8], &Entry), (b_bytes, b): (&[u8], &Entry), order: Order) -> Ordering {
    let elements = || bytes_at(a_bytes, a.element).cmp(bytes_at(b_bytes, b.element));
    let found = match (a.weight, b.weight) {
        (Weighed::Number(x), Weighed::Number(y)) => {
            x.partial_cmp(&y).unwrap_or(Ordering::Equal).then_with(elements)
        }
        (Weighed::Text(x), Weighed::Text(y)) => {
            x.map(|x| bytes_at(a_bytes, x)).cmp(&y.map(|y| bytes_at(b_bytes, y)))
        }
        _ => elements(),
    };
    match order {
        Order::Kept => Ordering::Equal,
        Order::Ascending => found,
        Order::Descending => found.reverse(),
    }
}

/// A run, and the next one of its elements.
struct Cursor {
    run: Run,
    at: usize,
}

/// Runs whose elements come in one order.
pub(crate) struct Merge {
    cursors: Vec<Cursor>,
    order: Order,
    /// Runs that have a next element: a heap, at whose top is the one with the first of them.
    heap: Vec<usize>,
    /// All runs are there.
    has_begun: bool,
}

impl Merge {
    /// Of no runs.
    pub(crate) fn new(order: Order) -> Merge {
        Merge { cursors: Vec::new(), order, heap: Vec::new(), has_begun: false }
    }

    /// Sorts a run, which is one of those that are merged.
    pub(crate) fn add(&mut self, mut run: Run) {
        run.sort(self.order);
        self.cursors.push(Cursor { run, at: 0 });
    }

    /// Turns the order round in which the elements were added.
    pub(crate) fn turn_round(&mut self) {
        self.cursors.reverse();
        self.cursors.iter_mut().for_each(|cursor| cursor.run.entries.reverse());
    }

    /// All runs were added.
    pub(crate) fn begin(&mut self) {
        let cursors = &self.cursors;
        self.heap = (0..cursors.len()).filter(|&at| cursors[at].run.len() > 0).collect();
        (0..self.heap.len() / 2).rev().for_each(|at| self.sink(at));
        self.has_begun = true;
    }

    /// Whether all runs were added.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The run with the next element, and where it is in it.
    pub(crate) fn next(&self) -> Option<(&Run, usize)> {
        let cursor = self.cursors.get(*self.heap.first()?)?;
        Some((&cursor.run, cursor.at))
    }

    /// Passes over the next element.
    pub(crate) fn pass(&mut self) {
        let Some(&top) = self.heap.first() else { return };
        let cursor = &mut self.cursors[top];
        cursor.at += 1;
        if cursor.at == cursor.run.len() {
            cursor.run = Run::default();
            self.heap.swap_remove(0);
        }
        self.sink(0);
    }

    /// Moves a run of the heap down to where it belongs.
    fn sink(&mut self, mut at: usize) {
        loop {
            let below = [2 * at + 1, 2 * at + 2].into_iter().filter(|&one| one < self.heap.len());
            let first = below.reduce(|a, b| if self.is_before(b, a) { b } else { a });
            let Some(first) = first.filter(|&first| self.is_before(first, at)) else { return };
            self.heap.swap(at, first);
            at = first;
        }
    }

    /// Whether the next element of one run of the heap comes before that of another. Of equal ones that of the earlier run does.
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.heap[a], self.heap[b]);
        let [one, other] = [a, b].map(|at| {
            let Cursor { run, at } = &self.cursors[at];
            (&run.bytes[..], &run.entries[*at])
        });
        compare(one, other, self.order).then(a.cmp(&b)) == Ordering::Less
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let runs: usize = self.cursors.iter().map(|cursor| cursor.run.memory()).sum();
        runs + self.cursors.len() * (size_of::<Cursor>() + size_of::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What runs of so many elements make, by their weights of few values.
    fn merged(count: usize, order: Order, weight: fn(usize) -> Weight<'static>) -> Vec<Vec<u8>> {
        let mut runs = vec![Run::default()];
        for number in 0..count {
            let element = format!("e{:03}", number * 7919 % count);
            if number % 13 == 12 {
                runs.push(Run::default());
            }
            runs.last_mut().unwrap().push(element.as_bytes(), weight(number));
        }
        runs.insert(3, Run::default());
        let (mut merge, mut found) = (Merge::new(order), Vec::new());
        runs.into_iter().for_each(|run| merge.add(run));
        merge.begin();
        while let Some((run, at)) = merge.next() {
            found.push(run.element(at).to_vec());
            merge.pass();
        }
        assert!(merge.memory() < 10_000, "runs without elements are given up");
        found
    }

    #[test]
    fn merged_runs_are_what_a_stable_sort_of_all_makes() {
        let text = |number: usize| match number % 5 {
            0 => Weight::Text(None),
            1 => Weight::Text(Some(b"b")),
            2 => Weight::Text(Some(b"")),
            _ => Weight::Text(Some(b"a")),
        };
        let number = |number: usize| Weight::Number([2.0, -1.0, 0.0, -0.0][number % 4]);
        let kinds: [fn(usize) -> Weight<'static>; 3] = [text, number, |_| Weight::Own];
        for (kind, weight) in kinds.into_iter().enumerate() {
            let mut expected: Vec<(usize, String)> =
                (0..500).map(|number| (number, format!("e{:03}", number * 7919 % 500))).collect();
            let shown = |all: &[(usize, String)]| -> Vec<Vec<u8>> {
                all.iter().map(|(_, element)| element.clone().into_bytes()).collect()
            };
            assert_eq!(merged(500, Order::Kept, weight), shown(&expected));
            let rank = |number: usize| match weight(number) {
                Weight::Number(number) => number as i64,
                Weight::Text(text) => {
                    text.map_or(-1, |text| i64::from(text.first().copied().unwrap_or(0)))
                }
                Weight::Own => 0,
            };
            for order in [Order::Ascending, Order::Descending] {
                expected.sort_unstable_by(|a, b| {
                    let by_element = || if kind == 0 { Ordering::Equal } else { a.1.cmp(&b.1) };
                    let found = rank(a.0).cmp(&rank(b.0)).then_with(by_element);
                    let found = if order == Order::Descending { found.reverse() } else { found };
                    found.then(a.0.cmp(&b.0))
                });
                assert_eq!(merged(500, order, weight), shown(&expected), "{kind} {order:?}");
            }
        }
    }
}
