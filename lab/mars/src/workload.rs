//! The programs of the thesis's figure 3.9, over any store: a hash table, a B+tree, a graph.

mod bplus_tree;
mod graph;
mod hash_table;
mod random;

pub use bplus_tree::BplusTree;
pub use graph::Graph;
pub use hash_table::HashTable;
pub use random::Random;

/// Numbers of locks of different kinds do not meet.
const KIND: u64 = 1 << 60;
