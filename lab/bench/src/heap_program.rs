//! The six benchmarks of Coburn's thesis (table 4.2), each written once for all that it is run over.
//!
//! A benchmark works on a `Memory`: two arrays, of words and of links, and objects of one kind with words and links. Layers of
//! the heap, memory without durability and libpmemobj are memories. What has its own structures instead, as Berkeley DB, does
//! the same work on keys (`Keyed`). So all of them run one algorithm, and all have to give the same answers.

mod btree;
mod centrality;
mod graph;
mod hash_table;
mod keyed;
mod layer;
mod load;
mod memory;
mod rb_tree;
mod swap;
#[cfg(test)]
mod tests;
mod volatile;

pub(crate) use btree::Btree;
pub(crate) use centrality::Ssca;
pub(crate) use graph::SixDegrees;
pub(crate) use hash_table::HashTable;
pub(crate) use keyed::{KeyedFile, KeyedStore};
pub(crate) use layer::{HeapLayer, with_heap};
pub(crate) use load::{Extent, Measured, measured};
pub(crate) use memory::Program;
// Rivals are memories, or stores by keys.
#[cfg(any(test, feature = "rivals-debian"))]
pub(crate) use memory::{Form, Keyed, Memory, Store, Work};
pub(crate) use rb_tree::RbTree;
pub(crate) use swap::Sps;
pub(crate) use volatile::Volatile;
