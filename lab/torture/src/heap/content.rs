//! The list: its types, the transactions on it, and what it shows.

use tembo_heap::{Access, Atomic, Counted, Error, Heap, Layer, Ptr, Slice};

use super::aged::{self, Age};
use super::library::{self, Held};
use super::top::{Cell, Heavy, Item, Library, Top, Value, WIDE, top};
use crate::judge::{expect, text};

/// Objects that are made together.
pub(super) const MANY: u64 = 12;
/// Objects of which ten fill a chunk, and those of them that stay when most go: in the first chunk as many as in the second.
pub(super) const HEAVY: u64 = 12;
pub(super) const LIGHT: [u64; 4] = [0, 1, 10, 11];

/// All that a list shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    /// The names of the items, and the number of the value that each has.
    pub(crate) items: Vec<(u64, usize)>,
    /// The words of the values, numbered as they come first in the list.
    pub(crate) values: Vec<u64>,
    pub(crate) label: u64,
    pub(crate) wide: u64,
    pub(crate) many: u64,
    /// What is heavy, and how much of it is there.
    pub(crate) heavy: (u64, u64),
    pub(super) held: Held,
    pub(super) age: Age,
}

impl Content {
    /// Numbers the values as they come first.
    pub(super) fn number(&mut self) {
        let mut order: Vec<usize> = Vec::new();
        for (_, value) in &mut self.items {
            let known = order.iter().position(|other| other == value);
            let number = known.unwrap_or(order.len());
            if number == order.len() {
                order.push(*value);
            }
            *value = number;
        }
        self.values = order.into_iter().map(|old| self.values[old]).collect();
    }
}

pub(super) fn item<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    serial: u64,
) -> Result<Ptr<'h, Item<'h>>, Error> {
    let value = tx.alloc(Value { word: serial })?;
    tx.alloc(Item { name: serial, value, next: None, back: None })
}

pub(super) fn link<'h, L: Counted>(
    tx: &mut Access<'h, L>,
    item: &Ptr<'h, Item<'h>>,
) -> Result<(), Error> {
    let top = top(tx)?;
    let next = tx.get(&top, Top::FIRST)?;
    if let Some(next) = &next {
        let back = tx.downgrade(item)?;
        tx.set(next, Item::BACK, Some(back))?;
    }
    tx.set(item, Item::NEXT, next)?;
    tx.set(&top, Top::FIRST, Some(item.clone()))
}

pub(super) fn push(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    heap.atomic(|tx| {
        let item = item(tx, serial)?;
        link(tx, &item)
    })
}

pub(super) fn orphan(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    let item = heap.atomic(|tx| item(tx, serial))?;
    heap.atomic(|tx| link(tx, &item))
}

pub(super) fn dropped(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    drop(heap.atomic(|tx| item(tx, serial))?);
    heap.settle()
}

pub(super) fn ring(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        let first = tx.get(&top, Top::FIRST)?;
        let one = item(tx, serial)?;
        if let Some(first) = first {
            let value = tx.get(&first, Item::VALUE)?;
            tx.set(&one, Item::VALUE, value)?;
        }
        let two = item(tx, serial)?;
        tx.set(&two, Item::NEXT, Some(one.clone()))?;
        tx.set(&one, Item::NEXT, Some(two))
    })
}

pub(super) fn collect(heap: Heap<'_>) -> Result<(), Error> {
    while !heap.collect_cycles(2)? {}
    Ok(())
}

pub(super) fn compact(heap: Heap<'_>) -> Result<(), Error> {
    while !heap.compact(3)?.is_done {}
    Ok(())
}

/// The item of that index, and the one before it.
#[allow(clippy::type_complexity)]
pub(super) fn nth<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    index: usize,
) -> Result<(Option<Ptr<'h, Item<'h>>>, Ptr<'h, Item<'h>>), Error> {
    let top = top(tx)?;
    let (mut before, mut at) = (None, tx.get(&top, Top::FIRST)?.ok_or(Error::NoRoot)?);
    for _ in 0..index {
        let next = tx.get(&at, Item::NEXT)?.ok_or(Error::NoRoot)?;
        before = Some(at);
        at = next;
    }
    Ok((before, at))
}

pub(super) fn unlink<'h, L: Counted>(tx: &mut Access<'h, L>, index: usize) -> Result<(), Error> {
    let top = top(tx)?;
    let (before, item) = nth(tx, index)?;
    let next = tx.get(&item, Item::NEXT)?;
    if let Some(next) = &next {
        let back = before.as_ref().map(|before| tx.downgrade(before)).transpose()?;
        tx.set(next, Item::BACK, back)?;
    }
    match before {
        Some(before) => tx.set(&before, Item::NEXT, next),
        None => tx.set(&top, Top::FIRST, next),
    }
}

pub(super) fn remove(heap: Heap<'_>, index: usize) -> Result<(), Error> {
    heap.atomic(|tx| unlink(tx, index))
}

pub(super) fn share(heap: Heap<'_>, to: usize, from: usize) -> Result<(), Error> {
    heap.atomic(|tx| {
        let ((_, to), (_, from)) = (nth(tx, to)?, nth(tx, from)?);
        let value = tx.get(&from, Item::VALUE)?;
        tx.set(&to, Item::VALUE, value)
    })
}

pub(super) fn swap(heap: Heap<'_>, one: usize, two: usize) -> Result<(), Error> {
    heap.atomic(|tx| {
        let ((_, one), (_, two)) = (nth(tx, one)?, nth(tx, two)?);
        let (first, second) = (tx.get(&one, Item::NAME)?, tx.get(&two, Item::NAME)?);
        tx.set(&one, Item::NAME, second)?;
        tx.set(&two, Item::NAME, first)
    })
}

pub(super) fn clear(heap: Heap<'_>) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        tx.set(&top, Top::FIRST, None)
    })
}

pub(super) fn label(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        tx.set(&top, Top::LABEL, (serial, serial))
    })
}

pub(super) fn wide(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        tx.set(&top, Top::WIDE, [serial; WIDE])
    })
}

pub(super) fn many(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        let slice = values(tx, serial)?;
        tx.set(&top, Top::MANY, Some(slice))
    })
}

/// Many values, in a slice.
pub(super) fn values<'h, L: Layer>(
    tx: &mut Access<'h, L>,
    serial: u64,
) -> Result<Ptr<'h, Slice<Ptr<'h, Value>>>, Error> {
    let slice = tx.alloc_slice(MANY)?;
    for index in 0..MANY {
        let value = tx.alloc(Value { word: serial })?;
        tx.set_cell(&slice, index, value)?;
    }
    Ok(slice)
}

pub(super) fn few(heap: Heap<'_>) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        tx.set(&top, Top::MANY, None)
    })
}

/// Objects that fill more than a chunk, in the place of those before.
pub(super) fn heavy(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        tx.set(&top, Top::HEAVY, None)?;
        let slice = tx.alloc_slice::<Cell<'_>>(HEAVY)?;
        let mut last = None;
        for index in 0..HEAVY {
            let before = last.filter(|_| index % 2 == 1);
            let weak = before.as_ref().map(|before| tx.downgrade(before)).transpose()?;
            let heavy = tx.alloc(Heavy { words: [serial; 38], before, weak })?;
            tx.set_cell(&slice, index, Some(heavy.clone()))?;
            last = Some(heavy);
        }
        tx.set(&top, Top::HEAVY, Some(slice))
    })
}

/// Most of them go.
pub(super) fn light(heap: Heap<'_>) -> Result<(), Error> {
    heap.atomic(|tx| {
        let top = top(tx)?;
        let Some(slice) = tx.get(&top, Top::HEAVY)? else { return Ok(()) };
        for index in (0..HEAVY).filter(|index| !LIGHT.contains(index)) {
            tx.set_cell(&slice, index, None)?;
        }
        Ok(())
    })
}

/// What is heavy, and how much of it is there.
fn show_heavy<'h, L: Counted>(
    tx: &mut Access<'h, L>,
    slice: &Ptr<'h, Slice<Cell<'h>>>,
) -> Result<Result<(u64, u64), String>, Error> {
    let (mut found, mut last): (_, Cell<'h>) = ((0, 0), None);
    for index in 0..HEAVY {
        let cell = tx.cell(slice, index)?;
        if let Some(heavy) = &cell {
            let Heavy { words, before, weak } = tx.read(heavy)?;
            let weak = weak.map(|weak| tx.upgrade(&weak)).transpose()?.flatten();
            let wanted = last.as_ref().filter(|_| index % 2 == 1);
            if before.as_ref() != wanted || weak.as_ref() != wanted {
                return Ok(Err("what is heavy is not linked".to_owned()));
            }
            let is_same = found.1 == 0 || found.0 == words[0];
            if !is_same || words != [words[0]; 38] {
                return Ok(Err("half of what is heavy".to_owned()));
            }
            found = (words[0], found.1 + 1);
        }
        last = cell;
    }
    Ok(Ok(found))
}

/// What collections hold, and how old what ages is.
fn show_kept<'h>(
    tx: &mut Access<'h, Atomic>,
    library: Option<Ptr<'h, Library<'h>>>,
    content: &mut Content,
) -> Result<Result<(), String>, Error> {
    let held = library.map(|library| library::show(tx, &library)).transpose()?;
    let age = aged::show(tx)?;
    Ok(held.transpose().and_then(|held| {
        content.held = held.unwrap_or_default();
        content.age = age?;
        Ok(())
    }))
}

pub(super) fn abort(heap: Heap<'_>, index: usize) -> Result<(), Error> {
    let aborted = heap.atomic(|tx| {
        let item = item(tx, 99)?;
        link(tx, &item)?;
        unlink(tx, index)?;
        let top = top(tx)?;
        tx.set(&top, Top::LABEL, (9, 99))?;
        Err::<(), Error>(Error::NoRoot)
    });
    match aborted {
        Err(Error::NoRoot) => Ok(()),
        other => other,
    }
}

pub(super) fn has_root(heap: Heap<'_>) -> Result<bool, String> {
    Ok(heap.root::<Top<'_>>().map_err(text)?.is_some())
}

/// What it shows; that it is linked both ways.
pub(super) fn show(heap: Heap<'_>) -> Result<Content, String> {
    let mut wrong = Ok(());
    let content = heap.atomic(|tx| {
        let mut content = Content::default();
        let Some(top) = tx.root::<Top<'_>>()? else { return Ok(content) };
        let Top { first, label, many, wide, heavy, library, .. } = tx.read(&top)?;
        (content.label, content.wide) = (label.0, wide[0]);
        wrong = expect(label.0 == label.1, "half a label");
        if wide != [wide[0]; WIDE] {
            wrong = Err("half of what is wide".to_owned());
        }
        if let Some(many) = many {
            for index in 0..MANY {
                let value = tx.cell(&many, index)?;
                let word = tx.get(&value, Value::WORD)?;
                if index > 0 && word != content.many {
                    wrong = Err("some of many".to_owned());
                }
                content.many = word;
            }
        }
        if let Some(heavy) = heavy {
            match show_heavy(tx, &heavy)? {
                Ok(found) => content.heavy = found,
                Err(what) => wrong = Err(what),
            }
        }
        show_kept(tx, library, &mut content)?.unwrap_or_else(|what| wrong = Err(what));
        let (mut at, mut before): (_, Option<Ptr<'_, Item<'_>>>) = (first, None);
        let mut values: Vec<u64> = Vec::new();
        while let Some(item) = at {
            let Item { name, value, next, back } = tx.read(&item)?;
            let back = back.map(|back| tx.upgrade(&back)).transpose()?.flatten();
            if back != before {
                wrong = Err("an item is not linked back".to_owned());
            }
            let number = values.iter().position(|other| *other == value.offset());
            if number.is_none() {
                values.push(value.offset());
                content.values.push(tx.get(&value, Value::WORD)?);
            }
            content.items.push((name, number.unwrap_or(values.len() - 1)));
            if content.items.len() > 1000 {
                return Err(Error::NoRoot);
            }
            (before, at) = (Some(item), next);
        }
        Ok::<_, Error>(content)
    });
    wrong?;
    content.map_err(text)
}
