//! Any bytes from a client.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use tembo_torture::fuzz::{Face, Fate, TalkFace};

thread_local! {
    static FACE: RefCell<TalkFace> = RefCell::new(TalkFace::new().expect("a server"));
}

fuzz_target!(|bytes: &[u8]| {
    if let Fate::Wrong(what) = FACE.with_borrow_mut(|face| face.offer(bytes)) {
        panic!("{what}");
    }
});
