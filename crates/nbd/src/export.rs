//! What clients see: devices, and snapshots of them.

use tembo_array::{Array, Device, DeviceSnapshot, Error, Isolation};
use tembo_kv as kv;
use tembo_kv::Durability;

use crate::wire::{Errno, can};

/// What stands between the name of a device and that of a snapshot.
const AT: char = '@';

/// Bytes that are zeroed at a time where a client wants no hole.
const ZEROES: usize = 1 << 20;

/// The exports of a pool.
///
/// A device has its own name; `DEVICE@SNAPSHOT` is what it was when the snapshot was named, to be read, also if it was removed
/// since. The empty name is the default device. A clone whose origin the store does not have is none.
#[derive(Clone)]
pub struct Exports {
    array: Array,
    /// The only device that is served; else all are.
    only: Option<String>,
    read_only: bool,
}

impl Exports {
    /// All devices, or one of them, which is also the one of no name.
    pub fn new(array: &Array, only: Option<&str>, read_only: bool) -> Exports {
        let read_only = read_only || array.store().is_read_only();
        Exports { array: array.clone(), only: only.map(str::to_owned), read_only }
    }

    pub(crate) fn array(&self) -> &Array {
        &self.array
    }

    /// The names of all exports: the devices, and those that named snapshots have, also if they were removed since.
    pub(crate) fn names(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for device in self.array.devices()? {
            if self.serves(&device) && self.now(&device)?.is_some() {
                names.push(device);
            }
        }
        // A name with that between could not be asked for.
        let is_free = |name: &String| !kv::is_own_name(name) && !name.contains(AT);
        let snapshots = self.array.store().snapshots().into_iter().map(|(name, _)| name);
        for snapshot in snapshots.filter(is_free) {
            for device in found(self.array.devices_at_name(&snapshot))?.unwrap_or_default() {
                if self.serves(&device) && self.then(&device, &snapshot)?.is_some() {
                    names.push(format!("{device}{AT}{snapshot}"));
                }
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// A device of that name, and what it shows. `None`: there is none that can be read.
    fn now(&self, name: &str) -> Result<Option<(Device, DeviceSnapshot)>, Error> {
        let shown = |device: Device| device.snapshot().map(|snapshot| (device, snapshot));
        found(self.array.device(name).and_then(shown))
    }

    /// A device as it was in a snapshot of that name. `None`: there was none that can be read.
    fn then(&self, device: &str, snapshot: &str) -> Result<Option<DeviceSnapshot>, Error> {
        found(self.array.device_at_name(device, snapshot))
    }

    fn serves(&self, device: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == device)
    }

    /// The export of that name. `None`: there is none.
    pub(crate) fn named(&self, name: &str) -> Result<Option<Export>, Error> {
        let name = match (&self.only, name) {
            (Some(only), "") => only,
            _ => name,
        };
        let of = |shown, then: &DeviceSnapshot| {
            let (len, block_size) = (then.len(), then.block_size());
            Export { array: self.array.clone(), shown, len, block_size }
        };
        if self.serves(name)
            && let Some((device, then)) = self.now(name)?
        {
            return Ok(Some(match self.read_only {
                true => of(Shown::Then(then.clone()), &then),
                false => of(Shown::Now(device), &then),
            }));
        }
        let Some((device, snapshot)) = name.rsplit_once(AT) else { return Ok(None) };
        if !self.serves(device) {
            return Ok(None);
        }
        let then = self.then(device, snapshot)?;
        Ok(then.map(|then| of(Shown::Then(then.clone()), &then)))
    }
}

/// `None`, where an error says that there is none of a name, or that it is a clone that cannot be read.
fn found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(
            Error::NoSuchDevice { .. }
            | Error::DeviceName { .. }
            | Error::OriginLost { .. }
            | Error::Store(kv::Error::NoSuchName { .. } | kv::Error::NoSuchKeyspace { .. }),
        ) => Ok(None),
        Err(error) => Err(error),
    }
}

enum Shown {
    Now(Device),
    Then(DeviceSnapshot),
}

/// What a connection has open. Its length is that at the handshake, as the protocol has it.
pub(crate) struct Export {
    array: Array,
    shown: Shown,
    pub(crate) len: u64,
    pub(crate) block_size: usize,
}

impl From<Error> for Errno {
    fn from(error: Error) -> Errno {
        match error {
            Error::OutOfRange { .. } | Error::LogFull { .. } | Error::Store(kv::Error::Full(_)) => {
                Errno::NO_SPACE
            }
            Error::Store(kv::Error::ReadOnly) => Errno::NOT_PERMITTED,
            _ => Errno::IO,
        }
    }
}

impl Export {
    /// What it can do, as clients see it.
    pub(crate) fn flags(&self) -> u16 {
        let all = can::HAS_FLAGS | can::FLUSH | can::FUA | can::DF | can::MULTI_CONN;
        match self.shown {
            Shown::Now(_) => all | can::TRIM | can::WRITE_ZEROES | can::FAST_ZERO,
            Shown::Then(_) => all | can::READ_ONLY,
        }
    }

    /// One version of it.
    fn snapshot(&self) -> Result<DeviceSnapshot, Errno> {
        match &self.shown {
            Shown::Now(device) => Ok(device.snapshot()?),
            Shown::Then(snapshot) => Ok(snapshot.clone()),
        }
    }

    fn device(&self) -> Result<&Device, Errno> {
        match &self.shown {
            Shown::Now(device) => Ok(device),
            Shown::Then(_) => Err(Errno::NOT_PERMITTED),
        }
    }

    /// Whether a range lies in it.
    pub(crate) fn has(&self, offset: u64, len: u32) -> bool {
        offset.checked_add(len.into()).is_some_and(|end| end <= self.len)
    }

    /// Reads one version. What was cut off since the handshake is zero.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Errno> {
        let len = self.snapshot()?.read_at(offset, to)?;
        to[len..].fill(0);
        Ok(())
    }

    /// Writes in one commit. Visible when it returns, durable at the next sync.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.array.write(self.device()?, offset, bytes, Durability::Buffered)?;
        Ok(())
    }

    /// Makes a range zero in one commit: it takes no space then, or, if it `fills`, as much as any other. Visible when it
    /// returns, durable at the next sync.
    pub(crate) fn zero(&self, offset: u64, len: u32, fills: bool) -> Result<(), Errno> {
        let device = self.device()?;
        let mut tx = self.array.transaction(Isolation::None)?;
        if fills {
            let zeroes = vec![0; ZEROES.min(len as usize)];
            let (mut at, end) = (offset, offset + u64::from(len));
            while at < end {
                let part = usize::try_from(end - at).unwrap_or(ZEROES).min(ZEROES);
                tx.write(device, at, &zeroes[..part])?;
                at += part as u64;
            }
        } else {
            tx.discard(device, offset, len.into())?;
        }
        tx.commit(Durability::Buffered)?;
        Ok(())
    }

    /// The parts of a range, at most so many: bytes, and whether they are stored.
    pub(crate) fn parts(
        &self,
        offset: u64,
        len: u32,
        most: usize,
    ) -> Result<Vec<(u32, bool)>, Errno> {
        let (end, mut at) = (offset + u64::from(len), offset);
        let mut parts: Vec<(u32, bool)> = Vec::new();
        let mut add = |to: u64, is_stored: bool| {
            if to > at {
                parts.push(((to - at) as u32, is_stored));
                at = to;
            }
        };
        for stored in self.snapshot()?.stored_in(offset..end)? {
            add(stored.start.clamp(offset, end), false);
            add(stored.end.clamp(offset, end), true);
        }
        add(end, false);
        parts.truncate(most);
        Ok(parts)
    }
}
