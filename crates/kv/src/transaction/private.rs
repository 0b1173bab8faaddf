//! Changes of private trees: under the writer's lock, and without a fence, for nothing of them has to survive.

use std::sync::Arc;

use tembo_index::{DeadIntervals, Index, IndexKind, Op, Retained, VersionedIndex, View, Writer};

use crate::Error;
use crate::trees::{PRIVATE_VERSION, private_stamp};
use crate::write::Locked;

/// The view of all private entries. Nothing in it is void.
pub(super) const VIEW: View<'static> =
    View { version: PRIVATE_VERSION, dead: &DeadIntervals::NONE };

/// Makes an empty private tree.
pub(super) fn create(writing: &mut Locked<'_>) -> Result<Arc<Index>, Error> {
    let (shared, ledger) = writing.parts();
    let _section = shared.pool().reserve(4096, 64)?;
    // No version before that of the entries is read.
    let (dead, retained) = (shared.forest.dead(), Retained::default());
    let mut retired = Vec::new();
    let (stamp, dead, retained) = (private_stamp(), &*dead, &retained);
    let writer = Writer { stamp, dead, retained, retired: &mut retired };
    // A private tree is ordered, because a transaction's writes are read in order.
    let kind = match shared.kind() {
        IndexKind::Hash => IndexKind::Nvtree,
        kind => kind,
    };
    let (index, _) = Index::create(shared.forest.clone(), kind, &writer)?;
    ledger.retired.extend(&mut retired);
    let index = Arc::new(index);
    shared.private.register(&index);
    Ok(index)
}

/// Puts or removes a private entry.
pub(super) fn set(
    writing: &mut Locked<'_>,
    tree: &Index,
    key: &[u8],
    entry: Option<&[&[u8]]>,
) -> Result<(), Error> {
    let (shared, ledger) = writing.parts();
    // No version before that of the entries is read.
    let (dead, retained) = (shared.forest.dead(), Retained::default());
    let mut retired = Vec::new();
    let (stamp, dead, retained) = (private_stamp(), &*dead, &retained);
    let mut writer = Writer { stamp, dead, retained, retired: &mut retired };
    let op = match entry {
        Some(value) => Op::Put { key, value },
        None => Op::Remove { key },
    };
    let applied = tree.apply(op, &mut writer);
    ledger.retired.extend(&mut retired);
    applied?;
    Ok(())
}
