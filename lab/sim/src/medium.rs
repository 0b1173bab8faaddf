//! What a crash can leave of the stores: of each line any prefix of those that are not guaranteed.

use std::collections::{BTreeMap, HashMap};

use crate::event::{Event, LINE, Piece, Step};
use crate::hash::{hash, mix};

/// The content of a line.
pub(crate) type Content = [u8; LINE];

/// When a store is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// When its line was flushed and its flusher has fenced; before that perhaps, but not before
    /// older stores to its line.
    Flush,
    /// A store is durable at once: caches survive.
    Eadr,
}

/// A step that is done wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken<'b> {
    /// The flush, fence or commit store of that name does nothing.
    Dropped(&'b str),
    /// The commit store of that name may be durable before older stores to its line, and before
    /// what the fence before it, in its operation, has guaranteed.
    Early(&'b str),
}

#[derive(Clone, Default)]
struct Line {
    /// Not guaranteed; each with the number of its event.
    stores: Vec<(usize, Piece)>,
    /// How many of them each thread has flushed.
    flushed: Vec<(u16, usize)>,
    /// Commit stores that may have come early.
    early: Vec<(usize, Piece)>,
}

/// What is guaranteed, and what may be on the medium too.
pub(crate) struct Medium<'b> {
    cache: Cache,
    broken: Option<Broken<'b>>,
    durable: Vec<u8>,
    lines: BTreeMap<u32, Line>,
    /// Hash of the durable bytes of all lines that were ever stored to.
    hash: u64,
    /// Early stores, by the event before which they begin to be possible.
    hurried: HashMap<usize, Vec<(usize, Piece)>>,
    done: usize,
}

impl<'b> Medium<'b> {
    pub(crate) fn new(
        image: &[u8],
        events: &[Event],
        cache: Cache,
        broken: Option<Broken<'b>>,
    ) -> Medium<'b> {
        let hurried = match broken {
            Some(Broken::Early(name)) => hurried(events, name),
            _ => HashMap::new(),
        };
        let (durable, lines) = (image.to_vec(), BTreeMap::new());
        Medium { cache, broken, durable, lines, hash: 0, hurried, done: 0 }
    }

    /// The bytes that are guaranteed.
    pub(crate) fn durable(&mut self) -> &mut [u8] {
        &mut self.durable
    }

    pub(crate) fn content(&self, line: u32) -> Content {
        let mut content = [0; LINE];
        let from = line as usize * LINE;
        if let Some(bytes) = self.durable.get(from..from + LINE) {
            content.copy_from_slice(bytes);
        }
        content
    }

    /// Does what happened up to the event `to`; the lines of which the guaranteed bytes changed.
    pub(crate) fn go(&mut self, events: &[Event], to: usize, changed: &mut Vec<u32>) {
        while self.done <= to {
            for early in self.hurried.remove(&self.done).unwrap_or_default() {
                self.lines.entry(early.1.line()).or_default().early.push(early);
            }
            if self.done == to {
                break;
            }
            self.step(self.done, &events[self.done], changed);
            self.done += 1;
        }
    }

    fn step(&mut self, index: usize, event: &Event, changed: &mut Vec<u32>) {
        if let Some(Broken::Dropped(name)) = self.broken
            && event.name() == Some(name)
        {
            return;
        }
        match event.step {
            Step::Store(piece) => {
                self.lines.entry(piece.line()).or_default().stores.push((index, piece));
                if self.cache == Cache::Eadr {
                    self.guarantee(piece.line(), 1, changed);
                }
            }
            Step::Flush { first, last, .. } => {
                for (_, line) in self.lines.range_mut(first..=last) {
                    line.flushed.retain(|(thread, _)| *thread != event.thread);
                    line.flushed.push((event.thread, line.stores.len()));
                }
            }
            Step::Fence { .. } => {
                let flushed = |line: &Line| {
                    let own = line.flushed.iter().find(|(thread, _)| *thread == event.thread);
                    own.map(|(_, count)| *count)
                };
                let lines: Vec<(u32, usize)> = self
                    .lines
                    .iter()
                    .filter_map(|(&at, line)| Some((at, flushed(line)?)))
                    .collect();
                for (at, count) in lines {
                    self.guarantee(at, count, changed);
                }
            }
            Step::Resize { size } => self.resize(size as usize, changed),
            Step::Sync | Step::Operation => {}
        }
    }

    /// Resizes the medium. Bytes that are cut off are lost, with all stores on their way to them.
    fn resize(&mut self, size: usize, changed: &mut Vec<u32>) {
        let old = self.durable.len();
        self.durable.resize(size, 0);
        self.lines.retain(|&at, _| (at as usize) < size.div_ceil(LINE));
        changed.extend((size.div_ceil(LINE) as u32)..(old.div_ceil(LINE) as u32));
    }

    /// The first `count` stores to a line are durable.
    fn guarantee(&mut self, at: u32, count: usize, changed: &mut Vec<u32>) {
        let Some(line) = self.lines.get_mut(&at) else { return };
        let from = at as usize * LINE;
        let content = &mut self.durable[from..from + LINE];
        self.hash ^= mix(u64::from(at), hash(content));
        for (index, piece) in line.stores.drain(..count) {
            piece.put(content);
            line.early.retain(|(early, _)| *early != index);
        }
        self.hash ^= mix(u64::from(at), hash(content));
        line.flushed.iter_mut().for_each(|(_, flushed)| *flushed = flushed.saturating_sub(count));
        line.flushed.retain(|(_, flushed)| *flushed > 0);
        if line.stores.is_empty() && line.early.is_empty() {
            self.lines.remove(&at);
        }
        changed.push(at);
    }

    /// Each line of which several contents may be found: the oldest first, the newest last.
    pub(crate) fn choices(&self) -> Vec<(u32, Vec<Content>)> {
        let lines = self.lines.iter().map(|(&at, line)| (at, self.contents(at, line)));
        lines.filter(|(_, contents)| contents.len() > 1).collect()
    }

    fn contents(&self, at: u32, line: &Line) -> Vec<Content> {
        let mut content = self.content(at);
        let mut contents = vec![content];
        let mut add = |content: Content| {
            // The last place counts, but the oldest stays first.
            if contents[0] != content {
                contents.retain(|other| *other != content);
                contents.push(content);
            }
        };
        let last = line.stores.len();
        for (index, store) in line.stores.iter().map(Some).chain([None]).enumerate() {
            let before = |early: usize| index == last || line.stores[index].0 <= early;
            for (_, piece) in line.early.iter().filter(|(early, _)| before(*early)) {
                let mut hurried = content;
                piece.put(&mut hurried);
                add(hurried);
            }
            if let Some((_, piece)) = store {
                piece.put(&mut content);
                add(content);
            }
        }
        // The newest last, even if it is what was there at first.
        if contents.last() != Some(&content) && contents[0] != content {
            contents.retain(|other| *other != content);
            contents.push(content);
        }
        contents
    }

    /// Whether a crash at this point could leave no image that `other` could not.
    pub(crate) fn same(&self, other: &Medium<'_>) -> bool {
        self.hash == other.hash && self.choices() == other.choices()
    }
}

/// The commit stores of that name, by the event before which they may be durable: the last fence
/// of their operation, or else the operation's begin.
fn hurried(events: &[Event], name: &str) -> HashMap<usize, Vec<(usize, Piece)>> {
    let mut hurried: HashMap<usize, Vec<(usize, Piece)>> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        let Step::Store(piece) = event.step else { continue };
        if piece.name != Some(name) {
            continue;
        }
        let stops = |other: &Event| match other.step {
            Step::Fence { .. } => other.thread == event.thread,
            Step::Operation => true,
            _ => false,
        };
        let from = match events[..index].iter().rposition(stops) {
            Some(at) if matches!(events[at].step, Step::Fence { .. }) => at,
            // Only older stores to its line are overtaken: those of the operation.
            Some(at) => at + 1,
            None => 0,
        };
        hurried.entry(from).or_default().push((index, piece));
    }
    hurried
}
