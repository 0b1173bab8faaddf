//! Of several values of a line, the last.

use crate::LINE;

/// Bits of a word that say where in the log a line is; the others say which line it is.
const PLACE_BITS: u32 = 26;

/// Sorts lines and keeps the last value of each. Of two, the later in the log lies further behind.
pub(super) fn keep_last(lines: &mut Vec<(u64, usize)>) {
    let packs = |(line, at): &(u64, usize)| {
        line / LINE < 1 << (64 - PLACE_BITS) && *at as u64 / LINE < 1 << PLACE_BITS
    };
    if !lines.iter().all(packs) {
        lines.sort_unstable_by(|a, b| b.cmp(a));
        lines.dedup_by_key(|(line, _)| *line);
        lines.reverse();
        return;
    }
    // One word each sorts several times faster. Both are multiples of a line.
    let pack = |(line, at): &(u64, usize)| (line / LINE) << PLACE_BITS | (*at as u64 / LINE);
    let mut words: Vec<u64> = lines.iter().map(pack).collect();
    words.sort_unstable();
    lines.clear();
    let last = words.iter().enumerate().filter(|(index, word)| {
        words.get(index + 1).is_none_or(|next| next >> PLACE_BITS != **word >> PLACE_BITS)
    });
    lines.extend(last.map(|(_, word)| {
        ((word >> PLACE_BITS) * LINE, ((word & ((1 << PLACE_BITS) - 1)) * LINE) as usize)
    }));
}
