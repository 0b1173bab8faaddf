//! The traits of a leaf, as its side-car has them.

use crate::Error;
use crate::nvtree::format::Line;
use crate::nvtree::leaf::{Guard, Leaf, Prints, Range, Traits, read_slot};

/// Stores into the side-car the traits that the header gives, and these fingerprints.
pub(crate) fn set(leaf: &Leaf<'_>, guard: &Guard<'_>, prints: &Prints) -> Result<(), Error> {
    set_within(leaf, guard, prints, leaf.range()?)
}

/// As [`set`], for a leaf whose range is known.
pub(crate) fn set_within(
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    prints: &Prints,
    range: Range<'_>,
) -> Result<(), Error> {
    let (bases, lines) = (leaf.bases()?, leaf.all_lines()?);
    let base = usize::from(bases[1] > bases[0]);
    let prefix_len = leaf.prefix_len()?;
    let older = !tembo_pool::Object::from_bits(leaf.header()?.older.load()).is_none();
    let guarded = prefix_len > range.common_len();
    let shared = prints.ended(leaf.lines()).any(|slot| is_removal_with_record(lines, slot));
    let traits = Traits { prefix_len, guarded, base, older, shared };
    guard.set_prints(prints, traits);
    guard.set_base(bases[base]);
    Ok(())
}

/// Whether the element in a slot is a removal and shares the record of what it removed.
fn is_removal_with_record(lines: &[Line], slot: usize) -> bool {
    let (element, meta) = read_slot(lines, slot);
    meta.is_removed() && element.record().is_some()
}
