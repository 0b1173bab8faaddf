//! What safe code may try: each size, offset and order of calls ends in an error or in a result.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![forbid(unsafe_code)]

use std::path::Path;
use std::sync::Arc;

use tembo_pmem::thread::EventCount;
use tembo_pmem::{
    Disk, DomainRequest, Emulation, Error, FlushInstruction, HEADER_SIZE, LINE, OsDisk, Region,
    RegionOptions, SIZE_MAX, Table, WholeObject, Word, media,
};
use tembo_sim::SimDisk;
use zerocopy::FromZeros;

fn volatile(size: u64) -> Region {
    let options = RegionOptions { size_max: 1 << 30, ..RegionOptions::default() };
    Region::volatile(size, &options).unwrap()
}

fn odd_sizes() -> Vec<u64> {
    let around = (47..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 4097]);
    let ends = [0, 1, 4096, 4097, (1 << 21) - 4097, 1 << 21].map(|less| u64::MAX - less);
    around.chain(ends).collect()
}

#[test]
fn a_region_that_cannot_be_addressed_is_an_error() {
    for size in odd_sizes() {
        assert!(Region::volatile(size, &RegionOptions::default()).is_err(), "{size:#x}");
    }
    let result = Region::volatile(u64::MAX, &RegionOptions::default());
    assert!(matches!(result, Err(Error::Oversize { size: u64::MAX, size_max: SIZE_MAX })));
    // As much as there is.
    let options = RegionOptions { size_max: u64::MAX, ..RegionOptions::default() };
    let region = Region::volatile(4096, &options).unwrap();
    assert!(region.report().size_max < SIZE_MAX);
    for size in odd_sizes() {
        assert!(region.grow(size).is_err(), "{size:#x}");
    }
    assert_eq!(region.size(), 4096);
}

#[test]
fn a_file_that_cannot_be_addressed_is_an_error_and_leaves_nothing() {
    let path = Path::new("/disk/pool");
    for size in odd_sizes().into_iter().filter(|size| *size > SIZE_MAX) {
        let disk = SimDisk::default();
        let options = RegionOptions {
            domain: DomainRequest::Logged,
            disk: Arc::new(disk.clone()),
            background: false,
            ..RegionOptions::default()
        };
        let format = |_: &Region| Ok::<(), Error>(());
        let made = Region::create(path, size, &options, format);
        assert!(matches!(made, Err(Error::Oversize { .. })), "{size:#x}");
        let options = RegionOptions { log_size: size, ..options };
        let made = Region::create(path, 1 << 16, &options, format);
        assert!(matches!(made, Err(Error::Oversize { .. })), "{size:#x}");
        assert!(matches!(Region::open(path, &options), Err(Error::Oversize { .. })), "{size:#x}");
        assert!(disk.content(path).is_none());
    }
}

#[test]
fn no_offset_and_length_lead_out_of_the_region() {
    let region = volatile(8192);
    let most = u64::MAX;
    for (offset, len) in [(0, 8193), (8192, 1), (most, 1), (1, most), (most, most), (8193, 0)] {
        assert!(region.media_bytes(offset, len).is_err(), "{offset:#x} {len:#x}");
        let count = usize::try_from(len).unwrap_or(usize::MAX);
        assert!(region.words(offset / 8 * 8, count).is_err() || len == 0);
        // What goes nowhere does nothing.
        region.flush("test.flush", offset, len);
        region.prefetch(offset);
        region.prefault(offset, len);
        region.make_large_pages(offset, len);
        region.write_lines(offset, len);
    }
    for count in [1 << 60, 1 << 61, (1 << 61) + 1, usize::MAX] {
        assert!(region.words(0, count).is_err());
        assert!(region.slice::<[Word; 8]>(0, count).is_err());
    }
    assert!(region.words(4, 1).is_err(), "misaligned");
    assert_eq!(region.media_bytes(8192, 0).unwrap().len(), 0);
    region.fence("test.fence");
}

#[test]
fn a_record_longer_than_memory_is_an_error() {
    let region = volatile(8192);
    // Memory that is not there until it is touched.
    let part = Table::<u8>::new(1 << 44).unwrap();
    let parts = vec![part.as_slice(); 1 << 20];
    // All lengths together are 2⁶⁴.
    assert!(matches!(region.write("test.write", 4096, &parts), Err(Error::Fault(_))));
    assert!(matches!(region.write("test.write", u64::MAX, &[b"a"]), Err(Error::Fault(_))));
    assert!(matches!(region.write("test.write", 8192, &[b"a"]), Err(Error::Fault(_))));
    let lines = vec![[1_u64; 8]; 65];
    for offset in [0, 4096, u64::MAX / 64 * 64, 1] {
        assert!(region.write_node("test.write_node", offset, &lines, u64::MAX).is_err());
    }
    assert!(region.words(0, 1024).unwrap().iter().all(|word| word.load() == 0));
}

#[test]
fn a_word_of_elsewhere_is_stored_to_where_it_lies() {
    let (region, other) = (volatile(8192), volatile(8192));
    let elsewhere = Word::new_zeroed();
    let others = &other.words(4096, 8).unwrap()[1];
    for (word, value) in [(&elsewhere, 5), (others, 6)] {
        region.store(word, value);
        region.flush("test.flush_elsewhere", region.offset_of(word), 8);
        let mut stores = region.line_stores();
        stores.commit("test.commit", word, value);
        stores.flush("test.flush_line", word);
        assert!(region.offset_of(word) >= region.size());
        assert!(region.words(region.offset_of(word), 1).is_err());
        assert_eq!(word.load(), value);
    }
    assert!(region.words(0, 1024).unwrap().iter().all(|word| word.load() == 0));
}

#[test]
fn an_instruction_that_the_processor_lacks_is_refused() {
    use FlushInstruction::{Clflush, Clflushopt, Clwb};
    for instruction in [Clwb, Clflushopt, Clflush] {
        let dir = tempfile();
        let path = dir.join("pool");
        let emulation = Emulation { flush: Some(instruction), ..Emulation::default() };
        let options = RegionOptions {
            domain: DomainRequest::Flush,
            emulation: Some(emulation),
            ..RegionOptions::default()
        };
        let made = Region::create(&path, 1 << 16, &options, |_| Ok::<(), Error>(()));
        assert_eq!(made.is_ok(), instruction.is_supported(), "{instruction:?}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}

fn tempfile() -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("tembo-soundness-{}-{number}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn threads_that_grow_a_region_lose_no_store_and_no_byte() {
    for _ in 0..20 {
        let region = volatile(4096);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let region = &region;
                scope.spawn(move || {
                    for round in 1..50 {
                        let size = (round * 4 + thread) * 4096;
                        region.grow(size).unwrap();
                        assert!(region.size() >= size);
                        // Each thread has its own words of each page.
                        let word = &region.words(size - 4096 + thread * 8, 1).unwrap()[0];
                        region.store(word, round);
                    }
                });
            }
        });
        for thread in 0..4_u64 {
            for round in 1..50 {
                let at = (round * 4 + thread - 1) * 4096 + thread * 8;
                assert_eq!(region.words(at, 1).unwrap()[0].load(), round);
            }
        }
    }
}

media! {
    struct Entry {
        version: Word,
        value: [Word; 3],
    }
}

#[test]
fn a_struct_of_words_shows_every_store() {
    let region = volatile(8192);
    let entry: &Entry = region.get(4096 + LINE).unwrap();
    let bytes = region.media_bytes(4096 + LINE, 32).unwrap();
    region.store(&entry.version, 7);
    region.write("test.value", 4096 + LINE + 8, &[b"eight by", b"tes"]).unwrap();
    assert_eq!((entry.version.load(), bytes.read::<u64>(0)), (7, Some(7)));
    assert_eq!(entry.value[0].load(), u64::from_le_bytes(*b"eight by"));
    assert!(bytes.slice(8..19).unwrap().eq_bytes(b"eight bytes"));
    assert!(region.get::<Entry>(4096 + 4).is_err() && region.get::<Entry>(8192 - 24).is_err());
    assert_eq!(size_of::<Entry>(), 32);
}

#[test]
fn a_range_of_bytes_is_looked_at_within_its_bounds() {
    let region = volatile(8192);
    region.write("test.write_bytes", HEADER_SIZE, &[b"it does not forget"]).unwrap();
    let bytes = region.media_bytes(HEADER_SIZE, 18).unwrap();
    let outside = [(0, 19), (18, 19), (19, 19), (2, 1), (usize::MAX, usize::MAX), (0, usize::MAX)];
    for (start, end) in outside {
        assert!(bytes.slice(start..end).is_none());
    }
    assert!(bytes.split_at(19).is_none() && bytes.byte(18).is_none());
    assert!(bytes.read::<u64>(11).is_none() && bytes.read::<u64>(usize::MAX).is_none());
    let (one, other) = bytes.split_at(2).unwrap();
    assert!(one.eq_bytes(b"it") && !one.eq_bytes(b"is") && !one.eq_bytes(b"its"));
    assert_eq!((other.byte(1), other.len(), other.is_empty()), (Some(b'd'), 16, false));
    assert!(bytes.starts_with(b"it ") && bytes.starts_with(b"") && !bytes.starts_with(&[b'i'; 19]));
    assert_eq!(bytes.common_prefix_len(b"it does not know"), 12);
    assert_eq!(bytes.cmp_bytes(b"it does"), std::cmp::Ordering::Greater);
    assert_eq!(bytes.cmp_bytes(b"it does not forget us"), std::cmp::Ordering::Less);
    assert_eq!(bytes.crc32c(0), crc32c::crc32c(b"it does not forget"));
    assert_eq!(other.crc32c(one.crc32c(0)), bytes.crc32c(0));
    let mut copy = [0; 18];
    bytes.copy_to(&mut copy);
    assert_eq!(&copy, b"it does not forget");
    let mut all = b"> ".to_vec();
    other.append_to(&mut all);
    assert_eq!(all, b">  does not forget");
}

const SIZE: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// A pool in the `logged` domain, over a file that is mapped or one that is copied into memory, and its place.
fn logged(disk: Arc<dyn Disk>, dir: &Path) -> (Region, RegionOptions, std::path::PathBuf) {
    let options = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: 4 * SIZE,
        log_size: 256 << 10,
        disk,
        background: false,
        // Pages come one by one: hints have an effect.
        memory: Some(64 << 10),
        ..RegionOptions::default()
    };
    let path = dir.join("pool");
    let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(())).unwrap();
    (region, options, path)
}

/// Has `work` try a pool of each kind; the pool can be opened afterwards, and the rest of the memory is as before.
fn on_both(work: impl Fn(&Region)) {
    for is_file in [true, false] {
        let dir = tempfile();
        let disk: Arc<dyn Disk> =
            if is_file { Arc::new(OsDisk) } else { Arc::new(SimDisk::default()) };
        let (region, options, path) = logged(disk, &dir);
        work(&region);
        region.sync().unwrap();
        drop(region);
        let region = Region::open(&path, &options).unwrap();
        work(&region);
        region.close().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}

fn wild_ranges() -> Vec<(u64, u64)> {
    let ends = [0, 1, PAGE, SIZE - PAGE, SIZE, SIZE + 1, 4 * SIZE, u64::MAX - PAGE + 1, u64::MAX];
    let ranges = ends.iter().flat_map(|offset| ends.iter().map(move |len| (*offset, *len)));
    ranges.filter(|(offset, len)| offset.checked_add(*len).is_none_or(|end| end > SIZE)).collect()
}

#[test]
fn a_hint_of_any_range_is_a_hint() {
    on_both(|region| {
        for (offset, len) in wild_ranges() {
            region.will_read(offset, len);
            region.will_read_now(offset, len);
            region.prefault(offset, len);
            region.will_store(offset, len);
            region.make_large_pages(offset, len);
            region.prefetch(offset);
            assert!(!region.frees().is_settled(offset, 0) || region.frees().is_logged());
        }
        assert_eq!(region.size(), SIZE);
    });
}

#[test]
fn a_hole_of_any_range_leaves_what_is_outside_of_it() {
    on_both(|region| {
        for (offset, len) in wild_ranges() {
            assert!(
                matches!(region.punch(offset, len), Err(Error::Fault(_))),
                "{offset:#x} {len:#x}"
            );
        }
        for (offset, len) in
            [(0, PAGE), (HEADER_SIZE, 0), (HEADER_SIZE + 1, PAGE), (PAGE, PAGE - 1)]
        {
            assert!(
                matches!(region.punch(offset, len), Err(Error::Fault(_))),
                "{offset:#x} {len:#x}"
            );
        }
        // Space that is in use, while a thread looks at it.
        let end = SIZE - PAGE;
        let words = region.words(end, 512).unwrap();
        let bytes = region.media_bytes(end, PAGE).unwrap();
        region.punch(end, PAGE).unwrap();
        assert!(words.iter().all(|word| word.load() == 0));
        assert!(bytes.to_vec().iter().all(|byte| *byte == 0));
    });
}

#[test]
fn objects_that_share_bytes_are_wrong_values_and_no_more() {
    const AT: u64 = SIZE / 2;
    let bytes = vec![7_u8; 256 << 10];
    on_both(|region| {
        let object = |offset: u64, len: u64| WholeObject { offset, bytes: &bytes[..len as usize] };
        let _section = region.reserve(256).unwrap();
        for (offset, len) in [(0, PAGE), (SIZE, 1), (SIZE - PAGE, 2 * PAGE), (u64::MAX, 1)] {
            let found = region.write_together(&[object(AT, PAGE), object(offset, len)]);
            assert!(matches!(found, Err(Error::Fault(_))), "{offset:#x}");
            let found = region.write_object("test.object", offset, &[&bytes[..len as usize]], len);
            assert!(matches!(found, Err(Error::Fault(_))), "{offset:#x}");
        }
        for room in [SIZE, u64::MAX] {
            let found = region.write_object("test.room", AT, &[&bytes[..64]], room);
            assert!(matches!(found, Err(Error::Fault(_))), "{room:#x}");
        }
        // Less room than bytes.
        region.write_object("test.room", SIZE - PAGE, &[&bytes[..4096]], 1).unwrap();
        let [one, two, half] = [128 << 10, 256 << 10, PAGE / 2];
        let together = [
            vec![object(AT, one), object(AT, one)],
            vec![object(AT, two), object(AT + PAGE, one), object(AT + half, one)],
            vec![object(AT, half), object(AT, half), object(AT + half, half), object(AT, two)],
            vec![object(AT, 0), object(AT, 0), object(AT, one), object(SIZE, 0)],
        ];
        for objects in together {
            let written = region.write_together(&objects).unwrap();
            assert_eq!(written.len(), objects.len());
        }
        let after = region.media_bytes(AT + two, SIZE - PAGE - AT - two).unwrap().to_vec();
        assert!(after.iter().all(|byte| *byte == 0), "something was written behind them");
        region.hand_over();
        region.fence("test.fence");
    });
}

#[test]
fn a_pool_that_is_closed_at_any_size_is_a_pool() {
    for size in [0, 1, PAGE + 1, SIZE, SIZE + 1, u64::MAX - PAGE, u64::MAX - 1, u64::MAX] {
        let dir = tempfile();
        let (region, options, path) = logged(Arc::new(OsDisk), &dir);
        region.close_at(size).unwrap();
        let region = Region::open(&path, &options).unwrap();
        let wanted = size.clamp(2 * HEADER_SIZE, SIZE).next_multiple_of(PAGE);
        assert_eq!(region.size(), wanted, "{size:#x}");
        std::fs::remove_dir_all(dir).unwrap();
        let region = volatile(SIZE);
        region.close_at(size).unwrap();
    }
}

/// A program that reads and writes it in spite of its description meets a wake too many or too few.
#[test]
fn a_descriptor_that_others_read_and_write_is_still_one() {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    let event = EventCount::default();
    let descriptor = event.subscribe().unwrap();
    let mut file = std::fs::File::from(descriptor.as_fd().try_clone_to_owned().unwrap());
    file.read_exact(&mut [0; 8]).unwrap();
    assert!(!event.rearm(&descriptor, || false));
    // As many as there may be: a wake finds no room for its own.
    file.write_all(&(u64::MAX - 1).to_ne_bytes()).unwrap();
    event.notify();
    assert!(event.rearm(&descriptor, || true));
    drop(descriptor);
    event.interrupt();
    file.read_exact(&mut [0; 8]).unwrap();
}
