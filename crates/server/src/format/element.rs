//! The keys of the elements of large collections.
//!
//! ```text
//! bytes 0-7     the collection's id, big-endian
//! byte 8        which part of the collection it belongs to
//! the rest      by the part
//! ```
//!
//! | part | rest | value |
//! |---|---|---|
//! | 0, of a string | number of the piece, big-endian | [`PIECE_SIZE`] bytes or less; what is missing is zero |
//! | 0, of a hash | field | see [`FieldHeader`](super::FieldHeader), then the field's value |
//! | 1, of a hash | expiry, big-endian, and field | empty: the field expires then |
//! | 0, of a set | member | empty |
//! | 0, of a list | position, big-endian, its sign inverted | the element; in a list with strips only a long one |
//! | 1, of a list | number of a [strip](super::Strip), big-endian, its sign inverted | the strip |
//! | 0, of a sorted set | member | score, order-preserving |
//! | 1, of a sorted set | score, order-preserving, and member | empty |
//! | 0 to 5, of a stream | see [`StreamHead`](super::StreamHead) and its like | |
//! | 1 + level, of a sorted set, from level 2 on | as part 1, or nothing | how many members there are from it on to the next of its level, big-endian |
//!
//! The key [`ID_KEY`] holds the last id that was given, big-endian.

/// Bytes of a key before the rest.
pub const ELEMENT_PREFIX_SIZE: usize = 9;
/// Longest field and member: a score stands before it.
pub const ELEMENT_SIZE_MAX: usize = tembo_kv::KEY_SIZE_MAX - ELEMENT_PREFIX_SIZE - 8;
/// Bytes in each piece of a large string but the last.
pub const PIECE_SIZE: usize = 64 << 10;
/// Where the last id is.
pub const ID_KEY: [u8; 8] = [0; 8];

/// Which part of a collection an element belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Fields, members, positions.
    Main,
    /// The fields of a hash that expire, by the time.
    Expiry,
    /// The strips of a list.
    Strip,
    /// The members of a sorted set by score.
    Order,
    /// Members of that level, from 1 on, of a sorted set.
    Level(u8),
    /// The groups of a stream.
    Group,
    /// The consumers of a stream by name.
    ConsumerName,
    /// The consumers of a stream by number.
    Consumer,
    /// The pending entries of a stream's groups.
    Pending,
    /// The pending entries of a stream's consumers.
    Owned,
}

impl Part {
    fn number(self) -> u8 {
        match self {
            Part::Main => 0,
            Part::Expiry | Part::Order | Part::Strip => 1,
            Part::Level(level) => 1 + level,
            Part::Group => 1,
            Part::ConsumerName => 2,
            Part::Consumer => 3,
            Part::Pending => 4,
            Part::Owned => 5,
        }
    }
}

/// What the keys of a part begin with.
pub fn element_prefix(id: u64, part: Part) -> [u8; ELEMENT_PREFIX_SIZE] {
    let mut prefix = [part.number(); ELEMENT_PREFIX_SIZE];
    prefix[..8].copy_from_slice(&id.to_be_bytes());
    prefix
}

/// A position in a list in a form whose bytes sort as positions do.
pub fn position_order(position: i64) -> [u8; 8] {
    (position as u64 ^ 1 << 63).to_be_bytes()
}

/// A score in a form whose bytes sort as scores do. Not a number is no score; -0 is 0.
pub fn score_order(score: f64) -> [u8; 8] {
    let bits = (score + 0.0).to_bits();
    let mask = if bits >> 63 == 0 { 1 << 63 } else { u64::MAX };
    (bits ^ mask).to_be_bytes()
}

/// The member of a key of the order of a sorted set: what follows the score.
pub fn member_of(key: &[u8]) -> &[u8] {
    key.get(size_of::<f64>()..).unwrap_or_default()
}

/// The score whose order-preserving form this is.
pub fn score_from_order(bytes: [u8; 8]) -> f64 {
    let bits = u64::from_be_bytes(bytes);
    let mask = if bits >> 63 == 0 { u64::MAX } else { 1 << 63 };
    f64::from_bits(bits ^ mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        assert_eq!(element_prefix(258, Part::Main), *b"\0\0\0\0\0\0\x01\x02\0");
        assert_eq!(element_prefix(1, Part::Order), *b"\0\0\0\0\0\0\0\x01\x01");
        assert_eq!(element_prefix(1, Part::Level(1)), *b"\0\0\0\0\0\0\0\x01\x02");
    }

    #[test]
    fn positions_sort() {
        let positions = [i64::MIN, -2, -1, 0, 1, 300, i64::MAX];
        assert!(positions.map(position_order).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn scores_sort() {
        let scores = [
            f64::NEG_INFINITY,
            -1e300,
            -2.5,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            1e-300,
            1.0,
            17.0,
            f64::INFINITY,
        ];
        let orders = scores.map(score_order);
        assert!(orders.is_sorted_by(|a, b| a < b));
        assert_eq!(orders.map(score_from_order), scores);
        assert_eq!(score_order(-0.0), score_order(0.0));
    }
}
