//! RocksDB, by Debian's shared library and its C interface: a log-structured merge tree with
//! `sync = true` for each change.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::opened::{Change, Client, Rival, Share, failed, touch};
use crate::Error;

/// Memory that its guide to tuning would give a database of this size.
const MEMORY: u64 = 512 << 20;

// What the library gives pointers to, whose fields are not used.
enum Database {}
enum Options {}
enum ReadOptions {}
enum WriteOptions {}
enum Iterator {}
enum WriteBatch {}
enum TableOptions {}
enum Cache {}
enum Filter {}

// From `rocksdb/c.h`, whose functions keep their signatures from version to version.
#[link(name = "rocksdb")]
// SAFETY: these are the signatures of that header.
unsafe extern "C" {
    fn rocksdb_options_create() -> *mut Options;
    fn rocksdb_options_destroy(options: *mut Options);
    fn rocksdb_options_set_create_if_missing(options: *mut Options, yes: c_uchar);
    fn rocksdb_options_increase_parallelism(options: *mut Options, threads: c_int);
    fn rocksdb_options_optimize_level_style_compaction(options: *mut Options, memory: u64);
    fn rocksdb_options_set_compression_per_level(
        options: *mut Options,
        kinds: *const c_int,
        levels: usize,
    );
    fn rocksdb_options_set_level_compaction_dynamic_level_bytes(
        options: *mut Options,
        yes: c_uchar,
    );
    fn rocksdb_options_set_bytes_per_sync(options: *mut Options, bytes: u64);
    fn rocksdb_options_set_use_direct_reads(options: *mut Options, yes: c_uchar);
    fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(
        options: *mut Options,
        yes: c_uchar,
    );
    fn rocksdb_options_set_enable_blob_files(options: *mut Options, yes: c_uchar);
    fn rocksdb_options_set_min_blob_size(options: *mut Options, bytes: u64);
    fn rocksdb_options_set_enable_blob_gc(options: *mut Options, yes: c_uchar);
    fn rocksdb_options_set_block_based_table_factory(
        options: *mut Options,
        table: *mut TableOptions,
    );
    fn rocksdb_block_based_options_create() -> *mut TableOptions;
    fn rocksdb_block_based_options_destroy(table: *mut TableOptions);
    fn rocksdb_block_based_options_set_block_cache(table: *mut TableOptions, cache: *mut Cache);
    fn rocksdb_block_based_options_set_filter_policy(table: *mut TableOptions, filter: *mut Filter);
    fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(
        table: *mut TableOptions,
        yes: c_uchar,
    );
    fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
        table: *mut TableOptions,
        yes: c_uchar,
    );
    fn rocksdb_cache_create_lru(bytes: usize) -> *mut Cache;
    fn rocksdb_cache_destroy(cache: *mut Cache);
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut Filter;
    fn rocksdb_writebatch_create() -> *mut WriteBatch;
    fn rocksdb_writebatch_destroy(batch: *mut WriteBatch);
    fn rocksdb_writebatch_put(
        batch: *mut WriteBatch,
        key: *const c_char,
        key_len: usize,
        value: *const c_char,
        value_len: usize,
    );
    fn rocksdb_writebatch_delete(batch: *mut WriteBatch, key: *const c_char, key_len: usize);
    fn rocksdb_write(
        database: *mut Database,
        options: *const WriteOptions,
        batch: *mut WriteBatch,
        error: *mut *mut c_char,
    );
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
    settings: Vec<String>,
}

/// Whether the system's cache of pages is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Io {
    Buffered,
    /// `O_DIRECT` for reads, flushes and compactions.
    Direct,
}

/// No compression: values of this benchmark cannot be made smaller.
const NO_COMPRESSION: c_int = 0;
/// As many as it has by default.
const LEVELS: usize = 7;

/// What its guides to tuning, to block caches, to direct I/O and to BlobDB recommend for so much memory.
fn tune(options: *mut Options, share: Share, io: Io) -> Vec<String> {
    let memtables = share.memory / 4;
    // What the system caches of buffered files comes from the same memory.
    let cache = if io == Io::Direct { share.memory / 2 } else { share.memory / 4 };
    let mut settings = vec![
        format!("OptimizeLevelStyleCompaction({memtables})"),
        "compression_per_level=none".into(),
        "level_compaction_dynamic_level_bytes".into(),
        "bytes_per_sync=1048576".into(),
        format!("block_cache={cache}"),
        "filter_policy=bloom(10)".into(),
        "cache_index_and_filter_blocks".into(),
        "pin_l0_filter_and_index_blocks_in_cache".into(),
    ];
    // SAFETY: each object is made by the library and used as its header says; the options keep what they were given
    // of the filter, the cache and the table's options.
    unsafe {
        rocksdb_options_optimize_level_style_compaction(options, memtables);
        let levels = [NO_COMPRESSION; LEVELS];
        rocksdb_options_set_compression_per_level(options, levels.as_ptr(), levels.len());
        rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
        rocksdb_options_set_bytes_per_sync(options, 1 << 20);
        let (table, blocks) =
            (rocksdb_block_based_options_create(), rocksdb_cache_create_lru(cache as usize));
        rocksdb_block_based_options_set_block_cache(table, blocks);
        rocksdb_cache_destroy(blocks);
        let filter = rocksdb_filterpolicy_create_bloom_full(10.0);
        rocksdb_block_based_options_set_filter_policy(table, filter);
        rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
        rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
        rocksdb_options_set_block_based_table_factory(options, table);
        rocksdb_block_based_options_destroy(table);
        if io == Io::Direct {
            rocksdb_options_set_use_direct_reads(options, 1);
            rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, 1);
            settings.push("use_direct_reads".into());
            settings.push("use_direct_io_for_flush_and_compaction".into());
        }
        if share.has_large_values() {
            rocksdb_options_set_enable_blob_files(options, 1);
            rocksdb_options_set_min_blob_size(options, 1024);
            rocksdb_options_set_enable_blob_gc(options, 1);
            settings.push("enable_blob_files".into());
            settings.push("min_blob_size=1024".into());
            settings.push("enable_blob_garbage_collection".into());
        }
    }
    settings
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
    pub(super) fn new(folder: &Path, io: Io, share: Option<Share>) -> Result<RocksDb, Error> {
        let name = CString::new(folder.join("rocksdb").as_os_str().as_bytes());
        let name = name.map_err(|source| failed("RocksDB")(Box::new(source)))?;
        let mut error = ptr::null_mut();
        let mut settings = vec!["sync=true".into(), "IncreaseParallelism(2)".into()];
        // SAFETY: each object is made by the library, used as its header says and freed once; the
        // name outlives the call.
        let database = unsafe {
            let options = rocksdb_options_create();
            rocksdb_options_set_create_if_missing(options, 1);
            rocksdb_options_increase_parallelism(options, 2);
            match share {
                Some(share) => settings.extend(tune(options, share, io)),
                None => rocksdb_options_optimize_level_style_compaction(options, MEMORY),
            }
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
        Ok(RocksDb { database, read, write, settings })
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
    fn settings(&self) -> Vec<String> {
        self.settings.clone()
    }

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

    fn write(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let mut error = ptr::null_mut();
        // SAFETY: the batch is made, used and destroyed here, and copies what it is given.
        unsafe {
            let batch = rocksdb_writebatch_create();
            for change in changes {
                match *change {
                    Change::Put { key, value } => rocksdb_writebatch_put(
                        batch,
                        key.as_ptr().cast(),
                        key.len(),
                        value.as_ptr().cast(),
                        value.len(),
                    ),
                    Change::Remove { key } => {
                        rocksdb_writebatch_delete(batch, key.as_ptr().cast(), key.len());
                    }
                }
            }
            rocksdb_write(self.database, self.write, batch, &mut error);
            rocksdb_writebatch_destroy(batch);
        }
        succeeded(error)
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
                let value = rocksdb_iter_value(iterator, &mut value_len);
                touch(std::slice::from_raw_parts(value.cast(), value_len));
                count += 1;
                rocksdb_iter_next(iterator);
            }
            rocksdb_iter_destroy(iterator);
        }
        Ok(Some(count))
    }
}
