//! Berkeley DB 5.3, by Debian's shared library and a few lines of C (`berkeley.c`): a B-tree in place
//! with a write-ahead log. Each change is a transaction of its own, synced when it commits, as it comes.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

use super::opened::{Change, Client, Rival, Share, failed};
use crate::Error;
use crate::heap_program::{Keyed, KeyedFile};

/// Whether it keeps its promises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    /// A transaction for each change.
    Transactions,
    /// Neither transactions nor a log.
    None,
}

/// Where no share of memory is given: as in the thesis (section 5.3), all data fit. What is not used takes
/// no memory.
const CACHE_BYTES: usize = 8 << 30;

/// What the library gives pointers to, whose fields are not used.
enum Handle {}
enum Transaction {}

// SAFETY: these are the signatures of berkeley.c.
unsafe extern "C" {
    static bench_bdb_not_found: c_int;
    static bench_bdb_buffer_small: c_int;
    static bench_bdb_deadlock: c_int;
    fn bench_bdb_flush(handle: *mut Handle) -> c_int;
    fn bench_bdb_sync_commits(handle: *mut Handle, synced: c_int) -> c_int;
    fn bench_bdb_open_small(
        folder: *const c_char,
        hashed: c_int,
        cache: usize,
        out: *mut *mut Handle,
    ) -> c_int;
    fn bench_bdb_txn_get(
        handle: *mut Handle,
        txn: *mut Transaction,
        key: *const c_void,
        key_len: usize,
        value: *mut c_void,
        value_len: *mut usize,
        changes: c_int,
    ) -> c_int;
    fn bench_bdb_open(
        folder: *const c_char,
        transactions: c_int,
        cache: usize,
        out: *mut *mut Handle,
    ) -> c_int;
    fn bench_bdb_begin(handle: *mut Handle, txn: *mut *mut Transaction) -> c_int;
    fn bench_bdb_txn_put(
        handle: *mut Handle,
        txn: *mut Transaction,
        key: *const c_void,
        key_len: usize,
        value: *const c_void,
        value_len: usize,
    ) -> c_int;
    fn bench_bdb_txn_del(
        handle: *mut Handle,
        txn: *mut Transaction,
        key: *const c_void,
        key_len: usize,
    ) -> c_int;
    fn bench_bdb_end(handle: *mut Handle, txn: *mut Transaction, commits: c_int) -> c_int;
    fn bench_bdb_close(handle: *mut Handle);
    fn bench_bdb_put(
        handle: *mut Handle,
        key: *const c_void,
        key_len: usize,
        value: *const c_void,
        value_len: usize,
    ) -> c_int;
    fn bench_bdb_get(
        handle: *mut Handle,
        key: *const c_void,
        key_len: usize,
        value: *mut c_void,
        value_len: *mut usize,
    ) -> c_int;
    fn bench_bdb_del(handle: *mut Handle, key: *const c_void, key_len: usize) -> c_int;
    fn bench_bdb_scan(
        handle: *mut Handle,
        key: *mut c_void,
        key_len: usize,
        key_room: usize,
        value: *mut c_void,
        value_room: usize,
        count: *mut usize,
    ) -> c_int;
    fn bench_bdb_error(code: c_int) -> *const c_char;
}

/// An environment with one B-tree.
pub(super) struct Berkeley {
    handle: *mut Handle,
    settings: Vec<String>,
}

// SAFETY: environment and database are opened with DB_THREAD: threads may share them.
unsafe impl Sync for Berkeley {}

/// Whether it went well; what is not there is no error.
fn found(code: c_int) -> Result<bool, Error> {
    // SAFETY: a constant of berkeley.c.
    if code == 0 || code == unsafe { bench_bdb_not_found } {
        return Ok(code == 0);
    }
    // SAFETY: the library gives a string that ends with zero and that must not be freed.
    let text = unsafe { CStr::from_ptr(bench_bdb_error(code)) };
    Err(failed("Berkeley DB")(text.to_string_lossy().into()))
}

impl Berkeley {
    pub(super) fn new(folder: &Path, log: Log, share: Option<Share>) -> Result<Berkeley, Error> {
        let cache = share.map_or(CACHE_BYTES, |share| share.memory as usize / 2);
        let mut settings = vec!["set_pagesize=16384".into(), "DB_LOG_AUTO_REMOVE".into()];
        settings.push("txn_checkpoint each 64 MiB of log".into());
        settings.push(format!("set_cachesize={cache}"));
        settings.push(if log == Log::None {
            "no transactions, no log".into()
        } else {
            "DB_INIT_TXN, DB_AUTO_COMMIT, a synced commit each".into()
        });
        let name = CString::new(folder.as_os_str().as_bytes());
        let name = name.map_err(|source| failed("Berkeley DB")(Box::new(source)))?;
        let mut handle = ptr::null_mut();
        // SAFETY: the name ends with zero and outlives the call, which sets the handle if it is well.
        found(unsafe {
            bench_bdb_open(name.as_ptr(), c_int::from(log == Log::Transactions), cache, &mut handle)
        })?;
        Ok(Berkeley { handle, settings })
    }
}

impl Drop for Berkeley {
    fn drop(&mut self) {
        // SAFETY: opened by `new`, and no client outlives this.
        unsafe { bench_bdb_close(self.handle) }
    }
}

impl Rival for Berkeley {
    fn settings(&self) -> Vec<String> {
        self.settings.clone()
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl Client for &Berkeley {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let (at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the slices live through the call, which copies them.
        found(unsafe { bench_bdb_put(self.handle, at, key.len(), value_at, value.len()) }).map(drop)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let room = out.capacity().max(64);
        out.clear();
        out.resize(room, 0);
        loop {
            let mut len = out.len();
            // SAFETY: the buffer has `len` bytes, and the call writes no more than that.
            let code = unsafe {
                let (at, value_at) = (key.as_ptr().cast(), out.as_mut_ptr().cast());
                bench_bdb_get(self.handle, at, key.len(), value_at, &mut len)
            };
            // SAFETY: a constant of berkeley.c.
            if code == unsafe { bench_bdb_buffer_small } {
                out.resize(len, 0);
                continue;
            }
            let is_there = found(code)?;
            out.truncate(len);
            return Ok(is_there);
        }
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        // SAFETY: as in `put`.
        found(unsafe { bench_bdb_del(self.handle, key.as_ptr().cast(), key.len()) })
    }

    fn write(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let mut txn = ptr::null_mut();
        // SAFETY: the call sets the transaction if it is well, which ends below.
        found(unsafe { bench_bdb_begin(self.handle, &mut txn) })?;
        let mut is_well = Ok(true);
        for change in changes {
            // SAFETY: as in `put` and `remove`; the transaction has not ended.
            let code = unsafe {
                match *change {
                    Change::Put { key, value } => bench_bdb_txn_put(
                        self.handle,
                        txn,
                        key.as_ptr().cast(),
                        key.len(),
                        value.as_ptr().cast(),
                        value.len(),
                    ),
                    Change::Remove { key } => {
                        bench_bdb_txn_del(self.handle, txn, key.as_ptr().cast(), key.len())
                    }
                }
            };
            is_well = found(code);
            if is_well.is_err() {
                break;
            }
        }
        // SAFETY: the transaction was begun above, and nothing uses it after this.
        found(unsafe { bench_bdb_end(self.handle, txn, c_int::from(is_well.is_ok())) })?;
        is_well.map(drop)
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let (mut name, mut value, mut count) = ([0_u8; 1024], [0_u8; 16 << 10], len);
        name[..key.len()].copy_from_slice(key);
        let (name_at, value_at) = (name.as_mut_ptr().cast(), value.as_mut_ptr().cast());
        // SAFETY: both buffers have the given size.
        found(unsafe {
            let (room, value_room) = (name.len(), value.len());
            bench_bdb_scan(self.handle, name_at, key.len(), room, value_at, value_room, &mut count)
        })?;
        Ok(Some(count))
    }
}

/// An environment with a hash table or a B-tree of numbers, for benchmarks of heaps.
pub(super) struct BerkeleyKeys {
    handle: *mut Handle,
    /// Its file.
    path: PathBuf,
}

// SAFETY: environment and database are opened with DB_THREAD: threads may share them.
unsafe impl Sync for BerkeleyKeys {}

/// What it was given that is not its default, for the page.
pub(super) const SETTINGS_SMALL: &str = "set_pagesize=4096, set_cachesize=8 GiB, set_lg_bsize=8 MiB, DB_LOG_AUTO_REMOVE, DB_LOCK_DEFAULT, DB_RMW where a change follows, txn_checkpoint each 64 MiB of log, a synced transaction each";

impl BerkeleyKeys {
    pub(super) fn new(folder: &Path, is_hashed: bool) -> Result<BerkeleyKeys, Error> {
        let name = CString::new(folder.as_os_str().as_bytes());
        let name = name.map_err(|source| failed("Berkeley DB")(Box::new(source)))?;
        let (mut handle, hashed) = (ptr::null_mut(), c_int::from(is_hashed));
        // SAFETY: the name ends with zero and outlives the call, which sets the handle if it is well.
        found(unsafe { bench_bdb_open_small(name.as_ptr(), hashed, CACHE_BYTES, &mut handle) })?;
        let keys = BerkeleyKeys { handle, path: folder.join("bench.db") };
        keys.sync_commits(false)?;
        Ok(keys)
    }

    fn sync_commits(&self, is_synced: bool) -> Result<(), Error> {
        // SAFETY: the handle lives as long as this.
        found(unsafe { bench_bdb_sync_commits(self.handle, c_int::from(is_synced)) }).map(drop)
    }
}

impl Drop for BerkeleyKeys {
    fn drop(&mut self) {
        // SAFETY: opened by `new`, and nothing uses it after this.
        unsafe { bench_bdb_close(self.handle) }
    }
}

/// A transaction that is under way.
struct UnderWay<'b> {
    file: &'b BerkeleyKeys,
    txn: *mut Transaction,
    /// It was chosen to end, so that another could go on.
    is_deadlocked: bool,
}

impl UnderWay<'_> {
    fn found(&mut self, code: c_int) -> Result<bool, Error> {
        // SAFETY: a constant of berkeley.c.
        self.is_deadlocked |= code == unsafe { bench_bdb_deadlock };
        found(code)
    }
}

impl Keyed for UnderWay<'_> {
    type Fault = Error;

    fn get(&mut self, key: u64, changes: bool, out: &mut Vec<u8>) -> Result<bool, Error> {
        let key = key.to_be_bytes();
        out.resize(out.capacity().max(64), 0);
        loop {
            let mut len = out.len();
            // SAFETY: key and buffer live through the call, which writes `len` bytes at most; the transaction has not ended.
            let code = unsafe {
                let (at, to) = (key.as_ptr().cast(), out.as_mut_ptr().cast());
                let (handle, changes) = (self.file.handle, c_int::from(changes));
                bench_bdb_txn_get(handle, self.txn, at, key.len(), to, &mut len, changes)
            };
            // SAFETY: a constant of berkeley.c.
            if code == unsafe { bench_bdb_buffer_small } {
                out.resize(len, 0);
                continue;
            }
            let is_there = self.found(code)?;
            out.truncate(if is_there { len } else { 0 });
            return Ok(is_there);
        }
    }

    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), Error> {
        let key = key.to_be_bytes();
        let (at, from) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: key and value live through the call, which copies them; the transaction has not ended.
        let code = unsafe {
            bench_bdb_txn_put(self.file.handle, self.txn, at, key.len(), from, value.len())
        };
        self.found(code).map(drop)
    }

    fn remove(&mut self, key: u64) -> Result<(), Error> {
        let key = key.to_be_bytes();
        // SAFETY: as in `put`.
        let code = unsafe {
            bench_bdb_txn_del(self.file.handle, self.txn, key.as_ptr().cast(), key.len())
        };
        self.found(code).map(drop)
    }
}

impl KeyedFile for BerkeleyKeys {
    fn atomic(
        &self,
        body: &mut dyn FnMut(&mut dyn Keyed<Fault = Error>) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        loop {
            let mut txn = ptr::null_mut();
            // SAFETY: the call sets the transaction if it is well, which ends below.
            found(unsafe { bench_bdb_begin(self.handle, &mut txn) })?;
            let mut under_way = UnderWay { file: self, txn, is_deadlocked: false };
            let answer = body(&mut under_way);
            let is_deadlocked = under_way.is_deadlocked;
            // SAFETY: the transaction was begun above, and nothing uses it after this.
            found(unsafe { bench_bdb_end(self.handle, txn, c_int::from(answer.is_ok())) })?;
            if !is_deadlocked {
                return answer;
            }
        }
    }

    fn filled(&self) -> Result<(), Error> {
        self.sync_commits(true)
    }

    fn size(&self) -> Result<u64, Error> {
        // SAFETY: the handle lives as long as this.
        found(unsafe { bench_bdb_flush(self.handle) })?;
        let found = std::fs::metadata(&self.path);
        let len = found.map_err(|source| Error::Folder { path: self.path.clone(), source })?.len();
        Ok(len)
    }
}
