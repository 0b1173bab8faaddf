//! What a client asks of the owner of a pool, in bytes: `docs/formats/sqlite-owner.md`.

use std::ops::Range;

use crate::view::View;

/// What a connection begins with.
const MAGIC: &[u8; 8] = b"TEMBOSQL";

/// The number of this protocol. Another one is refused.
const PROTOCOL: u32 = 2;

/// The most bytes that a read asks for.
pub(crate) const READ_MAX: usize = 128 << 10;

/// Bytes of writes after which they are sent.
pub(crate) const BATCH_SIZE: usize = 64 << 10;

/// The most bytes of one write: the largest page.
pub(crate) const WRITE_MAX: usize = 64 << 10;

/// The most bytes of the head of a database that come with a lock: what SQLite looks at each time, and a page if something has changed.
pub(crate) const HEAD_SIZE: usize = 100;
pub(crate) const HEAD_CHANGED_SIZE: usize = 4096;

/// A request; each has one reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request<'b> {
    /// The first one: which database. The reply is the number of the session.
    Open { device: &'b str, creates: bool, view: View },
    /// Takes a lock of SQLite's; how many commits the client knows of, by the last lock. The reply is a [`Locked`].
    Lock { level: i32, known: u64 },
    /// Gives up locks. The reply is empty.
    Unlock(i32),
    /// The reply is bytes: fewer at the end of the database.
    Read { offset: u64, len: u32 },
    /// [`writes`] of the transaction, in order. The reply is empty.
    Write(&'b [u8]),
    /// Sets the length. The reply is empty.
    Truncate(u64),
    /// The reply is the length.
    Len,
    /// Commits the transaction. The reply is empty.
    Commit { is_synced: bool },
    /// Commits the transactions of these sessions of the process together. The reply is empty.
    CommitAll { is_synced: bool, sessions: &'b [u8] },
    /// The reply is one byte: whether a connection writes.
    HasWriter,
    /// The reply is a text.
    Pragma { name: &'b str, value: Option<&'b str> },
}

/// What comes with a lock: what SQLite reads next.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Locked {
    /// How many commits of the database the snapshot has.
    pub(crate) commits: u64,
    /// What may have changed since as many as the client has said; `None`: anything.
    pub(crate) changed: Option<Vec<Range<u64>>>,
    /// The length of the database.
    pub(crate) len: u64,
    /// Its first bytes.
    pub(crate) head: Vec<u8>,
}

/// The bytes are no request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

const OPEN: u8 = 1;
const LOCK: u8 = 2;
const UNLOCK: u8 = 3;
const READ: u8 = 4;
const WRITE: u8 = 5;
const TRUNCATE: u8 = 6;
const LEN: u8 = 7;
const COMMIT: u8 = 8;
const COMMIT_ALL: u8 = 9;
const HAS_WRITER: u8 = 10;
const PRAGMA: u8 = 11;

/// In the place of a number of ranges.
const ANYTHING: u32 = u32::MAX;

/// Fields, taken one after the other.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn bytes(&mut self, len: usize) -> Result<&'b [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed)
    }

    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn range(&mut self) -> Result<Range<u64>, Malformed> {
        let range = self.u64()?..self.u64()?;
        if range.start <= range.end { Ok(range) } else { Err(Malformed) }
    }

    fn level(&mut self) -> Result<i32, Malformed> {
        Ok(self.u8()?.into())
    }

    fn text(&mut self) -> Result<&'b str, Malformed> {
        let len = self.u32()? as usize;
        std::str::from_utf8(self.bytes(len)?).map_err(|_| Malformed)
    }

    fn view(&mut self) -> Result<View, Malformed> {
        match self.u8()? {
            0 => Ok(View::Current),
            1 => Ok(View::Named(self.text()?.to_owned())),
            2 => Ok(View::At(self.u64()?)),
            _ => Err(Malformed),
        }
    }

    fn rest(&mut self) -> &'b [u8] {
        std::mem::take(&mut self.0)
    }
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u32).to_le_bytes());
    to.extend(text.as_bytes());
}

impl<'b> Request<'b> {
    /// Appends it to a frame.
    pub(crate) fn put(&self, to: &mut Vec<u8>) {
        match self {
            Request::Open { device, creates, view } => {
                to.push(OPEN);
                to.extend(MAGIC);
                to.extend(PROTOCOL.to_le_bytes());
                to.push(u8::from(*creates));
                put_text(to, device);
                match view {
                    View::Current => to.push(0),
                    View::Named(name) => {
                        to.push(1);
                        put_text(to, name);
                    }
                    View::At(version) => {
                        to.push(2);
                        to.extend(version.to_le_bytes());
                    }
                }
            }
            Request::Lock { level, known } => {
                to.extend([LOCK, *level as u8]);
                to.extend(known.to_le_bytes());
            }
            Request::Unlock(level) => to.extend([UNLOCK, *level as u8]),
            Request::Read { offset, len } => {
                to.push(READ);
                to.extend(offset.to_le_bytes());
                to.extend(len.to_le_bytes());
            }
            Request::Write(writes) => {
                to.push(WRITE);
                to.extend(*writes);
            }
            Request::Truncate(len) => {
                to.push(TRUNCATE);
                to.extend(len.to_le_bytes());
            }
            Request::Len => to.push(LEN),
            Request::Commit { is_synced } => to.extend([COMMIT, u8::from(*is_synced)]),
            Request::CommitAll { is_synced, sessions } => {
                to.extend([COMMIT_ALL, u8::from(*is_synced)]);
                to.extend(*sessions);
            }
            Request::HasWriter => to.push(HAS_WRITER),
            Request::Pragma { name, value } => {
                to.push(PRAGMA);
                put_text(to, name);
                to.push(u8::from(value.is_some()));
                put_text(to, value.unwrap_or_default());
            }
        }
    }

    /// The request that is the whole of `bytes`.
    pub(crate) fn of(bytes: &'b [u8]) -> Result<Request<'b>, Malformed> {
        let mut fields = Fields(bytes);
        let request = match fields.u8()? {
            OPEN => {
                if fields.array::<8>()? != *MAGIC || fields.u32()? != PROTOCOL {
                    return Err(Malformed);
                }
                let creates = fields.flag()?;
                Request::Open { creates, device: fields.text()?, view: fields.view()? }
            }
            LOCK => Request::Lock { level: fields.level()?, known: fields.u64()? },
            UNLOCK => Request::Unlock(fields.level()?),
            READ => Request::Read { offset: fields.u64()?, len: fields.u32()? },
            WRITE => Request::Write(fields.rest()),
            TRUNCATE => Request::Truncate(fields.u64()?),
            LEN => Request::Len,
            COMMIT => Request::Commit { is_synced: fields.flag()? },
            COMMIT_ALL => Request::CommitAll { is_synced: fields.flag()?, sessions: fields.rest() },
            HAS_WRITER => Request::HasWriter,
            PRAGMA => {
                let (name, has_value, value) = (fields.text()?, fields.flag()?, fields.text()?);
                Request::Pragma { name, value: has_value.then_some(value) }
            }
            _ => return Err(Malformed),
        };
        if fields.0.is_empty() { Ok(request) } else { Err(Malformed) }
    }
}

/// Appends a write to a batch.
pub(crate) fn put_write(batch: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    batch.extend(offset.to_le_bytes());
    batch.extend((bytes.len() as u32).to_le_bytes());
    batch.extend(bytes);
}

/// The writes of a batch: offset and bytes of each.
pub(crate) fn writes(batch: &[u8]) -> impl Iterator<Item = Result<(u64, &[u8]), Malformed>> {
    let mut fields = Fields(batch);
    std::iter::from_fn(move || {
        if fields.0.is_empty() {
            return None;
        }
        let mut write = || {
            let (offset, len) = (fields.u64()?, fields.u32()? as usize);
            Ok((offset, fields.bytes(len)?))
        };
        let write = write();
        if write.is_err() {
            fields.rest();
        }
        Some(write)
    })
}

/// The numbers of the sessions of a [`Request::CommitAll`].
pub(crate) fn numbers(bytes: &[u8]) -> Result<Vec<u64>, Malformed> {
    let mut fields = Fields(bytes);
    let mut numbers = Vec::new();
    while !fields.0.is_empty() {
        numbers.push(fields.u64()?);
    }
    Ok(numbers)
}

/// A number that is the whole of a reply.
pub(crate) fn number(bytes: &[u8]) -> Result<u64, Malformed> {
    bytes.try_into().map(u64::from_le_bytes).map_err(|_| Malformed)
}

impl Locked {
    pub(crate) fn put(&self, to: &mut Vec<u8>) {
        to.extend(self.commits.to_le_bytes());
        let count = self.changed.as_ref().map_or(ANYTHING, |ranges| ranges.len() as u32);
        to.extend(count.to_le_bytes());
        for range in self.changed.iter().flatten() {
            to.extend(range.start.to_le_bytes());
            to.extend(range.end.to_le_bytes());
        }
        to.extend(self.len.to_le_bytes());
        to.extend(&self.head);
    }

    pub(crate) fn of(bytes: &[u8]) -> Result<Locked, Malformed> {
        let mut fields = Fields(bytes);
        let commits = fields.u64()?;
        let changed = match fields.u32()? {
            ANYTHING => None,
            count => Some((0..count).map(|_| fields.range()).collect::<Result<_, _>>()?),
        };
        Ok(Locked { commits, changed, len: fields.u64()?, head: fields.rest().to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Request<'static>> {
        let (device, creates) = ("orders", true);
        vec![
            Request::Open { device, creates, view: View::Current },
            Request::Open { device, creates: false, view: View::Named("monday".into()) },
            Request::Open { device: "", creates, view: View::At(1 << 40) },
            Request::Lock { level: 2, known: 7 },
            Request::Unlock(0),
            Request::Read { offset: 1 << 33, len: 4096 },
            Request::Write(b"0123"),
            Request::Truncate(4096),
            Request::Len,
            Request::Commit { is_synced: true },
            Request::CommitAll { is_synced: false, sessions: &[1; 16] },
            Request::HasWriter,
            Request::Pragma { name: "tembo_snapshot", value: Some("a") },
            Request::Pragma { name: "tembo_version", value: None },
        ]
    }

    #[test]
    fn requests_are_read_as_they_were_put() {
        for request in all() {
            let mut bytes = Vec::new();
            request.put(&mut bytes);
            assert_eq!(Request::of(&bytes), Ok(request));
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for request in all() {
            let mut bytes = Vec::new();
            request.put(&mut bytes);
            let takes_the_rest = matches!(request, Request::Write(_) | Request::CommitAll { .. });
            for len in 0..bytes.len() {
                assert!(takes_the_rest || Request::of(&bytes[..len]) == Err(Malformed));
            }
            bytes.push(0);
            assert!(takes_the_rest || Request::of(&bytes) == Err(Malformed));
        }
        assert_eq!(Request::of(&[77]), Err(Malformed));
        assert_eq!(numbers(&[0; 9]), Err(Malformed));
    }

    #[test]
    fn what_comes_with_a_lock_is_read_as_it_was_put() {
        for changed in [None, Some(vec![]), Some(vec![0..4096, 8192..u64::MAX])] {
            let locked = Locked { commits: 3, changed, len: 1 << 40, head: vec![1; 100] };
            let mut bytes = Vec::new();
            locked.put(&mut bytes);
            assert_eq!(Locked::of(&bytes), Ok(locked));
            assert_eq!(Locked::of(&bytes[..bytes.len() - 101]), Err(Malformed));
        }
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_refused() {
        let range = Range { start: 8, end: 4 };
        let locked = Locked { changed: Some(vec![range]), ..Locked::default() };
        let mut bytes = Vec::new();
        locked.put(&mut bytes);
        assert_eq!(Locked::of(&bytes), Err(Malformed));
    }

    #[test]
    fn a_batch_holds_its_writes_in_order() {
        let mut batch = Vec::new();
        put_write(&mut batch, 4096, b"first");
        put_write(&mut batch, 0, b"");
        let found: Vec<_> = writes(&batch).collect();
        assert_eq!(found, [Ok((4096, &b"first"[..])), Ok((0, &b""[..]))]);
        batch.pop();
        assert_eq!(writes(&batch).last(), Some(Err(Malformed)));
    }
}
