//! A thread changes a region while its thread-local values are being dropped.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};
use tembo_sim::SimDisk;

/// Reserves when its thread ends, and says what came of it.
struct AtEnd(Arc<Region>, Sender<Result<(), Error>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.reserve(1).map(drop));
    }
}

thread_local! {
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// What it flushes would be noted nowhere, and a sync would acknowledge it.
#[test]
fn a_thread_whose_notes_are_gone_is_refused_and_keeps_no_room() {
    let options = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: 1 << 20,
        log_size: 64 << 10,
        disk: Arc::new(SimDisk::default()),
        background: false,
        ..RegionOptions::default()
    };
    let path = std::path::Path::new("/disk/pool");
    let region = Region::create(path, 1 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
    let region = Arc::new(region);
    for _ in 0..500 {
        let (says, said) = channel();
        let of_thread = region.clone();
        let thread = std::thread::spawn(move || {
            // Values are dropped in the reverse order of their first use.
            AT_END.with_borrow_mut(|at_end| *at_end = Some(AtEnd(of_thread.clone(), says)));
            let _section = of_thread.reserve(1).unwrap();
            of_thread.store(&of_thread.words(HEADER_SIZE, 1).unwrap()[0], 1);
            of_thread.flush("test.put", HEADER_SIZE, 8);
            of_thread.fence("test.fence");
        });
        thread.join().unwrap();
        let refused = said.recv().unwrap();
        assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    }
    drop(region.reserve(1).unwrap());
}
