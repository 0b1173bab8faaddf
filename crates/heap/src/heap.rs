//! A heap, open.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use tembo_pmem::thread::lock;
use tembo_pool::{Pool, PoolCheck, PoolOptions};

use crate::Error;
use crate::access::{Access, Company};
use crate::arena::Arena;
use crate::compaction;
use crate::field::Place;
use crate::layer::{Atomic, Base, Safe};
use crate::moving::Compaction;
use crate::persist::Persist;
use crate::pointer::Ptr;
use crate::report::{self, ObjectReport, TypeReport};
use crate::session;
use crate::tenant;
use crate::types::TypeEntry;
use crate::under_way::UnderWay;
use crate::upkeep;

/// The name of the heap that a file of its own holds.
const NAME: &str = "heap";

/// Objects that a step of a compaction moves.
const COMPACTED: usize = 64;

/// After so many conflicts a transaction runs alone.
const CONFLICTS_MAX: u32 = 12;

/// A heap in use. The lifetime is its brand: each use has its own, so that pointers of one heap are no pointers of another, and none
/// outlives the use.
///
/// ```
/// # use tembo_heap::{Error, HeapFile, Persist, Ptr};
/// #[derive(Persist)]
/// struct Node<'h> {
///     value: u64,
///     next: Option<Ptr<'h, Node<'h>>>,
/// }
/// let file = HeapFile::volatile(&Default::default())?;
/// file.enter(|heap| {
///     let first = heap.atomic(|tx| {
///         let first = tx.alloc(Node { value: 1, next: None })?;
///         tx.set_root(&first)?;
///         Ok::<_, Error>(first)
///     })?;
///     heap.atomic(|tx| {
///         let next = tx.alloc(Node { value: 2, next: None })?;
///         tx.set(&first, Node::NEXT, Some(next))
///     })
/// })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Heap<'h> {
    arena: &'h Arena,
    _brand: PhantomData<fn(&'h ()) -> &'h ()>,
}

impl Heap<'_> {
    /// Opens the heap in a file, or creates it, and lets `body` use it; then it is closed.
    ///
    /// # Errors
    /// Those of [`HeapFile::open_or_create`], of `body`, and of [`HeapFile::close`].
    pub fn open<R, E: From<Error>>(
        path: &Path,
        body: impl for<'h> FnOnce(Heap<'h>) -> Result<R, E>,
    ) -> Result<R, E> {
        let file = HeapFile::open_or_create(path, &PoolOptions::default())?;
        let result = file.enter(body)?;
        file.close()?;
        Ok(result)
    }
}

impl<'h> Heap<'h> {
    /// Does all of `body`, or nothing: an error or a panic takes everything back. It sees one state of the heap, and others see none of it before all of it.
    /// After a [conflict](Error::Conflict) it is called again, so what it changes outside of the heap is the caller's to keep right.
    ///
    /// When it returns it is fenced, and as durable as the pool's sync policy promises. One fence if it
    /// changes something, two if objects go by that, or the pool's region [gives pages back](tembo_pmem::Region::gives_pages_back); none if it only reads. The first read of an object of an [older version](Persist) of its type
    /// changes it, but where the pool is read-only.
    ///
    /// # Errors
    /// What `body` says; [`Error::Aborted`], [`Error::Nested`]; [`Error::Pool`] of the commit: nothing has changed. Or of the sync behind
    /// it: then the change is made and seen, and may be lost if the system stops; the pool takes no other.
    pub fn atomic<R, E: From<Error>>(
        &self,
        mut body: impl FnMut(&mut Access<'h, Atomic>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut conflicts = 0;
        // What is dead, and what an earlier process has left.
        let mut rounds = 0..2;
        loop {
            let company = if conflicts < CONFLICTS_MAX { Company::Others } else { Company::Alone };
            match self.attempt(company, &mut body) {
                Attempt::Done(result) => return result,
                Attempt::Conflict => {
                    back_off(conflicts);
                    conflicts += 1;
                }
                Attempt::Full(result) => {
                    // At first another thread's sweep may have made room meanwhile.
                    let is_first = rounds.start == 0;
                    if rounds.next().is_none() || !self.make_room()? && !is_first {
                        return result;
                    }
                }
            }
        }
    }

    /// Gives space back that is owed: whether there was any.
    fn make_room(&self) -> Result<bool, Error> {
        let arena = self.arena;
        if arena.has_dead()? && !arena.keeps_all() {
            // As a transaction: what walks the heap alone meets no object that is half destroyed.
            let _under_way = UnderWay::begin(arena).ok_or(Error::Nested)?;
            let _beside = arena.enter();
            upkeep::all(arena, &mut lock(&arena.ledger))?;
            return Ok(true);
        }
        Ok(arena.pool.usage().recovering && tenant::sweep_or_wait(arena)?)
    }

    /// As [`atomic`](Heap::atomic), alone: nothing is noted of what it reads, and `body` is called once. (TX, beside C-TX.)
    ///
    /// # Errors
    /// As [`atomic`](Heap::atomic).
    pub fn exclusive<R, E: From<Error>>(
        &self,
        body: impl FnOnce(&mut Access<'h, Atomic>) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut body = Some(body);
        let once = &mut |tx: &mut Access<'h, Atomic>| match body.take() {
            Some(body) => body(tx),
            None => Err(Error::Aborted.into()),
        };
        match self.attempt(Company::Alone, once) {
            Attempt::Done(result) | Attempt::Full(result) => result,
            Attempt::Conflict => Err(Error::Conflict.into()),
        }
    }

    /// Uses the heap alone, without transactions: nothing that `body` changes is durable, or seen by others, before its next
    /// [checkpoint](Access::checkpoint); what it has changed since the last one when it ends is taken back. (SAFE: see [`Safe`].) Others wait
    /// until it ends, sweeps of the pool too.
    ///
    /// ```
    /// # use tembo_heap::{Error, HeapFile, Persist, Ptr};
    /// # #[derive(Persist)]
    /// # struct Node<'h> { value: u64, next: Option<Ptr<'h, Node<'h>>> }
    /// # let file = HeapFile::volatile(&Default::default())?;
    /// file.enter(|heap| heap.safe(|heap| {
    ///     let mut last = None;
    ///     for value in 0..1000 {
    ///         last = Some(heap.alloc(Node { value, next: last })?);
    ///     }
    ///     let first = last.ok_or(Error::NoRoot)?;
    ///     heap.set_root(&first)?;
    ///     // A thousand objects, and no more fences than for one.
    ///     heap.checkpoint()
    /// }))
    /// # ; Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// What `body` says; [`Error::Nested`].
    pub fn safe<R, E: From<Error>>(
        &self,
        body: impl FnOnce(&mut Access<'h, Safe>) -> Result<R, E>,
    ) -> Result<R, E> {
        session::enter(self.arena, body)
    }

    fn attempt<R, E: From<Error>>(
        &self,
        company: Company,
        body: &mut dyn FnMut(&mut Access<'h, Atomic>) -> Result<R, E>,
    ) -> Attempt<R, E> {
        let Some(_under_way) = UnderWay::begin(self.arena) else {
            return Attempt::Done(Err(Error::Nested.into()));
        };
        if company == Company::Alone {
            tenant::find_room(self.arena);
        }
        let (_beside, _alone) = match company {
            Company::Others => (Some(self.arena.enter()), None),
            Company::Alone => (None, Some(self.arena.alone())),
        };
        Access::<Atomic>::within(self.arena, company, |tx| {
            let result = body(tx);
            if tx.has_conflict() {
                return Attempt::Conflict;
            }
            let value = match result {
                Err(error) if tx.is_full() => return Attempt::Full(Err(error)),
                Err(error) => return Attempt::Done(Err(error)),
                Ok(value) => value,
            };
            match tx.commit() {
                Ok(false) => Attempt::Done(Ok(value)),
                Ok(true) => match self.arena.pool.region().sync() {
                    Ok(()) => Attempt::Done(Ok(value)),
                    Err(error) => Attempt::Done(Err(Error::from(error).into())),
                },
                Err(Error::Conflict) => Attempt::Conflict,
                Err(error @ Error::Pool(tembo_pool::Error::PoolFull { .. })) => {
                    Attempt::Full(Err(error.into()))
                }
                Err(error) => Attempt::Done(Err(error.into())),
            }
        })
    }

    /// The root; `None` before there is one.
    ///
    /// # Errors
    /// As [`Access::root`].
    pub fn root<T: Persist<'h>>(&self) -> Result<Option<Ptr<'h, T>>, Error> {
        self.atomic(|tx| tx.root())
    }

    /// The root, which is made first if there is none.
    ///
    /// # Errors
    /// As [`Access::root`], and those of `make`.
    pub fn root_or<T: Persist<'h>, E: From<Error>>(
        &self,
        mut make: impl FnMut(&mut Access<'h, Atomic>) -> Result<T, E>,
    ) -> Result<Ptr<'h, T>, E> {
        self.atomic(|tx| {
            if let Some(root) = tx.root()? {
                return Ok(root);
            }
            let value = make(tx)?;
            let root = tx.alloc(value)?;
            tx.set_root(&root)?;
            Ok(root)
        })
    }

    /// Destroys all that nothing refers to. A commit does a part of that behind itself. In a use of the layer [`Base`] it destroys nothing.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn settle(&self) -> Result<(), Error> {
        settle(self.arena)
    }

    /// Does a part of the collection of cycles: of objects that refer to each other, and to which nothing else refers. It looks into
    /// `budget` objects at most, 1 at least, beside transactions; a sweep or a check waits for it. Once in a collection it waits
    /// for the transactions that are under way, and others wait for it, whatever the budget: while it looks into what only the program
    /// holds, or commits have linked or unlinked since marking began, with what only these reach, and into the garbage; and
    /// while it empties the weak pointers to that, each by an operation of the log.
    /// Returns whether the collection is at its end: what it has found is destroyed, or will be by the next commits. A
    /// [sweep](Heap::sweep) frees what it does not find: garbage of before the opening, and a cycle that became garbage while
    /// a commit gave its objects more pointers than it took.
    ///
    /// Interrupted at any point it has happened to the part that it has done. It frees, and changes, nothing that can be reached.
    ///
    /// # Errors
    /// [`Error::Nested`]; those of the pool; damage. Nothing is taken for garbage because of that: what is found later is searched for anew.
    pub fn collect_cycles(&self, budget: usize) -> Result<bool, Error> {
        let _under_way = UnderWay::begin(self.arena).ok_or(Error::Nested)?;
        crate::cycles::step(self.arena, budget.max(1))
    }

    /// Does a part of a compaction, which moves objects out of chunks that few of them share, so that the chunks are free for others: looks into
    /// `budget` objects, beside transactions, or moves as many, while no transaction is under way; 1 at least. The next call goes on. So
    /// others wait for as long as it takes to move `budget` objects. Call it until [`is_done`](Compaction::is_done).
    ///
    /// An object to which the program has a pointer stays where it is, so that each [`Ptr`] and [`Weak`](crate::Weak) is right as long as it lives.
    /// After that used chunks are four fifths full, but for one of each size, and for what [stayed](Compaction::stayed). Cycles that nothing
    /// refers to are to be [collected](Heap::collect_cycles) before. If it is not known what is free, because the pool was opened since, it
    /// sweeps first. In memory it notes each object, and each pointer to one that is to be moved, until it is done.
    ///
    /// Each object is moved by an operation of the pool's log, two fences for up to eight of them: interrupted at any point it is in the one
    /// place or the other, with all pointers to it.
    ///
    /// # Errors
    /// [`Error::Nested`], [`Error::ReadOnly`]; those of the pool; damage. What was moved until then is so, and the next call begins anew.
    pub fn compact(&self, budget: usize) -> Result<Compaction, Error> {
        let _under_way = UnderWay::begin(self.arena).ok_or(Error::Nested)?;
        compaction::step(self.arena, budget.max(1))
    }

    /// Finds out what is free in the pool, after an opening; whether it did. Transactions wait while it goes through the heap, and not
    /// while it goes through other tenants.
    ///
    /// # Errors
    /// [`Error::Nested`]; damage.
    pub fn sweep(&self) -> Result<bool, Error> {
        let _under_way = UnderWay::begin(self.arena).ok_or(Error::Nested)?;
        tenant::sweep(self.arena)
    }

    /// The pool below.
    pub fn pool(&self) -> &'h Arc<Pool> {
        &self.arena.pool
    }
}

impl<'h, F> Place<'h, F> {
    /// The heap of the object.
    pub fn heap(&self) -> Heap<'h> {
        Heap { arena: self.arena(), _brand: PhantomData }
    }
}

impl<'h, T> Ptr<'h, T> {
    /// The heap of the object.
    pub fn heap(&self) -> Heap<'h> {
        Heap { arena: self.anchor().arena(), _brand: PhantomData }
    }
}

enum Attempt<R, E> {
    Done(Result<R, E>),
    Conflict,
    Full(Result<R, E>),
}

/// Waits longer after each conflict.
fn back_off(conflicts: u32) {
    for _ in 0..1 << conflicts.min(10) {
        std::hint::spin_loop();
    }
    if conflicts > 2 {
        std::thread::yield_now();
    }
}

fn settle(arena: &Arena) -> Result<(), Error> {
    // A transaction of this thread keeps sweeps out already; in the layer BASE nothing is destroyed.
    let under_way = UnderWay::begin(arena);
    let _beside = under_way.is_some().then(|| arena.enter());
    upkeep::all(arena, &mut lock(&arena.ledger))?;
    Ok(arena.pool.region().sync()?)
}

/// A heap that a program holds for as long as it wants, by itself or beside other tenants of a pool. It is used by
/// [`enter`](HeapFile::enter).
#[derive(Clone)]
pub struct HeapFile {
    arena: Arc<Arena>,
}

impl HeapFile {
    /// Creates a heap in a new file.
    ///
    /// # Errors
    /// Those of [`Pool::create`].
    pub fn create(path: &Path, options: &PoolOptions) -> Result<HeapFile, Error> {
        let options = with_kinds(options);
        let pool = Pool::create_with(path, &options, |pool| tenant::add(pool, NAME).map(drop))?;
        HeapFile::first(&Arc::new(pool))
    }

    /// Opens the heap in a file.
    ///
    /// # Errors
    /// Those of [`Pool::open`]; the pool has no heap.
    pub fn open(path: &Path, options: &PoolOptions) -> Result<HeapFile, Error> {
        HeapFile::first(&Arc::new(Pool::open(path, &with_kinds(options))?))
    }

    /// Opens the heap of that name in a file.
    ///
    /// # Errors
    /// Those of [`Pool::open`] and of [`of`](HeapFile::of).
    pub fn open_named(path: &Path, name: &str, options: &PoolOptions) -> Result<HeapFile, Error> {
        HeapFile::of(&Arc::new(Pool::open(path, &with_kinds(options))?), name)
    }

    /// Opens the heap in a file, or creates it if there is no such file.
    ///
    /// # Errors
    /// Those of [`open`](HeapFile::open) and [`create`](HeapFile::create).
    pub fn open_or_create(path: &Path, options: &PoolOptions) -> Result<HeapFile, Error> {
        if path.exists() { HeapFile::open(path, options) } else { HeapFile::create(path, options) }
    }

    /// A heap in memory, which ends with it.
    ///
    /// # Errors
    /// Those of [`Pool::volatile`].
    pub fn volatile(options: &PoolOptions) -> Result<HeapFile, Error> {
        let pool = Pool::volatile(&with_kinds(options))?;
        HeapFile::add_to(&Arc::new(pool), NAME)
    }

    /// Adds a heap to a pool, beside what it holds. The pool was opened with [`kinds`](crate::kinds).
    ///
    /// # Errors
    /// Those of [`Pool::add_tenant`].
    pub fn add_to(pool: &Arc<Pool>, name: &str) -> Result<HeapFile, Error> {
        let entry = tenant::add(pool, name)?;
        Ok(HeapFile { arena: tenant::open(pool, &entry)? })
    }

    /// The heap of that name in a pool.
    ///
    /// # Errors
    /// [`tembo_pool::Error::NoSuchTenant`]; damage.
    pub fn of(pool: &Arc<Pool>, name: &str) -> Result<HeapFile, Error> {
        Ok(HeapFile { arena: tenant::open(pool, &pool.tenant(name)?)? })
    }

    fn first(pool: &Arc<Pool>) -> Result<HeapFile, Error> {
        let missing = tembo_pool::Error::NoSuchTenant { name: NAME.to_owned() };
        let entry = pool.tenants()?.into_iter().find(tenant::is_heap).ok_or(missing)?;
        Ok(HeapFile { arena: tenant::open(pool, &entry)? })
    }

    /// Uses the heap. What lies in it is known to `body` only: a pointer that is to be found again is linked to the root.
    pub fn enter<R>(&self, body: impl for<'h> FnOnce(Heap<'h>) -> R) -> R {
        body(Heap { arena: &self.arena, _brand: PhantomData })
    }

    /// Uses the heap alone, as [`Heap::safe`] does, and with memory that is managed by hand: a pointer of the program keeps nothing, and
    /// what nothing refers to stays until it is [freed](Access::free), or swept after the next opening. (BASE: see [`Base`].) What other
    /// layers have left to be destroyed is destroyed when it begins, and nothing else before it ends.
    ///
    /// ```
    /// # use tembo_heap::{Error, HeapFile, Persist, Ptr};
    /// # #[derive(Persist)]
    /// # struct Node<'h> { value: u64, next: Option<Ptr<'h, Node<'h>>> }
    /// # let file = HeapFile::volatile(&Default::default())?;
    /// file.base(|heap| {
    ///     let last = heap.alloc(Node { value: 2, next: None })?;
    ///     let first = heap.alloc(Node { value: 1, next: Some(last.clone()) })?;
    ///     heap.set_root(&first)?;
    ///     heap.checkpoint()?;
    ///     heap.set(&first, Node::NEXT, None)?;
    ///     heap.free(last)?;
    ///     heap.checkpoint()
    /// })
    /// # ; Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// What `body` says; [`Error::Nested`].
    pub fn base<R, E: From<Error>>(
        &self,
        body: impl for<'h> FnOnce(&mut Access<'h, Base>) -> Result<R, E>,
    ) -> Result<R, E> {
        session::enter(&self.arena, body)
    }

    /// [Compacts](Heap::compact) the heap, and gives the blocks of what is free then back to the file system, where it can take them; when the
    /// pool is closed, its file ends behind what is used. `each` is called with how far it has come. Other threads use the heap meanwhile.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// Those of [`Heap::compact`].
    pub fn compact(&self, each: &mut dyn FnMut(&Compaction)) -> Result<Compaction, Error> {
        settle(&self.arena)?;
        let done = loop {
            let done = self.enter(|heap| heap.compact(COMPACTED))?;
            each(&done);
            if done.is_done {
                break done;
            }
            // Another tenant of the pool may be at it.
            std::thread::yield_now();
        };
        let pool = &self.arena.pool;
        pool.region().sync()?;
        pool.shrink_when_closed();
        pool.give_all_blocks_back()?;
        Ok(done)
    }

    /// Verifies the heap, and accounts for every byte of its pool.
    ///
    /// # Errors
    /// The first damage found; [`tembo_pool::Error::TenantBusy`].
    pub fn check(&self) -> Result<PoolCheck, Error> {
        Ok(self.arena.pool.check()?)
    }

    /// The heap's name in its pool.
    pub fn name(&self) -> String {
        self.arena.entry.name.clone()
    }

    /// What the heap holds of each type. No transaction may be under way: it waits for that.
    ///
    /// # Errors
    /// [`Error::Nested`]: in a transaction of this thread. Damage.
    pub fn report(&self) -> Result<Vec<TypeReport>, Error> {
        let _under_way = UnderWay::begin(&self.arena).ok_or(Error::Nested)?;
        let _alone = self.arena.alone();
        report::types(&self.arena)
    }

    /// Passes each object to `each`, which can begin no transaction. No transaction may be under way: it waits for that.
    ///
    /// # Errors
    /// [`Error::Nested`]: in a transaction of this thread. Damage; what `each` says.
    pub fn objects<E: From<Error>>(
        &self,
        each: &mut dyn FnMut(ObjectReport) -> Result<(), E>,
    ) -> Result<(), E> {
        let _under_way = UnderWay::begin(&self.arena).ok_or(Error::Nested)?;
        let _alone = self.arena.alone();
        report::objects(&self.arena, each)
    }

    /// Where the root lies, in bytes from the start of the pool; `None` before there is one.
    ///
    /// # Errors
    /// Damage.
    pub fn root_offset(&self) -> Result<Option<u64>, Error> {
        report::root(&self.arena)
    }

    /// The types that the heap holds.
    pub fn types(&self) -> Vec<Arc<TypeEntry>> {
        self.arena.types.all()
    }

    /// The pool below.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.arena.pool
    }

    /// A clean stop, if this is the last handle of the heap and of its pool: otherwise only a sync.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn close(self) -> Result<(), Error> {
        settle(&self.arena)?;
        let pool = self.arena.pool.clone();
        drop(self.arena);
        match Arc::try_unwrap(pool) {
            Ok(pool) => Ok(pool.close()?),
            Err(pool) => Ok(pool.region().sync()?),
        }
    }
}

fn with_kinds(options: &PoolOptions) -> PoolOptions {
    PoolOptions { kinds: tenant::kinds(options.kinds.clone()), ..options.clone() }
}
