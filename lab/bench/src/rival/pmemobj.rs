//! libpmemobj of PMDK, by Debian's shared library and a few lines of C (`pmemobj.c`), at the best that it documents for
//! one kind of objects: an allocation class without headers, pages made before, lines flushed and not synced.
//!
//! It gives no isolation: a lock of the program does, for readers together or one writer. Its transactions note what will be
//! changed: an object once, an entry of an array by itself.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::{PoisonError, RwLock};

use super::opened::failed;
use crate::Error;
use crate::heap_program::{Form, Memory, Store, Work};

/// What the library gives pointers to, whose fields are not used.
enum Handle {}

// SAFETY: these are the signatures of pmemobj.c.
unsafe extern "C" {
    fn bench_pmo_open(
        path: *const c_char,
        size: usize,
        root: usize,
        object: usize,
        out: *mut *mut Handle,
    ) -> c_int;
    fn bench_pmo_close(handle: *mut Handle);
    fn bench_pmo_base(handle: *mut Handle) -> *mut u8;
    fn bench_pmo_root(handle: *mut Handle) -> u64;
    fn bench_pmo_begin(handle: *mut Handle) -> c_int;
    fn bench_pmo_end(commits: c_int) -> c_int;
    fn bench_pmo_add(at: *const u8, len: usize) -> c_int;
    fn bench_pmo_alloc(handle: *mut Handle, size: usize) -> u64;
    fn bench_pmo_free(handle: *mut Handle, offset: u64) -> c_int;
    fn bench_pmo_allocated(handle: *mut Handle) -> u64;
    fn bench_pmo_error(code: c_int) -> *const c_char;
}

/// What it was given that is not its default, for the page.
pub(crate) const SETTINGS: &str = "PMEM_IS_PMEM_FORCE=1, prefault.at_create=1, an allocation class of the objects' size with POBJ_HEADER_NONE, links of 8 bytes in place of a PMEMoid's 16, one undo entry for an object (pmemobj_tx_add_range_direct), a reader-writer lock of the program";

const NAME: &str = "libpmemobj";

/// A pool, with objects of `D` words and `L` links.
pub(crate) struct Pmemobj<const D: usize, const L: usize> {
    handle: *mut Handle,
    base: *mut u8,
    /// Where the words are, and behind them the links, in bytes from the base.
    cells: u64,
    heads: u64,
    form: Form,
    lock: RwLock<()>,
}

// SAFETY: the library's calls may come from any thread, each with a transaction of its own; what they change is under the lock.
unsafe impl<const D: usize, const L: usize> Send for Pmemobj<D, L> {}
// SAFETY: as above.
unsafe impl<const D: usize, const L: usize> Sync for Pmemobj<D, L> {}

/// An error of the library, as its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(c_int);

fn found(code: c_int) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(Code(code)) }
}

impl From<Code> for Error {
    fn from(Code(code): Code) -> Error {
        // SAFETY: a text of the library, which lives until the next call of this thread; it is copied.
        let text = unsafe { CStr::from_ptr(bench_pmo_error(code)) };
        failed(NAME)(text.to_string_lossy().into())
    }
}

impl<const D: usize, const L: usize> Pmemobj<D, L> {
    /// Bytes of an object.
    const OBJECT: usize = 8 * (D + L);

    /// A new pool in a folder.
    pub(crate) fn new(folder: &Path, form: Form) -> Result<Self, Error> {
        let path = CString::new(folder.join("pmemobj").as_os_str().as_bytes())
            .map_err(|source| failed(NAME)(Box::new(source)))?;
        let (cells, heads) = (8 * form.cells, 8 * form.heads);
        let root = (cells + heads).max(64);
        // Twice what all of it takes, and what the library needs itself.
        let size = (64 << 20) + 2 * (root + form.objects * Self::OBJECT);
        let mut handle = ptr::null_mut();
        // SAFETY: the path ends with a zero, and the call sets the handle if it is well.
        found(unsafe { bench_pmo_open(path.as_ptr(), size, root, Self::OBJECT, &mut handle) })?;
        // SAFETY: the handle was set.
        let (base, root) = unsafe { (bench_pmo_base(handle), bench_pmo_root(handle)) };
        let heads = root + cells as u64;
        Ok(Pmemobj { handle, base, cells: root, heads, form, lock: RwLock::new(()) })
    }

    /// Bytes that are allocated.
    pub(crate) fn allocated(&self) -> u64 {
        // SAFETY: the handle lives as long as this.
        unsafe { bench_pmo_allocated(self.handle) }
    }
}

impl<const D: usize, const L: usize> Drop for Pmemobj<D, L> {
    fn drop(&mut self) {
        // SAFETY: the handle is not used after this.
        unsafe { bench_pmo_close(self.handle) };
    }
}

/// An object, by its offset; never 0. It is made by this transaction, or was reached from the root.
#[derive(Clone, Copy)]
pub(crate) struct Offset<'p>(u64, PhantomData<&'p ()>);

/// A transaction, or a reader.
struct Opened<'p, const D: usize, const L: usize> {
    pool: &'p Pmemobj<D, L>,
    /// Objects that the library has noted, or that are new.
    noted: Vec<u64>,
}

impl<'p, const D: usize, const L: usize> Opened<'p, D, L> {
    fn at(&self, offset: u64) -> *mut u64 {
        // SAFETY: offsets come from the root, within its bounds, or from the library, and lie in the pool.
        unsafe { self.pool.base.add(offset as usize).cast() }
    }

    fn read(&self, offset: u64) -> u64 {
        // SAFETY: eight bytes of the pool, aligned; the lock keeps writers out, or this is the writer.
        unsafe { self.at(offset).read() }
    }

    fn write(&self, offset: u64, word: u64) {
        // SAFETY: as above; this is the writer.
        unsafe { self.at(offset).write(word) };
    }

    fn linked(&self, offset: u64) -> Option<Offset<'p>> {
        let to = self.read(offset);
        (to != 0).then_some(Offset(to, PhantomData))
    }

    /// Has an object noted once.
    fn note(&mut self, object: Offset<'p>) -> Result<(), Code> {
        if !self.noted.contains(&object.0) {
            // SAFETY: the bytes of an object of the pool, in a transaction.
            found(unsafe { bench_pmo_add(self.at(object.0).cast(), Pmemobj::<D, L>::OBJECT) })?;
            self.noted.push(object.0);
        }
        Ok(())
    }

    /// Changes an entry of an array.
    fn change(&mut self, offset: u64, word: u64) -> Result<(), Code> {
        // SAFETY: eight bytes of the root, in a transaction.
        found(unsafe { bench_pmo_add(self.at(offset).cast(), 8) })?;
        self.write(offset, word);
        Ok(())
    }

    fn cell_at(&self, index: usize) -> u64 {
        assert!(index < self.pool.form.cells);
        self.pool.cells + 8 * index as u64
    }

    fn head_at(&self, index: usize) -> u64 {
        assert!(index < self.pool.form.heads);
        self.pool.heads + 8 * index as u64
    }
}

fn word_at<const D: usize>(object: Offset<'_>, at: usize) -> u64 {
    assert!(at < D);
    object.0 + 8 * at as u64
}

fn link_at<const D: usize, const L: usize>(object: Offset<'_>, at: usize) -> u64 {
    assert!(at < L);
    object.0 + 8 * (D + at) as u64
}

fn bits(link: Option<Offset<'_>>) -> u64 {
    link.map_or(0, |link| link.0)
}

impl<'p, const D: usize, const L: usize> Memory<D, L> for Opened<'p, D, L> {
    type Link = Offset<'p>;
    type Fault = Code;

    fn cell(&mut self, index: usize) -> Result<u64, Code> {
        Ok(self.read(self.cell_at(index)))
    }

    fn set_cell(&mut self, index: usize, word: u64) -> Result<(), Code> {
        self.change(self.cell_at(index), word)
    }

    fn head(&mut self, index: usize) -> Result<Option<Offset<'p>>, Code> {
        Ok(self.linked(self.head_at(index)))
    }

    fn set_head(&mut self, index: usize, to: Option<Offset<'p>>) -> Result<(), Code> {
        self.change(self.head_at(index), bits(to))
    }

    fn make(&mut self, data: [u64; D], links: [Option<Offset<'p>>; L]) -> Result<Offset<'p>, Code> {
        // SAFETY: the handle lives, and a transaction is under way.
        let offset = unsafe { bench_pmo_alloc(self.pool.handle, Pmemobj::<D, L>::OBJECT) };
        if offset == 0 {
            return Err(Code(rustix::io::Errno::NOMEM.raw_os_error()));
        }
        let words = data.into_iter().chain(links.into_iter().map(bits));
        for (at, word) in words.enumerate() {
            self.write(offset + 8 * at as u64, word);
        }
        self.noted.push(offset);
        Ok(Offset(offset, PhantomData))
    }

    fn data(&mut self, object: &Offset<'p>) -> Result<[u64; D], Code> {
        Ok(std::array::from_fn(|at| self.read(word_at::<D>(*object, at))))
    }

    fn set_data(&mut self, object: &Offset<'p>, data: [u64; D]) -> Result<(), Code> {
        self.note(*object)?;
        for (at, word) in data.into_iter().enumerate() {
            self.write(word_at::<D>(*object, at), word);
        }
        Ok(())
    }

    fn word(&mut self, object: &Offset<'p>, at: usize) -> Result<u64, Code> {
        Ok(self.read(word_at::<D>(*object, at)))
    }

    fn set_word(&mut self, object: &Offset<'p>, at: usize, word: u64) -> Result<(), Code> {
        self.note(*object)?;
        self.write(word_at::<D>(*object, at), word);
        Ok(())
    }

    fn link(&mut self, object: &Offset<'p>, at: usize) -> Result<Option<Offset<'p>>, Code> {
        Ok(self.linked(link_at::<D, L>(*object, at)))
    }

    fn set_link(
        &mut self,
        object: &Offset<'p>,
        at: usize,
        to: Option<Offset<'p>>,
    ) -> Result<(), Code> {
        self.note(*object)?;
        self.write(link_at::<D, L>(*object, at), bits(to));
        Ok(())
    }

    fn free(&mut self, object: Offset<'p>) -> Result<(), Code> {
        // SAFETY: the handle lives, a transaction is under way, and nothing refers to the object.
        found(unsafe { bench_pmo_free(self.pool.handle, object.0) })
    }
}

impl<const D: usize, const L: usize> Store<D, L> for Pmemobj<D, L> {
    fn atomic<W: Work<D, L>>(&self, work: &mut W) -> Result<u64, Error> {
        let mut opened = Opened { pool: self, noted: Vec::new() };
        if work.reads_only() {
            let _held = self.lock.read().unwrap_or_else(PoisonError::into_inner);
            return Ok(work.run(&mut opened)?);
        }
        let _held = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handle lives, and each transaction that is begun ends below.
        found(unsafe { bench_pmo_begin(self.handle) })?;
        let answer = work.run(&mut opened);
        // SAFETY: it was begun above by this thread.
        let ended = found(unsafe { bench_pmo_end(c_int::from(answer.is_ok())) });
        let answer = answer?;
        ended?;
        Ok(answer)
    }
}
