//! The header of a value, but for its expiry.

/// Bit 6 of the header.
const IS_WIDE: u8 = 0x40;
/// Bit 5 of the header of a large hash.
const EXPIRES_FIELDS: u8 = 0x20;
/// Bit 5 of the header of a large list.
const IN_STRIPS: u8 = 0x20;
/// Bit 5 of the header of a large sorted set.
const LEVELS_FROM_2: u8 = 0x20;
/// Bit 4 of the header.
const IS_SPREAD: u8 = 0x10;
/// Bits 0-3 of the header.
const KIND_MASK: u8 = 0x0f;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Bytes.
    String = 0,
    /// Elements in a chosen order.
    List = 1,
    /// Distinct members.
    Set = 2,
    /// Distinct members, each with a score, in the order of score and member.
    SortedSet = 3,
    /// Fields, each with a value.
    Hash = 4,
    /// Entries with ids that rise, and groups of consumers.
    Stream = 5,
}

impl Kind {
    /// Its name, as TYPE gives it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }

    fn decode(header: u8) -> Option<Kind> {
        Some(match header & KIND_MASK {
            0 => Kind::String,
            1 => Kind::List,
            2 => Kind::Set,
            3 => Kind::SortedSet,
            4 => Kind::Hash,
            5 => Kind::Stream,
            _ => return None,
        })
    }
}

/// What the header of a value says beside its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    /// What it is.
    pub kind: Kind,
    /// A collection whose entries are elements of their own, or a string whose pieces are.
    pub is_spread: bool,
    /// A collection that was once too large for the smaller of Redis's encodings: OBJECT ENCODING gives the larger.
    pub is_wide: bool,
    /// A large hash of which a field has an expiry, or once had one.
    pub expires_fields: bool,
    /// A large list whose elements lie in [strips](super::Strip).
    pub in_strips: bool,
    /// A large sorted set whose levels begin with level 2: the counts of level 1 are not stored.
    pub levels_from_2: bool,
}

impl Type {
    /// A string.
    pub const STRING: Type = Type::new(Kind::String, false);

    /// A large string, in pieces.
    pub const LARGE_STRING: Type = Type::new(Kind::String, true);

    /// A stream.
    pub const STREAM: Type = Type::new(Kind::Stream, true);

    /// One that was never wide, and whose fields, if it has some, do not expire.
    pub const fn new(kind: Kind, is_spread: bool) -> Type {
        Type {
            kind,
            is_spread,
            is_wide: false,
            expires_fields: false,
            in_strips: false,
            levels_from_2: false,
        }
    }

    pub(super) fn encode(self) -> u8 {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        self.kind as u8
            | flag(self.is_spread, IS_SPREAD)
            | flag(self.is_wide, IS_WIDE)
            | flag(self.expires_fields, EXPIRES_FIELDS)
            | flag(self.in_strips, IN_STRIPS)
            | flag(self.levels_from_2, LEVELS_FROM_2)
    }

    pub(super) fn decode(header: u8) -> Option<Type> {
        let kind = Kind::decode(header)?;
        let (is_spread, is_wide) = (header & IS_SPREAD != 0, header & IS_WIDE != 0);
        let expires_fields = kind == Kind::Hash && header & EXPIRES_FIELDS != 0;
        let in_strips = kind == Kind::List && header & IN_STRIPS != 0;
        let fits = match kind {
            Kind::String => !is_wide,
            Kind::Stream => is_spread && !is_wide,
            _ => true,
        };
        let levels_from_2 = kind == Kind::SortedSet && header & LEVELS_FROM_2 != 0;
        let has_bit_5 = header & (EXPIRES_FIELDS | IN_STRIPS | LEVELS_FROM_2) != 0;
        let knows_bit_5 = matches!(kind, Kind::Hash | Kind::List | Kind::SortedSet) && is_spread;
        let fits = fits && (!has_bit_5 || knows_bit_5);
        fits.then_some(Type { kind, is_spread, is_wide, expires_fields, in_strips, levels_from_2 })
    }
}
