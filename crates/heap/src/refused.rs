//! Programs that the compiler refuses, one for each class of bug.
//!
//! **A pointer from the heap to memory** (NV-to-V):
//! ```compile_fail,E0277
//! # use tembo_heap::Persist;
//! #[derive(Persist)]
//! struct Node { name: String }
//! ```
//! ```compile_fail,E0277
//! # use tembo_heap::Persist;
//! #[derive(Persist)]
//! struct Node { next: Box<u64> }
//! ```
//! ```compile_fail
//! # use tembo_heap::Persist;
//! #[derive(Persist)]
//! struct Node<'h, 'a> { next: &'a u64, _heap: tembo_heap::Ptr<'h, u64> }
//! ```
//!
//! **A pointer from a heap to another** (inter-heap NV-to-NV), also of the same type:
//! ```compile_fail
//! # use tembo_heap::{Error, HeapFile, Persist, Ptr};
//! # #[derive(Persist)]
//! # struct Node<'h> { next: Option<Ptr<'h, Node<'h>>> }
//! # let (one, two) = (HeapFile::volatile(&Default::default())?, HeapFile::volatile(&Default::default())?);
//! one.enter(|one| two.enter(|two| {
//!     let a = one.atomic(|tx| tx.alloc(Node { next: None }))?;
//!     let b = two.atomic(|tx| tx.alloc(Node { next: None }))?;
//!     two.atomic(|tx| tx.set(&b, Node::NEXT, Some(a.clone())))
//! }))
//! # ; Ok::<(), Error>(())
//! ```
//! It compiles with one heap in the place of two:
//! ```
//! # use tembo_heap::{Error, HeapFile, Persist, Ptr};
//! # #[derive(Persist)]
//! # struct Node<'h> { next: Option<Ptr<'h, Node<'h>>> }
//! # let one = HeapFile::volatile(&Default::default())?;
//! one.enter(|one| {
//!     let a = one.atomic(|tx| tx.alloc(Node { next: None }))?;
//!     let b = one.atomic(|tx| tx.alloc(Node { next: None }))?;
//!     one.atomic(|tx| tx.set(&b, Node::NEXT, Some(a.clone())))
//! })
//! # as Result<(), Error>
//! # ; Ok::<(), Error>(())
//! ```
//!
//! **Two heaps swapped**: a transaction of one reads an object of the other.
//! ```compile_fail
//! # use tembo_heap::{Error, HeapFile};
//! # let (one, two) = (HeapFile::volatile(&Default::default())?, HeapFile::volatile(&Default::default())?);
//! one.enter(|one| two.enter(|two| {
//!     let a = one.atomic(|tx| tx.alloc(1_u64))?;
//!     two.atomic(|tx| tx.read(&a))
//! }))
//! # ; Ok::<(), Error>(())
//! ```
//!
//! **Use after close**: a pointer that leaves its use of the heap.
//! ```compile_fail
//! # use tembo_heap::{Error, HeapFile};
//! # let file = HeapFile::volatile(&Default::default())?;
//! let escaped = file.enter(|heap| heap.atomic(|tx| tx.alloc(1_u64)))?;
//! # Ok::<(), Error>(())
//! ```
//! ```compile_fail
//! # use tembo_heap::{Error, HeapFile, Ptr};
//! # let file = HeapFile::volatile(&Default::default())?;
//! let mut escaped = None;
//! file.enter(|heap| escaped = heap.atomic(|tx| tx.alloc(1_u64)).ok());
//! # Ok::<(), Error>(())
//! ```
//!
//! **A transaction that escapes**, or is used after its end:
//! ```compile_fail
//! # use tembo_heap::{Error, HeapFile};
//! # let file = HeapFile::volatile(&Default::default())?;
//! file.enter(|heap| {
//!     let mut escaped = None;
//!     heap.atomic(|tx| { escaped = Some(tx); Ok::<_, Error>(()) })
//! })?;
//! # Ok::<(), Error>(())
//! ```
//!
//! **A change that is not logged**: there is no reference into the heap, and what is read is a copy.
//! ```compile_fail,E0594
//! # use tembo_heap::{Error, HeapFile};
//! # let file = HeapFile::volatile(&Default::default())?;
//! file.enter(|heap| {
//!     let object = heap.atomic(|tx| tx.alloc((1_u64, 2_u64)))?;
//!     let value = heap.atomic(|tx| tx.read(&object))?;
//!     value.0 = 7;
//!     Ok::<(), Error>(())
//! })
//! # ; Ok::<(), Error>(())
//! ```
//! ```compile_fail,E0614
//! # use tembo_heap::{Error, HeapFile};
//! # let file = HeapFile::volatile(&Default::default())?;
//! file.enter(|heap| {
//!     let object = heap.atomic(|tx| tx.alloc(1_u64))?;
//!     *object = 7;
//!     Ok::<(), Error>(())
//! })
//! # ; Ok::<(), Error>(())
//! ```
//!
//! **A pointer of a view that escapes**, or that is followed after a change:
//! ```compile_fail
//! # use tembo_heap::{Error, HeapFile};
//! # let file = HeapFile::volatile(&Default::default())?;
//! file.enter(|heap| {
//!     let mut escaped = None;
//!     heap.atomic(|tx| { escaped = tx.view().root::<u64>()?; Ok::<_, Error>(()) })
//! })
//! # ; Ok::<(), Error>(())
//! ```
//! ```compile_fail,E0499
//! # use tembo_heap::{Error, HeapFile};
//! # let file = HeapFile::volatile(&Default::default())?;
//! file.enter(|heap| heap.atomic(|tx| {
//!     let mut view = tx.view();
//!     let root = view.root::<u64>()?;
//!     tx.alloc(1_u64)?;
//!     view.keep(root.ok_or(Error::NoRoot)?).map(drop)
//! }))
//! # ; Ok::<(), Error>(())
//! ```
//!
//! **A field of another type, or of another object's type**:
//! ```compile_fail,E0308
//! # use tembo_heap::{Error, HeapFile, Persist};
//! # #[derive(Persist)]
//! # struct One { value: u64 }
//! # #[derive(Persist)]
//! # struct Two { value: u64 }
//! # let file = HeapFile::volatile(&Default::default())?;
//! file.enter(|heap| {
//!     let object = heap.atomic(|tx| tx.alloc(One { value: 1 }))?;
//!     heap.atomic(|tx| tx.set(&object, Two::VALUE, 2))
//! })
//! # ; Ok::<(), Error>(())
//! ```
