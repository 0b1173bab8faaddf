//! What the keys of a thread hold.

use tembo_sim::Random;

/// Bytes of the shortest value: the number of its key, and a serial number.
const HEAD: usize = 16;

/// What a key holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Zero: the key is not there.
    serial: u64,
    len: u32,
}

/// Keys by number.
pub(super) struct Keys {
    thread: u64,
    held: Vec<Held>,
    serial: u64,
}

impl Keys {
    pub(super) fn new(thread: u64, count: u64) -> Keys {
        Keys { thread, held: vec![Held::default(); count as usize], serial: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.held.len()
    }

    pub(super) fn key(&self, number: usize) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.thread.to_be_bytes());
        key[8..].copy_from_slice(&(number as u64).to_be_bytes());
        key
    }

    /// Whether it is a key of this thread.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        key.starts_with(&self.thread.to_be_bytes())
    }

    /// The number of a key of this thread.
    pub(super) fn number(key: &[u8]) -> Option<usize> {
        let bytes = key.get(8..16)?.try_into().ok()?;
        Some(u64::from_be_bytes(bytes) as usize)
    }

    /// A value for a key, of some length: mostly of some hundred bytes, seldom of many.
    pub(super) fn value(&mut self, number: usize, random: &mut Random) -> (Held, Vec<u8>) {
        let most = match random.below(2000) {
            0 => 1 << 20,
            1..20 => 60_000,
            20..300 => 8000,
            300..1000 => 1500,
            _ => 300,
        };
        self.serial += 1;
        let held = Held { serial: self.serial, len: (HEAD + random.below(most)) as u32 };
        let mut value = vec![self.serial as u8; held.len as usize];
        value[..8].copy_from_slice(&(number as u64).to_le_bytes());
        value[8..HEAD].copy_from_slice(&self.serial.to_le_bytes());
        (held, value)
    }

    pub(super) fn put(&mut self, number: usize, held: Held) {
        self.held[number] = held;
    }

    pub(super) fn remove(&mut self, number: usize) {
        self.held[number] = Held::default();
    }

    /// Bytes of a key and what it holds.
    pub(super) fn bytes(&self, number: usize) -> u64 {
        let held = self.held[number];
        if held.serial == 0 { 0 } else { HEAD as u64 + u64::from(held.len) }
    }

    pub(super) fn is_there(&self, number: usize) -> bool {
        self.held[number].serial != 0
    }

    /// Whether that is what the key holds.
    pub(super) fn is_right(&self, number: usize, value: Option<&[u8]>) -> bool {
        let held = self.held[number];
        match value {
            None => held.serial == 0,
            Some(value) => {
                let (serial, rest) = (held.serial.to_le_bytes(), value.get(HEAD..));
                value.len() == held.len as usize
                    && value.starts_with(&(number as u64).to_le_bytes())
                    && value.get(8..HEAD) == Some(&serial[..])
                    && rest.is_some_and(|rest| rest.iter().all(|byte| *byte == serial[0]))
            }
        }
    }
}
