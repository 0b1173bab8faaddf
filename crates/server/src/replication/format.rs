//! What replication lays out: frames on a connection, and the record of where a store stands.
//! `docs/formats/replication.md` has the diagrams.

/// The keyspace of a store's own record. It is no part of what is replicated.
pub(crate) const KEYSPACE: &str = "replication";
/// The key of the record.
pub(crate) const PLACE_KEY: &[u8] = b"place";
/// The key of the names of its histories.
pub(crate) const HISTORIES_KEY: &[u8] = b"histories";
/// Bytes of a frame before its entries.
pub(crate) const HEADER_SIZE: usize = 13;
/// Bytes of an entry before its texts.
const ENTRY_HEADER_SIZE: usize = 11;
/// Version of the record's layout.
const PLACE_LAYOUT: u8 = 1;
/// Version of the layout of the names of histories.
const HISTORIES_LAYOUT: u8 = 1;

/// What the entries of a frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Some of what belongs together: more follows.
    Part,
    /// With them, everything up to the version of the frame was given.
    Whole,
    /// As `Whole`; but at that version the sender itself has not all that its own primary had.
    Incomplete,
}

/// Bytes that are no frame, entry or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What an entry does to a key or a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// The keyspace was made.
    Create,
    /// Every key of the keyspace was removed.
    Clear,
    /// The key has the value.
    Put,
    /// The key was removed.
    Remove,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) action: Action,
    pub(crate) keyspace: &'a str,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: FrameKind,
    /// Bytes of the entries.
    pub(crate) size: u32,
    /// The sender's version.
    pub(crate) version: u64,
}

impl FrameHeader {
    pub(crate) fn encode(self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[0] = match self.kind {
            FrameKind::Part => 1,
            FrameKind::Whole => 2,
            FrameKind::Incomplete => 3,
        };
        bytes[1..5].copy_from_slice(&self.size.to_le_bytes());
        bytes[5..].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: [u8; HEADER_SIZE]) -> Result<FrameHeader, Malformed> {
        let kind = match bytes[0] {
            1 => FrameKind::Part,
            2 => FrameKind::Whole,
            3 => FrameKind::Incomplete,
            _ => return Err(Malformed),
        };
        let mut rest = &bytes[1..];
        let size = u32::from_le_bytes(array(&mut rest)?);
        Ok(FrameHeader { kind, size, version: u64::from_le_bytes(array(&mut rest)?) })
    }
}

impl Entry<'_> {
    /// What it takes in a frame, in bytes.
    pub(crate) fn size(&self) -> usize {
        ENTRY_HEADER_SIZE + self.keyspace.len() + self.key.len() + self.value.len()
    }

    /// Appends it to the entries of a frame.
    pub(crate) fn push(&self, entries: &mut Vec<u8>) {
        entries.push(match self.action {
            Action::Create => 1,
            Action::Clear => 2,
            Action::Put => 3,
            Action::Remove => 4,
        });
        entries.extend_from_slice(&(self.keyspace.len() as u16).to_le_bytes());
        entries.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        entries.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        entries.extend_from_slice(self.keyspace.as_bytes());
        entries.extend_from_slice(self.key);
        entries.extend_from_slice(self.value);
    }
}

/// The entries of a frame, one after the other.
pub(crate) struct Entries<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Malformed>;

    fn next(&mut self) -> Option<Result<Entry<'a>, Malformed>> {
        if self.0.is_empty() {
            return None;
        }
        let entry = entry(&mut self.0);
        if entry.is_err() {
            self.0 = &[];
        }
        Some(entry)
    }
}

fn entry<'a>(bytes: &mut &'a [u8]) -> Result<Entry<'a>, Malformed> {
    let [action] = array(bytes)?;
    let action = match action {
        1 => Action::Create,
        2 => Action::Clear,
        3 => Action::Put,
        4 => Action::Remove,
        _ => return Err(Malformed),
    };
    let name_size = u16::from_le_bytes(array(bytes)?) as usize;
    let key_size = u32::from_le_bytes(array(bytes)?) as usize;
    let value_size = u32::from_le_bytes(array(bytes)?) as usize;
    let keyspace = std::str::from_utf8(take(bytes, name_size)?).map_err(|_| Malformed)?;
    Ok(Entry { action, keyspace, key: take(bytes, key_size)?, value: take(bytes, value_size)? })
}

fn take<'a>(bytes: &mut &'a [u8], size: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = bytes.split_at_checked(size).ok_or(Malformed)?;
    *bytes = rest;
    Ok(taken)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Malformed> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or(Malformed)?;
    *bytes = rest;
    Ok(*taken)
}

/// What a store holds, beside what its clients have written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing of another store.
    #[default]
    Own,
    /// What another store was at a version.
    Whole,
    /// Some of what another store was: a synchronisation is under way.
    Incomplete,
}

/// Bytes of the name of a host: none that is longer can be found.
pub(crate) const HOST_SIZE_MAX: usize = 255;

/// Where a store stands: what it is to follow, and which version of which history it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Host and port of the primary; `None`: it is a primary itself.
    pub(crate) primary: Option<(String, u16)>,
    /// What the operator asked for when the server was last started.
    pub(crate) asked: String,
    pub(crate) content: Content,
    /// The history of which it holds a version: that of the primary, also after a promotion.
    pub(crate) source: String,
    pub(crate) version: u64,
}

impl Place {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let content = match self.content {
            Content::Own => 0,
            Content::Whole => 1,
            Content::Incomplete => 2,
        };
        let (host, port) = match &self.primary {
            Some((host, port)) => (&**host, *port),
            None => ("", 0),
        };
        let mut bytes = vec![PLACE_LAYOUT, u8::from(self.primary.is_some()), content];
        bytes.extend_from_slice(&port.to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        for text in [host, &self.asked, &self.source] {
            bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Place, Malformed> {
        let bytes = &mut bytes;
        let [layout, is_replica, content] = array(bytes)?;
        let content = match (layout, content) {
            (PLACE_LAYOUT, 0) => Content::Own,
            (PLACE_LAYOUT, 1) => Content::Whole,
            (PLACE_LAYOUT, 2) => Content::Incomplete,
            _ => return Err(Malformed),
        };
        let port = u16::from_le_bytes(array(bytes)?);
        let version = u64::from_le_bytes(array(bytes)?);
        let (host, asked, source) = (text(bytes)?, text(bytes)?, text(bytes)?);
        let primary = (is_replica == 1).then_some((host, port));
        Ok(Place { primary, asked, content, source, version })
    }
}

/// The versions of a store in one run of a server, as replicas know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) id: String,
    /// The opening of the store: its identity and the generation of its pool, added.
    pub(crate) opening: u128,
    /// The visible version when the name was noted.
    pub(crate) first: u64,
    /// The name stands for versions up to this one.
    pub(crate) last: u64,
}

impl History {
    pub(crate) fn encode_all(histories: &[History]) -> Vec<u8> {
        let mut bytes = vec![HISTORIES_LAYOUT];
        for History { id, opening, first, last } in histories {
            bytes.extend_from_slice(&opening.to_le_bytes());
            bytes.extend_from_slice(&first.to_le_bytes());
            bytes.extend_from_slice(&last.to_le_bytes());
            bytes.extend_from_slice(&(id.len() as u16).to_le_bytes());
            bytes.extend_from_slice(id.as_bytes());
        }
        bytes
    }

    pub(crate) fn decode_all(mut bytes: &[u8]) -> Result<Vec<History>, Malformed> {
        let bytes = &mut bytes;
        if array(bytes)? != [HISTORIES_LAYOUT] {
            return Err(Malformed);
        }
        let mut histories = Vec::new();
        while !bytes.is_empty() {
            let opening = u128::from_le_bytes(array(bytes)?);
            let first = u64::from_le_bytes(array(bytes)?);
            let last = u64::from_le_bytes(array(bytes)?);
            histories.push(History { id: text(bytes)?, opening, first, last });
        }
        Ok(histories)
    }
}

/// A text behind its size.
fn text(bytes: &mut &[u8]) -> Result<String, Malformed> {
    let size = u16::from_le_bytes(array(bytes)?) as usize;
    let text = std::str::from_utf8(take(bytes, size)?).map_err(|_| Malformed)?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_no_prefix_of_it_is() {
        let entries = [
            Entry { action: Action::Create, keyspace: "db0", key: b"", value: b"" },
            Entry { action: Action::Put, keyspace: "db0", key: b"k", value: &[7; 300] },
            Entry { action: Action::Remove, keyspace: "", key: b"key", value: b"" },
            Entry { action: Action::Clear, keyspace: "db15.elements", key: b"", value: b"" },
        ];
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.push(&mut bytes));
        assert_eq!(bytes.len(), entries.iter().map(Entry::size).sum::<usize>());
        let decoded: Result<Vec<_>, _> = Entries(&bytes).collect();
        assert_eq!(decoded.unwrap(), entries);
        for end in 1..bytes.len() {
            let whole: usize = entries
                .iter()
                .map(Entry::size)
                .scan(0, |at, size| {
                    *at += size;
                    Some(*at)
                })
                .filter(|at| *at <= end)
                .count();
            let decoded: Vec<_> = Entries(&bytes[..end]).collect();
            assert_eq!(decoded.iter().filter(|entry| entry.is_ok()).count(), whole, "{end}");
        }
        for kind in [FrameKind::Part, FrameKind::Whole, FrameKind::Incomplete] {
            let header = FrameHeader { kind, size: 77, version: u64::MAX - 3 };
            assert_eq!(FrameHeader::decode(header.encode()), Ok(header));
        }
        assert_eq!(FrameHeader::decode([0; HEADER_SIZE]), Err(Malformed));
        let place = Place {
            primary: Some(("host".to_owned(), 6379)),
            asked: "a 1".to_owned(),
            content: Content::Incomplete,
            source: "f".repeat(40),
            version: 12,
        };
        let bytes = place.encode();
        assert_eq!(Place::decode(&bytes), Ok(place));
        assert!((0..bytes.len()).all(|end| Place::decode(&bytes[..end]).is_err()));
        assert_eq!(Place::decode(&Place::default().encode()), Ok(Place::default()));
        let history = |id: &str, first| History {
            id: id.to_owned(),
            opening: 7 << 90,
            first,
            last: u64::MAX,
        };
        let histories = [history("a", 1), history(&"f".repeat(40), 300)];
        let bytes = History::encode_all(&histories);
        assert_eq!(History::decode_all(&bytes), Ok(histories.to_vec()));
        assert_eq!(History::decode_all(&bytes[..36]), Ok(histories[..1].to_vec()));
        assert!((37..bytes.len()).all(|end| History::decode_all(&bytes[..end]).is_err()));
    }
}
