//! Berkeley DB 5.3, by Debian's shared library and a few lines of C (`berkeley.c`): a B-tree in place
//! with a write-ahead log. Each change is a transaction of its own, synced when it commits, as it comes.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::opened::{Change, Client, Rival, Share, failed};
use crate::Error;

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
