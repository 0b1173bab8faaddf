//! What precedes the data of an item of memcached in the payload of its value, which is a string.

use crate::format::unknown_layout::UnknownLayout;

/// The name of the keyspace that holds the items of memcached.
pub const ITEMS_KEYSPACE: &str = "memcached";
/// The name of the keyspace that holds the pieces of large ones.
pub const ITEM_ELEMENTS_KEYSPACE: &str = "memcached.elements";
/// The name of the keyspace that holds the expiry index of items.
pub const ITEM_EXPIRY_KEYSPACE: &str = "memcached.expiry";

/// Bytes of the payload before an item's data.
pub const ITEM_HEAD_SIZE: usize = 13;

/// Bits of an item's marks.
const STALE: u8 = 1;
const WON: u8 = 2;
const BINARY_KEY: u8 = 4;

/// What precedes an item's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemHead {
    /// The client's flags.
    pub flags: u32,
    /// Another one after each change of the item.
    pub cas: u64,
    /// The item is out of date, and kept until a client has made it anew.
    pub is_stale: bool,
    /// A client was asked to make it anew.
    pub is_won: bool,
    /// Clients give and get its key in base64.
    pub has_binary_key: bool,
}

impl ItemHead {
    /// The bytes.
    pub fn encode(&self) -> [u8; ITEM_HEAD_SIZE] {
        let mut bytes = [0; ITEM_HEAD_SIZE];
        bytes[..4].copy_from_slice(&self.flags.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.cas.to_be_bytes());
        let mark = |holds: bool, bit: u8| if holds { bit } else { 0 };
        bytes[12] = mark(self.is_stale, STALE)
            | mark(self.is_won, WON)
            | mark(self.has_binary_key, BINARY_KEY);
        bytes
    }

    /// Takes the payload of an item apart: what precedes its data, and the data.
    #[inline]
    pub fn split(
        payload: tembo_kv::Value<'_>,
    ) -> Result<(ItemHead, tembo_kv::Value<'_>), UnknownLayout> {
        let flags = u32::from_be_bytes(payload.array(0).ok_or(UnknownLayout)?);
        let cas = u64::from_be_bytes(payload.array(4).ok_or(UnknownLayout)?);
        let [marks] = payload.array(12).ok_or(UnknownLayout)?;
        if marks & !(STALE | WON | BINARY_KEY) != 0 {
            return Err(UnknownLayout);
        }
        let data = payload.slice(ITEM_HEAD_SIZE..payload.len()).ok_or(UnknownLayout)?;
        let is = |bit: u8| marks & bit != 0;
        let head = ItemHead {
            flags,
            cas,
            is_stale: is(STALE),
            is_won: is(WON),
            has_binary_key: is(BINARY_KEY),
        };
        Ok((head, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items() {
        let head =
            ItemHead { flags: 1, cas: 0x0203, is_stale: true, is_won: false, has_binary_key: true };
        let payload = [&head.encode()[..], b"abc"].concat();
        assert_eq!(payload, b"\0\0\0\x01\0\0\0\0\0\0\x02\x03\x05abc");
        let (read, data) = ItemHead::split(payload[..].into()).unwrap();
        assert_eq!((read, data.to_vec()), (head, b"abc".to_vec()));
    }

    #[test]
    fn what_is_short_or_has_unknown_marks_is_refused() {
        assert!(ItemHead::split(b"short"[..].into()).is_err());
        let mut payload = ItemHead::default().encode();
        payload[12] = 8;
        assert!(ItemHead::split(payload[..].into()).is_err());
    }
}
