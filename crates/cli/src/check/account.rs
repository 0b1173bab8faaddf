//! Where the bytes of a pool are.

use serde::Serialize;

use crate::bytes::Bytes;
use crate::output::Lines;

/// Where every byte of the pool is.
#[derive(Serialize)]
pub(super) struct Account {
    total: u64,
    metadata: u64,
    objects: u64,
    free: u64,
    above_frontier: u64,
    /// Taken, and unreachable.
    leaked: u64,
    #[serde(skip)]
    leaked_objects: u64,
}

impl From<tembo_kv::Account> for Account {
    fn from(found: tembo_kv::Account) -> Account {
        Account {
            total: found.total,
            metadata: found.metadata_bytes,
            objects: found.object_bytes,
            free: found.free_bytes,
            above_frontier: found.above_frontier_bytes,
            leaked: found.leaked_bytes,
            leaked_objects: found.leaked,
        }
    }
}

impl Account {
    /// What is wrong with it.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.metadata + self.objects + self.free + self.above_frontier != self.total {
            faults.push("the bytes do not add up".into());
        }
        if self.leaked_objects > 0 {
            faults.push(format!("{} objects are unreachable", self.leaked_objects));
        }
        faults
    }

    /// The end of a report: the bytes, and what is wrong.
    pub(super) fn add_to(&self, lines: &mut Lines, faults: &[String]) {
        lines.add("metadata", Bytes(self.metadata));
        lines.add("objects", Bytes(self.objects));
        lines.add("free", Bytes(self.free));
        lines.add("never used", Bytes(self.above_frontier));
        lines.add("total", Bytes(self.total));
        for fault in faults {
            lines.add("FAULT", fault);
        }
        if faults.is_empty() {
            lines.add("result", "clean");
        }
    }
}
