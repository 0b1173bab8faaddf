//! What a leaf is like, as its side-car has it.

use crate::Error;
use crate::nvtree::leaf::{Guard, Leaf, Prints, Range, Traits};

/// Gives the side-car what the header says, and these fingerprints.
pub(crate) fn set(leaf: &Leaf<'_>, guard: &Guard<'_>, prints: &Prints) -> Result<(), Error> {
    set_within(leaf, guard, prints, leaf.range()?)
}

/// As [`set`], of a leaf whose range is known.
pub(crate) fn set_within(
    leaf: &Leaf<'_>,
    guard: &Guard<'_>,
    prints: &Prints,
    range: Range<'_>,
) -> Result<(), Error> {
    let bases = leaf.bases()?;
    let base = usize::from(bases[1] > bases[0]);
    let prefix_len = leaf.prefix_len()?;
    let older = !tembo_pool::Object::from_bits(leaf.header()?.older.load()).is_none();
    let traits = Traits { prefix_len, guarded: prefix_len > range.common_len(), base, older };
    guard.set_prints(prints, traits);
    guard.set_base(bases[base]);
    Ok(())
}
