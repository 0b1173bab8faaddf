//! Who reads which version.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tembo_index::Retained;

/// The visible version and the pinned ones.
pub(crate) struct Pins {
    visible: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// How many hold each version.
    pins: BTreeMap<u64, usize>,
    cached: Option<Arc<Retained>>,
}

impl Pins {
    pub(crate) fn new(visible: u64) -> Pins {
        Pins { visible: AtomicU64::new(visible), table: Mutex::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// Every version up to `version` is fenced. By the one writer.
    pub(crate) fn publish(&self, version: u64) {
        self.visible.store(version, Ordering::Release);
    }

    /// Pins the visible version and returns it.
    pub(crate) fn pin_visible(&self) -> u64 {
        let mut table = self.table();
        let version = self.visible();
        table.add(version);
        version
    }

    /// Pins a version that somebody pins already, or that is visible.
    pub(crate) fn pin_retained(&self, version: u64) -> bool {
        let mut table = self.table();
        let retained = version == self.visible() || table.pins.contains_key(&version);
        if retained {
            table.add(version);
        }
        retained
    }

    /// Pins a version as said by what is durable.
    pub(crate) fn pin(&self, version: u64) {
        self.table().add(version);
    }

    pub(crate) fn unpin(&self, version: u64) {
        let mut table = self.table();
        if let Some(count) = table.pins.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                table.pins.remove(&version);
                table.cached = None;
            }
        }
    }

    /// The pinned versions above `version`, and how many hold each.
    pub(crate) fn above(&self, version: u64) -> Vec<(u64, usize)> {
        self.table().pins.range(version + 1..).map(|(&pin, &count)| (pin, count)).collect()
    }

    /// What is retained now.
    pub(crate) fn retained(&self) -> Arc<Retained> {
        let mut table = self.table();
        let visible = self.visible();
        match &table.cached {
            Some(cached) if cached.visible() == visible => cached.clone(),
            _ => {
                let pins = table.pins.keys().copied().collect();
                let retained = Arc::new(Retained::new(visible, pins));
                table.cached = Some(retained.clone());
                retained
            }
        }
    }
}

impl Table {
    fn add(&mut self, version: u64) {
        let count = self.pins.entry(version).or_default();
        *count += 1;
        if *count == 1 {
            self.cached = None;
        }
    }
}
