//! What the threads are to do.

use tembo_sim::Random;

/// A call of one thread. Keys are numbers. Of a value the length is given; its bytes differ from those of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Puts a key, by itself.
    Put(u8, usize),
    /// Removes a key, by itself.
    Remove(u8),
    /// Puts keys that commit together.
    Group(Vec<(u8, usize)>),
    /// As `Group`, and takes all of it back: none commits. Only of a store.
    Abort(Vec<(u8, usize)>),
    /// Reads a key, and puts others, in a serialisable transaction of a store, beside others that do.
    Transact(u8, Vec<(u8, usize)>),
    /// Reads a key.
    Get(u8),
    /// Reads a key, another, and the first again, in one snapshot of a store.
    View(u8, u8),
    /// Takes a step of the background of a store.
    Step,
}

/// What threads may do at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// All threads change, each call by itself, and read the newest. The tree was just opened: its
    /// inner nodes are made by the first thread that needs them.
    Opening,
    /// The same, after recovery.
    Writers,
    /// One changes at a time, also in groups, and publishes which version is visible.
    Groups(Sight),
    /// The key-value store: changes by themselves, transactions, reads of a key.
    Store,
}

/// What a reader reads, where there is a visible version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// What is visible: all of it fenced.
    Visible,
    /// Whatever is there: wrong, for what is not fenced can be gone after a crash.
    Newest,
}

/// A cast, and per thread its calls.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What threads may do at the same time.
    pub cast: Cast,
    /// Keys that are there before, from 0 on, two numbers apart.
    pub keys: u8,
    /// By thread.
    pub threads: Vec<Vec<Call>>,
}

const LENGTHS: [usize; 5] = [8, 8, 8, 5, 40];

impl Plan {
    /// Two or three threads, nine calls at most: on few keys, or on those of one leaf that is nearly full.
    pub fn random(cast: Cast, seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let threads = 2 + random.below(2);
        let keys = [1, 4, 6, 11][random.below(4)];
        let range = if random.below(2) == 0 { 3 } else { 2 * usize::from(keys) + 2 };
        let calls = |random: &mut Random| -> Vec<Call> {
            let count = 2 + random.below(if threads == 2 { 3 } else { 2 });
            (0..count).map(|_| Plan::call(cast, range, random)).collect()
        };
        let threads = (0..threads).map(|_| calls(&mut random)).collect();
        Plan { cast, keys, threads }
    }

    fn call(cast: Cast, range: usize, random: &mut Random) -> Call {
        let key = random.below(range) as u8;
        let len = LENGTHS[random.below(LENGTHS.len())];
        match (random.below(8), cast) {
            (0, _) => Call::Remove(key),
            (1, Cast::Store) => Call::View(key, random.below(range) as u8),
            (1..3, _) => Call::Get(key),
            (which @ 3..6, Cast::Groups(_) | Cast::Store) => {
                let other = random.below(range) as u8;
                let more = (other != key).then_some((other, len));
                let writes = [(key, len)].into_iter().chain(more).collect();
                match (which, cast) {
                    (3..5, Cast::Store) => Call::Transact(random.below(range) as u8, writes),
                    _ => Call::Group(writes),
                }
            }
            _ => Call::Put(key, len),
        }
    }
}
