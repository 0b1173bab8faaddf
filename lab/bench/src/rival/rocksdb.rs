//! RocksDB, by Debian's shared library and its C interface: a log-structured merge tree with
//! `sync = true` for each change.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::opened::{Client, Rival, failed};
use crate::Error;

/// Memory that its guide to tuning would give a database of this size.
const MEMORY: u64 = 512 << 20;

// What the library gives pointers to, whose fields are not used.
enum Database {}
enum Options {}
enum ReadOptions {}
enum WriteOptions {}
enum Iterator {}

// From `rocksdb/c.h`, whose functions keep their signatures from version to version.
#[link(name = "rocksdb")]
// SAFETY: these are the signatures of that header.
unsafe extern "C" {
    fn rocksdb_options_create() -> *mut Options;
    fn rocksdb_options_destroy(options: *mut Options);
    fn rocksdb_options_set_create_if_missing(options: *mut Options, yes: c_uchar);
    fn rocksdb_options_increase_parallelism(options: *mut Options, threads: c_int);
    fn rocksdb_options_optimize_level_style_compaction(options: *mut Options, memory: u64);
    fn rocksdb_open(
        options: *const Options,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Database;
    fn rocksdb_close(database: *mut Database);
    fn rocksdb_readoptions_create() -> *mut ReadOptions;
    fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
    fn rocksdb_writeoptions_create() -> *mut WriteOptions;
    fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
    fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, yes: c_uchar);
    fn rocksdb_put(
        database: *mut Database,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_delete(
        database: *mut Database,
        options: *const WriteOptions,
        key: *const c_char,
        key_len: usize,
        error: *mut *mut c_char,
    );
    fn rocksdb_get(
        database: *mut Database,
        options: *const ReadOptions,
        key: *const c_char,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn rocksdb_create_iterator(
        database: *mut Database,
        options: *const ReadOptions,
    ) -> *mut Iterator;
    fn rocksdb_iter_destroy(iterator: *mut Iterator);
    fn rocksdb_iter_seek(iterator: *mut Iterator, key: *const c_char, key_len: usize);
    fn rocksdb_iter_valid(iterator: *const Iterator) -> c_uchar;
    fn rocksdb_iter_next(iterator: *mut Iterator);
    fn rocksdb_iter_value(iterator: *const Iterator, len: *mut usize) -> *const c_char;
    fn rocksdb_free(at: *mut c_void);
}

/// An open database with the options of its calls.
pub(super) struct RocksDb {
    database: *mut Database,
    read: *mut ReadOptions,
    write: *mut WriteOptions,
}

// SAFETY: RocksDB's database may be used by several threads at once, and no thread changes the options.
unsafe impl Sync for RocksDb {}

/// What an `errptr` says.
fn succeeded(error: *mut c_char) -> Result<(), Error> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB gives a string that ends with zero and belongs to the caller.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        text
    };
    Err(failed("RocksDB")(text.into()))
}

impl RocksDb {
    pub(super) fn new(folder: &Path) -> Result<RocksDb, Error> {
        let name = CString::new(folder.join("rocksdb").as_os_str().as_bytes());
        let name = name.map_err(|source| failed("RocksDB")(Box::new(source)))?;
        let mut error = ptr::null_mut();
        // SAFETY: each object is made by the library, used as its header says and freed once; the
        // name outlives the call.
        let database = unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_increase_parallelism(options, 2);
            rocksdb_options_optimize_level_style_compaction(options, MEMORY);
            let database = rocksdb_open(options, name.as_ptr(), &mut error);
            rocksdb_options_destroy(options);
            database
        };
        succeeded(error)?;
        // SAFETY: as above.
        let (read, write) = unsafe {
            let write = rocksdb_writeoptions_create();
            rocksdb_writeoptions_set_sync(write, 1);
            (rocksdb_readoptions_create(), write)
        };
        Ok(RocksDb { database, read, write })
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and no client outlives this.
        unsafe {
            rocksdb_readoptions_destroy(self.read);
            rocksdb_writeoptions_destroy(self.write);
            rocksdb_close(self.database);
        }
    }
}

impl Rival for RocksDb {
    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self))
    }
}

impl Client for &RocksDb {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let mut error = ptr::null_mut();
        let (at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the slices live through the call, which copies them.
        unsafe {
            rocksdb_put(
                self.database,
                self.write,
                at,
                key.len(),
                value_at,
                value.len(),
                &mut error,
            );
        }
        succeeded(error)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let (mut error, mut len) = (ptr::null_mut(), 0);
        let at = key.as_ptr().cast();
        // SAFETY: as in `put`; `len` is set with the value.
        let value =
            unsafe { rocksdb_get(self.database, self.read, at, key.len(), &mut len, &mut error) };
        succeeded(error)?;
        out.clear();
        if value.is_null() {
            return Ok(false);
        }
        // SAFETY: the library gives `len` bytes that belong to the caller, which frees them once.
        unsafe {
            out.extend_from_slice(std::slice::from_raw_parts(value.cast(), len));
            rocksdb_free(value.cast());
        }
        Ok(true)
    }

    /// It does not say whether the key was there, so the caller is believed.
    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        let mut error = ptr::null_mut();
        let at = key.as_ptr().cast();
        // SAFETY: as in `put`.
        unsafe { rocksdb_delete(self.database, self.write, at, key.len(), &mut error) };
        succeeded(error)?;
        Ok(true)
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let mut count = 0;
        // SAFETY: the iterator is made, used while it is valid, and destroyed, here; what it points
        // to is looked at before it moves.
        unsafe {
            let iterator = rocksdb_create_iterator(self.database, self.read);
            rocksdb_iter_seek(iterator, key.as_ptr().cast(), key.len());
            while count < len && rocksdb_iter_valid(iterator) != 0 {
                let mut value_len = 0;
                std::hint::black_box(*rocksdb_iter_value(iterator, &mut value_len));
                count += 1;
                rocksdb_iter_next(iterator);
            }
            rocksdb_iter_destroy(iterator);
        }
        Ok(Some(count))
    }
}
