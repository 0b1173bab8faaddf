//! The images that a crash can leave, in the `flush` model: of each line any prefix of its stores
//! since it was last guaranteed (flushed, and then fenced), lines independent, words whole.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::random::Random;
use crate::recorder::Event;

const LINE: usize = 64;

pub(crate) type Content = [u8; LINE];

/// One step of the source, taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The flush or fence of that name does nothing; the commit store of that name is not done.
    Without(&'static str),
    /// The commit store of that name may be durable before older stores to its line.
    Early(&'static str),
}

#[derive(Clone, Default)]
struct Line {
    stores: Vec<(u64, u64, bool)>,
    /// How many of the stores were flushed.
    flushed: usize,
}

/// What is guaranteed, and what may be on the medium too.
#[derive(Clone)]
pub(crate) struct Cache {
    durable: Vec<u8>,
    hash: u64,
    lines: BTreeMap<u64, Line>,
    broken: Option<Broken>,
}

fn hash_of(line: u64, content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (line, content).hash(&mut hasher);
    hasher.finish()
}

fn put(content: &mut [u8], offset: u64, value: u64) {
    let at = offset as usize % LINE;
    content[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

impl Cache {
    pub(crate) fn new(image: &[u8], broken: Option<Broken>) -> Cache {
        let lines = image.chunks(LINE).enumerate();
        let hash = lines.fold(0, |hash, (line, content)| hash ^ hash_of(line as u64, content));
        Cache { durable: image.to_vec(), hash, lines: BTreeMap::new(), broken }
    }

    fn durable(&self, line: u64) -> Content {
        self.durable[line as usize * LINE..][..LINE].try_into().unwrap()
    }

    pub(crate) fn step(&mut self, event: &Event) {
        if event.name().is_some_and(|name| self.broken == Some(Broken::Without(name))) {
            return;
        }
        match *event {
            Event::Store { offset, value, name } => {
                let early = name.is_some_and(|name| self.broken == Some(Broken::Early(name)));
                let line = self.lines.entry(offset / LINE as u64).or_default();
                line.stores.push((offset, value, early));
            }
            Event::Flush { first, last, .. } => {
                for (_, line) in self.lines.range_mut(first..=last) {
                    line.flushed = line.stores.len();
                }
            }
            Event::Fence { .. } => {
                for (&at, line) in self.lines.iter_mut().filter(|(_, line)| line.flushed > 0) {
                    let content = &mut self.durable[at as usize * LINE..][..LINE];
                    self.hash ^= hash_of(at, content);
                    for (offset, value, _) in line.stores.drain(..line.flushed) {
                        put(content, offset, value);
                    }
                    self.hash ^= hash_of(at, content);
                    line.flushed = 0;
                }
                self.lines.retain(|_, line| !line.stores.is_empty());
            }
        }
    }

    /// Each line of which several contents may be found: the oldest first, the latest last.
    pub(crate) fn choices(&self) -> BTreeMap<u64, Vec<Content>> {
        let mut choices = BTreeMap::new();
        for (&at, line) in &self.lines {
            let mut contents = vec![self.durable(at)];
            let mut add = |content: Content| {
                contents.retain(|other| *other != content);
                contents.push(content);
            };
            let mut content = self.durable(at);
            for (index, &(offset, value, _)) in line.stores.iter().enumerate() {
                for &(early, value, _) in line.stores[index..].iter().filter(|store| store.2) {
                    let mut hurried = content;
                    put(&mut hurried, early, value);
                    add(hurried);
                }
                put(&mut content, offset, value);
                add(content);
            }
            let oldest = contents.iter().position(|other| *other == self.durable(at));
            contents.swap(0, oldest.unwrap_or(0));
            if contents.len() > 1 {
                choices.insert(at, contents);
            }
        }
        choices
    }

    /// The images of a crash here. `legal`: the choices of the unbroken run, to look first at what
    /// it does not have.
    pub(crate) fn images(&self, legal: Option<&Cache>, most: usize, seed: u64) -> Vec<Image> {
        let choices: Vec<(u64, Vec<Content>)> = self.choices().into_iter().collect();
        let legal = legal.map(|cache| (cache.choices(), cache));
        let is_new = |line: u64, content: &Content| {
            legal.as_ref().is_some_and(|(legal, cache)| match legal.get(&line) {
                Some(contents) => !contents.contains(content),
                None => cache.durable(line) != *content,
            })
        };
        let mut picks = Picks { choices: &choices, list: Vec::new() };
        let all = choices.iter().fold(1usize, |all, (_, c)| all.saturating_mul(c.len()));
        if legal.is_none() && all <= most {
            (0..all).for_each(|number| picks.number(number));
        } else {
            picks.corners(&is_new, most);
            if all <= most {
                (0..all).for_each(|number| picks.number(number));
            } else {
                let mut random = Random(seed | 1);
                let missing = most.saturating_sub(picks.list.len());
                for _ in 0..missing {
                    let pick = choices.iter().map(|(_, c)| random.below(c.len()));
                    picks.list.push(pick.collect());
                }
            }
        }
        let list = std::mem::take(&mut picks.list);
        list.into_iter().map(|pick| self.image(&choices, &pick)).collect()
    }

    fn image(&self, choices: &[(u64, Vec<Content>)], pick: &[usize]) -> Image {
        let mut image = Image { hash: self.hash, lines: Vec::new() };
        for ((line, contents), &which) in choices.iter().zip(pick) {
            if which > 0 {
                image.hash ^= hash_of(*line, &contents[0]) ^ hash_of(*line, &contents[which]);
                image.lines.push((*line, contents[which]));
            }
        }
        image
    }

    /// All that was stored.
    pub(crate) fn newest(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for &(offset, value, _) in self.lines.values().flat_map(|line| &line.stores) {
            bytes[offset as usize..][..8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// The bytes of an image of this cache.
    pub(crate) fn bytes(&self, image: &Image) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for (line, content) in &image.lines {
            bytes[*line as usize * LINE..][..LINE].copy_from_slice(content);
        }
        bytes
    }

    /// True if a crash now could leave no image that `other` could not.
    pub(crate) fn same(&self, other: &Cache) -> bool {
        self.hash == other.hash && self.choices() == other.choices()
    }
}

/// One image: lines that differ from what is guaranteed.
pub(crate) struct Image {
    pub(crate) hash: u64,
    lines: Vec<(u64, Content)>,
}

struct Picks<'c> {
    choices: &'c [(u64, Vec<Content>)],
    list: Vec<Vec<usize>>,
}

impl Picks<'_> {
    fn number(&mut self, mut number: usize) {
        let pick = self.choices.iter().map(|(_, contents)| {
            let which = number % contents.len();
            number /= contents.len();
            which
        });
        self.list.push(pick.collect());
    }

    /// Of each line the first content that is not legal, or the last; and, unless only that is
    /// wanted (`most` is 0), all new, all old, and each content of each line
    /// among lines all new or all old; first the contents that are not legal.
    fn corners(&mut self, is_new: &dyn Fn(u64, &Content) -> bool, most: usize) {
        let newest: Vec<usize> = self.choices.iter().map(|(_, c)| c.len() - 1).collect();
        let oldest = vec![0; self.choices.len()];
        let (mut first, mut last) = (newest.clone(), newest.clone());
        for (at, (line, contents)) in self.choices.iter().enumerate() {
            let mut broken = (0..contents.len()).filter(|&i| is_new(*line, &contents[i]));
            if let Some(which) = broken.next() {
                (first[at], last[at]) = (which, broken.next_back().unwrap_or(which));
            }
        }
        self.list.extend([first, last]);
        if most == 0 {
            return;
        }
        for wanted in [true, false] {
            for (at, (line, contents)) in self.choices.iter().enumerate() {
                for (which, content) in contents.iter().enumerate() {
                    if is_new(*line, content) == wanted {
                        for others in [&newest, &oldest] {
                            let mut pick = others.clone();
                            pick[at] = which;
                            self.list.push(pick);
                        }
                    }
                }
            }
        }
        self.list.push(newest);
        self.list.push(oldest);
    }
}
