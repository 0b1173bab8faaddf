//! Looks at the images that the crashes of one history can leave.
//!
//! An image is judged by code that is watched by a [`Reader`]. What it has read decides what it
//! does next, so images differ only in lines that are read, in the order of the first
//! reads: a tree, whose branches are the contents that such a line can have. It is walked to its
//! end while it is small; else its corners are looked at, then images chosen by chance. Paths that
//! were walked once, from whichever crash, are remembered with their verdicts.

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::{Event, LINE, Step};
use crate::hash::{ByHash, hash, mix};
use crate::medium::{Broken, Cache, Content, Medium};
use crate::random::Random;
use crate::reader::{Reader, follow};

/// A point at which the power may fail.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// Before which event.
    pub at: usize,
    /// In which operation, counted from 0, or just after it.
    pub operation: usize,
    /// The operation had returned.
    pub after: bool,
}

/// A run that was written down.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What there was before.
    pub image: Vec<u8>,
    /// What happened.
    pub events: Vec<Event>,
    /// Where it may have ended, in order.
    pub crashes: Vec<Crash>,
}

/// Says what an image shows, and whether that is right.
pub trait Oracle {
    /// Opens the image, watched by `reader`, and looks at all of it; a digest of what it shows. May
    /// depend on nothing but what it has read of the image.
    ///
    /// # Errors
    /// What is wrong with it, whatever was done before the crash.
    fn judge(&self, image: &[u8], reader: &Arc<Reader>) -> Result<u64, String>;

    /// Whether what an image shows is right after that crash.
    ///
    /// # Errors
    /// What it should show.
    fn accept(&self, crash: &Crash, shown: u64) -> Result<(), String>;

    /// Called with each image judged right: a hash of what was read of it, and its bytes if it was not
    /// known by what was read. False: this is enough.
    fn judged(&self, read: u64, image: Option<&[u8]>, shown: u64) -> bool;
}

/// How many images of one crash.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// All of them, if they are not more.
    pub all: usize,
    /// Else these corners and ...
    pub corners: usize,
    /// ... so many by chance.
    pub chance: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// The number of the crash.
    pub crash: usize,
    /// The image.
    pub image: Vec<u8>,
    /// What is wrong.
    pub what: String,
}

#[derive(Clone, Copy)]
enum Next {
    Read(u32),
    Shown(u64),
}

/// The images of one history, and what is known of them.
pub struct Explorer<'e, O> {
    history: &'e History,
    cache: Cache,
    oracle: &'e O,
    reader: Arc<Reader>,
    /// What comes after having read what has that hash.
    memory: HashMap<u64, Next, ByHash>,
    /// The lines that differ from image to image, with the hash of what was in them before.
    touched: HashMap<u32, u64>,
    start: u64,
    images: u64,
    ended: bool,
}

/// What a crash can leave in the lines of which that is not certain.
struct Choices {
    lines: Vec<(u32, Vec<Content>)>,
    hashes: Vec<Vec<u64>>,
    /// Contents that only the broken step can leave.
    illegal: Vec<Vec<bool>>,
}

impl<'e, O: Oracle> Explorer<'e, O> {
    /// Nothing was looked at.
    pub fn new(history: &'e History, cache: Cache, oracle: &'e O) -> Explorer<'e, O> {
        let mut size = history.image.len();
        let mut touched = HashMap::new();
        for event in &history.events {
            match event.step {
                Step::Store(piece) => {
                    let line = piece.line();
                    touched.entry(line).or_insert_with(|| hash(&content(&history.image, line)));
                }
                Step::Resize { size: grown } => size = size.max(grown as usize),
                _ => {}
            }
        }
        Explorer {
            history,
            cache,
            oracle,
            reader: Reader::new(size.div_ceil(LINE)),
            memory: HashMap::default(),
            touched,
            start: hash(&history.image),
            images: 0,
            ended: false,
        }
    }

    /// Looks at the images of every crash, with a step broken; how many.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn explore(&mut self, broken: Option<Broken<'_>>, bounds: Bounds) -> Result<u64, Wrong> {
        let history = self.history;
        let medium = |broken| Medium::new(&history.image, &history.events, self.cache, broken);
        let mut medium_broken = medium(broken);
        let mut legal = broken.map(|_| medium(None));
        for (&line, &hash) in &self.touched {
            self.reader.set_content(line, hash);
        }
        (self.images, self.ended) = (0, false);
        let mut changed = Vec::new();
        for (number, crash) in history.crashes.iter().enumerate() {
            changed.clear();
            medium_broken.go(&history.events, crash.at, &mut changed);
            for &line in &changed {
                self.reader.set_content(line, hash(&medium_broken.content(line)));
            }
            if let Some(legal) = &mut legal {
                legal.go(&history.events, crash.at, &mut Vec::new());
                if legal.same(&medium_broken) {
                    continue;
                }
            }
            let choices = Choices::of(&medium_broken, legal.as_ref());
            let looked = self.look(crash, &mut medium_broken, &choices, bounds, broken.is_some());
            if let Err((image, what)) = looked {
                return Err(Wrong { crash: number, image, what });
            }
            for (line, _) in &choices.lines {
                self.reader.set_content(*line, hash(&medium_broken.content(*line)));
            }
            if self.ended {
                break;
            }
        }
        Ok(self.images)
    }

    fn look(
        &mut self,
        crash: &Crash,
        medium: &mut Medium<'_>,
        choices: &Choices,
        bounds: Bounds,
        broken: bool,
    ) -> Result<(), (Vec<u8>, String)> {
        let before = self.images;
        let mut corners = Vec::new();
        if broken {
            corners = choices.corners();
            for pick in corners.drain(..corners.len().min(bounds.corners)) {
                self.judge(crash, medium, choices, &pick)?;
            }
        }
        let mut path: Vec<(usize, usize)> = Vec::new();
        loop {
            let mut pick = choices.newest();
            for &(at, rank) in &path {
                pick[at] = choices.ranked(at, rank);
            }
            let read = self.judge(crash, medium, choices, &pick)?;
            if self.ended {
                return Ok(());
            }
            for line in read {
                if let Ok(at) = choices.lines.binary_search_by_key(&line, |(line, _)| *line)
                    && path.iter().all(|(other, _)| *other != at)
                {
                    path.push((at, 0));
                }
            }
            while let Some((at, rank)) = path.last_mut() {
                *rank += 1;
                if *rank < choices.lines[*at].1.len() {
                    break;
                }
                path.pop();
            }
            if path.is_empty() {
                return Ok(());
            }
            if self.images - before >= bounds.all as u64 {
                break;
            }
        }
        if !broken {
            corners = choices.corners();
            corners.truncate(bounds.corners);
        }
        let mut random = Random::new(bounds.seed ^ (crash.at as u64) << 20);
        let lines = &choices.lines;
        let chance = (0..bounds.chance)
            .map(|_| lines.iter().map(|(_, contents)| random.below(contents.len())).collect());
        for pick in corners.into_iter().chain(chance) {
            self.judge(crash, medium, choices, &pick)?;
            if self.ended {
                break;
            }
        }
        Ok(())
    }

    /// Judges one image; the lines that were read.
    fn judge(
        &mut self,
        crash: &Crash,
        medium: &mut Medium<'_>,
        choices: &Choices,
        pick: &[usize],
    ) -> Result<Vec<u32>, (Vec<u8>, String)> {
        for (at, &which) in pick.iter().enumerate() {
            self.reader.set_content(choices.lines[at].0, choices.hashes[at][which]);
        }
        let mut image = None;
        let (read, shown) = match self.remembered(medium.durable().len()) {
            Ok(known) => known,
            Err(path) => {
                let bytes = choices.image(medium.durable(), pick);
                let judged = self.run(path, &bytes);
                let known = judged.map_err(|what| (bytes.clone(), what))?;
                image = Some(bytes);
                known
            }
        };
        self.images += 1;
        if let Err(what) = self.oracle.accept(crash, shown) {
            let image = image.unwrap_or_else(|| choices.image(medium.durable(), pick));
            return Err((image, what));
        }
        // What differs from the beginning separates images, whatever else was touched.
        let differs = |&&line: &&u32| self.touched.get(&line) != Some(&self.reader.content(line));
        let sum = read.iter().filter(differs).fold(0_u64, |sum, &line| {
            sum.wrapping_add(mix(u64::from(line), self.reader.content(line)))
        });
        let read_hash = mix(self.start ^ medium.durable().len() as u64, sum);
        self.ended = !self.oracle.judged(read_hash, image.as_deref(), shown);
        Ok(read)
    }

    /// What is known of the image: the lines that it reads and what it shows; else how far.
    fn remembered(&self, size: usize) -> Result<(Vec<u32>, u64), u64> {
        let (mut at, mut read) = (size as u64, Vec::new());
        loop {
            match self.memory.get(&at) {
                Some(&Next::Read(line)) => {
                    read.push(line);
                    at = follow(at, line, self.reader.content(line));
                }
                Some(&Next::Shown(shown)) => return Ok((read, shown)),
                None => return Err(at),
            }
        }
    }

    fn run(&mut self, known: u64, image: &[u8]) -> Result<(Vec<u32>, u64), String> {
        self.reader.begin(self.touched.keys().copied());
        let shown = self.oracle.judge(image, &self.reader)?;
        let read = self.reader.lines();
        let mut at = image.len() as u64;
        let mut is_new = at == known;
        for &line in &read {
            if is_new {
                self.memory.insert(at, Next::Read(line));
            }
            at = follow(at, line, self.reader.content(line));
            is_new |= at == known;
        }
        if is_new {
            self.memory.insert(at, Next::Shown(shown));
        } else {
            return Err("what is read depends on more than what was read before".to_owned());
        }
        Ok((read, shown))
    }
}

fn content(image: &[u8], line: u32) -> Content {
    let mut content = [0; LINE];
    if let Some(bytes) = image.get(line as usize * LINE..).and_then(|rest| rest.get(..LINE)) {
        content.copy_from_slice(bytes);
    }
    content
}

impl Choices {
    fn of(medium: &Medium<'_>, legal: Option<&Medium<'_>>) -> Choices {
        let lines = medium.choices();
        let hashes = lines.iter().map(|(_, all)| all.iter().map(|c| hash(c)).collect()).collect();
        let known = legal.map(|legal| {
            let lines: HashMap<u32, Vec<Content>> = legal.choices().into_iter().collect();
            (lines, legal)
        });
        let is_illegal = |line: u32, content: &Content| match &known {
            None => false,
            Some((lines, legal)) => match lines.get(&line) {
                Some(contents) => !contents.contains(content),
                None => legal.content(line) != *content,
            },
        };
        let illegal = lines
            .iter()
            .map(|(line, all)| all.iter().map(|content| is_illegal(*line, content)).collect());
        let illegal = illegal.collect();
        Choices { lines, hashes, illegal }
    }

    fn newest(&self) -> Vec<usize> {
        self.lines.iter().map(|(_, contents)| contents.len() - 1).collect()
    }

    /// The newest content first, then from the oldest on.
    fn ranked(&self, at: usize, rank: usize) -> usize {
        if rank == 0 { self.lines[at].1.len() - 1 } else { rank - 1 }
    }

    fn image(&self, durable: &[u8], pick: &[usize]) -> Vec<u8> {
        let mut image = durable.to_vec();
        for ((line, contents), &which) in self.lines.iter().zip(pick) {
            image[*line as usize * LINE..][..LINE].copy_from_slice(&contents[which]);
        }
        image
    }

    /// All that is illegal, all old, all new; then each content of each line among lines all new or
    /// all old, those that only the broken step can leave first.
    fn corners(&self) -> Vec<Vec<usize>> {
        let (newest, oldest) = (self.newest(), vec![0; self.lines.len()]);
        let mut list = Vec::new();
        let (mut first, mut last) = (newest.clone(), newest.clone());
        for (at, illegal) in self.illegal.iter().enumerate() {
            if let Some(which) = illegal.iter().position(|&illegal| illegal) {
                first[at] = which;
                last[at] = illegal.iter().rposition(|&illegal| illegal).unwrap_or(which);
            }
        }
        if first != newest || last != newest {
            list.extend([first, last]);
        }
        list.extend([newest.clone(), oldest.clone()]);
        for wanted in [true, false] {
            for (at, illegal) in self.illegal.iter().enumerate() {
                for (which, _) in illegal.iter().enumerate().filter(|(_, i)| **i == wanted) {
                    for others in [&newest, &oldest] {
                        let mut pick = others.clone();
                        pick[at] = which;
                        list.push(pick);
                    }
                }
            }
        }
        list
    }
}
