//! The four layers: each adds something to the one before, and costs more. (Thesis, chapter 5.)
//!
//! ```text
//!           is entered by             adds                                    durable, and whole
//! BASE      HeapFile::base            what there is; free                     at a checkpoint
//! SAFE      Heap::safe                objects go when nothing refers to       at a checkpoint
//!                                     them; weak pointers; no free
//! TX        Heap::exclusive           atomic sections                         each of them
//! C-TX      Heap::atomic              threads beside each other               each of them
//! ```
//!
//! They are one mechanism ([`Access`](crate::Access)): what is changed is kept in memory, and becomes one operation of the pool's log. What a layer does
//! not need it leaves out. All keep the counts of the pointers in the heap, so that any layer may follow any other in a heap.
//!
//! | | BASE | SAFE | TX | C-TX |
//! |---|---|---|---|---|
//! | a pointer of the program | an offset | counted | counted | counted |
//! | an object that nothing refers to | stays, until [`free`](crate::Access::free) or a sweep | destroyed | destroyed | destroyed |
//! | records of what was read, ownership | no | no | no | yes |
//! | fences of an assignment | 0 | 0 | 1, its transaction | 1, its transaction |
//! | fences of a checkpoint | 1 | 1 | | |
//!
//! A checkpoint, or a transaction, has a fence more when objects go by it, two more when it stores more words than a lane of the pool's log holds, and one more when it
//! makes more than 8 objects. What it has no room to destroy, more than about 16 words, costs two for each step. The first object of a type
//! costs an operation that notes the type.

mod sealed {
    pub trait Sealed {}
}

/// One of the four layers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no layer of a heap",
    note = "the layers are `Base`, `Safe` and `Atomic`"
)]
pub trait Layer: sealed::Sealed {
    /// Whether pointers of the program are counted, and objects destroyed when nothing refers to them.
    #[doc(hidden)]
    const COUNTS: bool;
}

/// A layer in which objects go when nothing refers to them, so that there are weak pointers.
#[diagnostic::on_unimplemented(
    message = "the layer `{Self}` has no weak pointers",
    note = "memory is managed by hand there: use `Heap::safe`, `Heap::exclusive` or `Heap::atomic`"
)]
pub trait Counted: Layer {}

/// A layer that is durable at its checkpoints.
#[diagnostic::on_unimplemented(
    message = "the layer `{Self}` has no checkpoints",
    note = "a transaction is durable when it ends"
)]
pub trait Checkpointed: Layer {}

/// BASE: memory is managed by hand, and changes are durable at checkpoints.
pub enum Base {}

/// SAFE: as [`Base`], but objects go by themselves when nothing refers to them, and only then.
pub enum Safe {}

/// TX and C-TX: changes are transactions.
pub enum Atomic {}

impl sealed::Sealed for Base {}
impl sealed::Sealed for Safe {}
impl sealed::Sealed for Atomic {}

impl Layer for Base {
    const COUNTS: bool = false;
}

impl Layer for Safe {
    const COUNTS: bool = true;
}

impl Layer for Atomic {
    const COUNTS: bool = true;
}

impl Counted for Safe {}
impl Counted for Atomic {}
impl Checkpointed for Base {}
impl Checkpointed for Safe {}
