//! Latches of the shape of devices: transactions that only write blocks go beside each other, what changes the length or
//! removes the device goes alone. Volatile.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// That of one device.
#[derive(Debug, Default)]
pub(crate) struct Latch {
    shape: RwLock<()>,
    pending: AtomicUsize,
}

/// Those of the devices that have handles, by number.
#[derive(Debug, Default)]
pub(crate) struct Latches(Mutex<HashMap<u32, Weak<Latch>>>);

/// A latch that is held.
#[expect(dead_code, reason = "held, not read")]
pub(crate) enum Held<'l> {
    /// Beside others.
    Blocks(RwLockReadGuard<'l, ()>),
    /// Alone.
    Shape(RwLockWriteGuard<'l, ()>),
}

/// A transaction has written to the device, and is not over.
#[derive(Debug)]
pub(crate) struct InUse(Arc<Latch>);

impl Latches {
    pub(crate) fn of(&self, number: u32) -> Arc<Latch> {
        let mut known = self.0.lock();
        if let Some(latch) = known.get(&number).and_then(Weak::upgrade) {
            return latch;
        }
        known.retain(|_, latch| latch.strong_count() > 0);
        let latch = Arc::new(Latch::default());
        known.insert(number, Arc::downgrade(&latch));
        latch
    }
}

impl Latch {
    pub(crate) fn hold(&self, changes_shape: bool) -> Held<'_> {
        match changes_shape {
            true => Held::Shape(self.shape.write()),
            false => Held::Blocks(self.shape.read()),
        }
    }

    /// Transactions that have written to the device and are not over.
    pub(crate) fn pending(&self) -> usize {
        self.pending.load(Ordering::SeqCst)
    }

    pub(crate) fn begin_use(self: &Arc<Latch>) -> InUse {
        self.pending.fetch_add(1, Ordering::SeqCst);
        InUse(self.clone())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.pending.fetch_sub(1, Ordering::SeqCst);
    }
}
