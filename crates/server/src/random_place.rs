//! A random place among ordered keys.

/// Bytes of a place behind those that the first key and the last share.
const BYTES_MAX: usize = 24;

/// A random place from the first key to the last: a key behind a wide gap is the next one more often.
pub(crate) fn random_place(first: &[u8], last: &[u8], random: &mut dyn FnMut() -> u64) -> Vec<u8> {
    let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    let mut place = last[..shared].to_vec();
    let (low, high) = (first.get(shared).copied().unwrap_or(0), last.get(shared).copied());
    let width = u64::from(high.unwrap_or(low).saturating_sub(low)) + 1;
    place.push(low.wrapping_add((random() % width) as u8));
    // The remaining bytes are chosen among those that keys have here.
    for index in shared + 1..first.len().max(last.len()).min(shared + BYTES_MAX) {
        let a = first.get(index).copied().unwrap_or(0);
        let b = last.get(index).copied().unwrap_or(0);
        let width = u64::from(a.abs_diff(b)) + 1;
        place.push(a.min(b).wrapping_add((random() % width) as u8));
    }
    place
}
