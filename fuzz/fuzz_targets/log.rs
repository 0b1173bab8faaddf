//! Any bytes as a log: as they are, and with their checksums made right.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use tembo_torture::fuzz::{Face, Fate, FileFace, Kind, repair_log, whole};

thread_local! {
    static FACE: RefCell<FileFace> = RefCell::new(FileFace::log().expect("a folder"));
}

fuzz_target!(|bytes: &[u8]| {
    let mut repaired = whole(Kind::Log, bytes);
    repair_log(&mut repaired);
    FACE.with_borrow_mut(|face| {
        for bytes in [bytes, &repaired] {
            if let Fate::Wrong(what) = face.offer(bytes) {
                panic!("{what}");
            }
        }
    });
});
