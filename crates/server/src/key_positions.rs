//! Where the keys of a request are.

use crate::args::Args;
use crate::command::{BLOCKING, Command, MOVABLE_KEYS, STREAM};
use crate::number::parse_integer;

/// The arguments that are keys, counted from the command's name; `None` if their number is not a valid one.
pub(crate) fn key_positions(
    command: &Command,
    (first, last, step): (i32, i32, i32),
    args: Args<'_>,
) -> Option<Vec<usize>> {
    let count = args.count();
    let mut keys = Vec::new();
    if first > 0 && step > 0 {
        let last = if last < 0 { count as i32 + last } else { last };
        let last = usize::try_from(last).unwrap_or(0).min(count.saturating_sub(1));
        keys.extend((first as usize..=last).step_by(step as usize));
    }
    if command.has(STREAM) && command.has(MOVABLE_KEYS) {
        // The keys stand between STREAMS and as many ids.
        let first = (1..count).find(|&at| args.is(at, "STREAMS")).map(|at| at + 1);
        let first = first.filter(|&first| first < count && (count - first).is_multiple_of(2))?;
        keys.extend(first..first + (count - first) / 2);
    } else if command.has(MOVABLE_KEYS) {
        // How many they are stands behind the destination or the timeout, if there is one.
        let at = if first > 0 || command.has(BLOCKING) { 2 } else { 1 };
        let most = count.saturating_sub(at + 1);
        let number = parse_integer(args.at(at)).and_then(|number| usize::try_from(number).ok());
        let number = number.filter(|number| (1..=most).contains(number))?;
        keys.extend(at + 1..=at + number);
    }
    Some(keys)
}
