//! What experiments with bare indexes of 8-byte keys and values share.

use tempfile::TempDir;

use super::context::Context;
use crate::contender::Size;
use crate::drive::{Driven, Trial};
use crate::keys::{Keys, Zipf};
use crate::operation::THETA;
use crate::rival::Medium;
use crate::{Error, Kind, Operation};

/// Names of the documents for the contenders.
pub(super) fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bplus => "B+-Tree, volatile",
        Kind::Lcb => "LCB+-Tree",
        Kind::NvtA => "NVT-A",
        Kind::CddsPaper => "CDDS as published",
        Kind::CddsPaperVolatile => "CDDS as published, volatile",
        Kind::CddsUnordered => "CDDS, unordered",
        Kind::CddsVolatile => "CDDS here, volatile",
        Kind::Cdds => "CDDS here",
        Kind::Nvtree => "NV-Tree here",
        Kind::Hash => "hash index here",
        Kind::KvNvtree => "store, NV-Tree",
        Kind::KvHash => "store, hash index",
        Kind::NvtreePaper => "NV-Tree as published, fixed",
        Kind::NvtreePaperAdaptive => "NV-Tree as published",
        other => other.name(),
    }
}

/// A contender in its folder.
pub(super) struct Entrant {
    pub(super) kind: Kind,
    pub(super) contender: Box<dyn Driven>,
    _folder: TempDir,
}

impl Entrant {
    pub(super) fn new(context: &Context<'_>, kind: Kind, size: Size) -> Result<Entrant, Error> {
        let folder = context.folder(Medium::Memory)?;
        let contender = kind.make(folder.path(), size)?;
        Ok(Entrant { kind, contender, _folder: folder })
    }

    /// An operation as a round has it; answers are checked.
    pub(super) fn trial(
        &mut self,
        operation: Operation,
        keys: Keys,
        round: u32,
    ) -> Result<Trial, Error> {
        let plan = operation.plan(keys, &Zipf::new(keys.count, THETA), round);
        self.with(operation, &plan, operation.expected(keys, &plan))
    }

    /// An operation with keys of one's own.
    pub(super) fn with(
        &mut self,
        operation: Operation,
        plan: &[u64],
        expected: u64,
    ) -> Result<Trial, Error> {
        let trial = self.contender.trial(operation, plan)?;
        if trial.right != expected {
            let (contender, operation, found) = (self.kind.name(), operation.name(), trial.right);
            return Err(Error::Wrong { contender, operation, expected, found });
        }
        Ok(trial)
    }
}

/// Milliseconds of thread CPU time.
pub(super) fn ms(trial: &Trial) -> f64 {
    trial.elapsed.cpu.as_secs_f64() * 1e3
}

/// Thousand operations a second of thread CPU time.
pub(super) fn kops(trial: &Trial) -> f64 {
    crate::tuple::kops(trial.operations, trial.elapsed.cpu)
}

/// Nodes of the documents, in bytes.
pub(super) const NODE_SIZES: [u32; 4] = [512, 1024, 2048, 4096];

/// Bytes of the largest node that the trees here have.
pub(super) const OWN_NODE_MAX: u32 = 1024;

/// Bytes of a node that a tree really has where the documents have so many: their own trees any, those here
/// no more than [`OWN_NODE_MAX`].
pub(super) fn node_size_of(kind: Kind, node_size: u32) -> u32 {
    match kind {
        Kind::Cdds | Kind::CddsVolatile | Kind::Nvtree => node_size.min(OWN_NODE_MAX),
        _ => node_size,
    }
}

/// Whether a tree has nodes of so many bytes.
pub(super) fn has_node_size(kind: Kind, node_size: u32) -> bool {
    node_size_of(kind, node_size) == node_size
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure of 4 KiB nodes is never one of a tree that has 1 KiB.
    #[test]
    fn trees_here_stand_at_no_size_of_nodes_that_they_do_not_have() {
        for kind in [Kind::Cdds, Kind::CddsVolatile, Kind::Nvtree] {
            let sizes = NODE_SIZES.map(|size| has_node_size(kind, size));
            assert_eq!(sizes, [true, true, false, false], "{kind:?}");
        }
        for kind in [Kind::Lcb, Kind::CddsPaper, Kind::NvtreePaper, Kind::NvtreePaperAdaptive] {
            assert!(NODE_SIZES.iter().all(|size| has_node_size(kind, *size)), "{kind:?}");
        }
    }
}
