//! Types for the fields of objects, made of the heap's own means: so that programs need not write their own.

mod boxed;
mod cell;
mod cells;
mod deque;
mod hash_map;
mod list;
mod map;
mod string;
mod vec;

pub use boxed::PBox;
pub use cell::Persistent;
pub use deque::PDeque;
pub use hash_map::PHashMap;
pub use list::PList;
pub use map::{KeyRange, PMap};
pub use string::PString;
pub use vec::PVec;
