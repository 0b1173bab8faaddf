//! Marks: the space below a chunk that holds objects. They are set one object at a time.

use crate::class::size_of_class;
use crate::geometry::{Layout, Place};
use crate::{Error, Object};

/// The marks of one chunk.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mark {
    /// Nothing.
    #[default]
    Empty,
    /// Objects of one class, one bit for each slot.
    Slots { class: u8, bits: Box<[u64]> },
    /// The first chunk of an object of whole chunks.
    Head { class: u8 },
    /// A further one.
    Body,
}

/// The marks of all chunks before `end`.
#[derive(Debug)]
pub(crate) struct Marks {
    layout: Layout,
    end: u32,
    chunks: Vec<Mark>,
    pub(crate) objects: u64,
    /// Bytes that the marked objects take.
    pub(crate) bytes: u64,
}

impl Marks {
    pub(crate) fn new(layout: Layout, end: u32) -> Marks {
        Marks { layout, end, chunks: Vec::new(), objects: 0, bytes: 0 }
    }

    pub(crate) fn chunk(&self, index: u32) -> &Mark {
        self.chunks.get(index as usize).unwrap_or(&Mark::Empty)
    }

    /// Marks an object. Returns whether it was not marked before.
    pub(crate) fn mark(&mut self, object: Object) -> Result<bool, Error> {
        let place = self.layout.place(object, self.end)?;
        self.cover(place);
        let new = match place {
            Place::Slot { chunk, slot } => self.mark_slot(object, chunk, slot)?,
            Place::Run { chunk, count } => self.mark_run(object, chunk, count)?,
        };
        if new {
            self.objects += 1;
            self.bytes += self.layout.footprint(object.size());
        }
        Ok(new)
    }

    /// Takes a mark back. Returns whether there was one.
    pub(crate) fn unmark(&mut self, object: Object) -> bool {
        let Ok(place) = self.layout.place(object, self.end) else { return false };
        let marked = match place {
            Place::Slot { chunk, slot } => match self.chunks.get_mut(chunk as usize) {
                Some(Mark::Slots { class, bits }) if *class == object.class() => {
                    let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
                    let marked = bits[word] & bit != 0;
                    bits[word] &= !bit;
                    marked
                }
                _ => false,
            },
            Place::Run { chunk, count } => match self.chunk(chunk) {
                Mark::Head { class } if *class == object.class() => {
                    self.chunks[chunk as usize..][..count as usize].fill(Mark::Empty);
                    true
                }
                _ => false,
            },
        };
        if marked {
            self.objects -= 1;
            self.bytes -= self.layout.footprint(object.size());
        }
        marked
    }

    fn cover(&mut self, place: Place) {
        let after = match place {
            Place::Slot { chunk, .. } => chunk + 1,
            Place::Run { chunk, count } => chunk + count,
        };
        if self.chunks.len() < after as usize {
            self.chunks.resize(after as usize, Mark::Empty);
        }
    }

    fn mark_slot(&mut self, object: Object, chunk: u32, slot: u32) -> Result<bool, Error> {
        let mark = &mut self.chunks[chunk as usize];
        if matches!(mark, Mark::Empty) {
            let class = object.class();
            let words = self.layout.slots(size_of_class(class)).div_ceil(64);
            *mark = Mark::Slots { class, bits: vec![0; words as usize].into() };
        }
        match mark {
            Mark::Slots { class, bits } if *class == object.class() => {
                let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
                let new = bits[word] & bit == 0;
                bits[word] |= bit;
                Ok(new)
            }
            _ => Err(Error::Overlap { bits: object.to_bits() }),
        }
    }

    fn mark_run(&mut self, object: Object, chunk: u32, count: u32) -> Result<bool, Error> {
        let run = &mut self.chunks[chunk as usize..][..count as usize];
        if matches!(run[0], Mark::Head { class } if class == object.class()) {
            return Ok(false);
        }
        if run.iter().any(|mark| !matches!(mark, Mark::Empty)) {
            return Err(Error::Overlap { bits: object.to_bits() });
        }
        run.fill(Mark::Body);
        run[0] = Mark::Head { class: object.class() };
        Ok(true)
    }
}
