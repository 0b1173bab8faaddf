//! What holds back the horizon: the versions that are kept, and why.

use std::fmt;

use crate::shared::Shared;

/// The oldest version that is kept, and everything that keeps a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Horizon {
    /// The oldest version that can be read.
    pub version: u64,
    /// The visible version, at which the horizon would be if nothing held it back.
    pub visible: u64,
    /// What holds versions, the oldest version first.
    pub holders: Vec<Holder>,
}

/// Something for which a version is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The version.
    pub version: u64,
    /// What keeps it.
    pub kind: HolderKind,
}

/// Why a version is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HolderKind {
    /// It was named, and is kept until the name is dropped.
    Named(String),
    /// It begins the window: everything after it is kept too.
    Window,
    /// So many followers follow the changes after it; everything after it is kept too.
    Followers(usize),
    /// So many handles read it: snapshots, transactions, or a marking in the background.
    Handles(usize),
    /// Some thread reads a key.
    Read,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            HolderKind::Named(name) => write!(f, "name {name:?}")?,
            HolderKind::Window => write!(f, "window")?,
            HolderKind::Followers(count) => write!(f, "{count} followers")?,
            HolderKind::Handles(count) => write!(f, "{count} handles")?,
            HolderKind::Read => write!(f, "a read")?,
        }
        write!(f, " at {}", self.version)
    }
}

/// See [`Store::horizon`](crate::Store::horizon).
pub(crate) fn horizon(shared: &Shared) -> Horizon {
    let (named, pins) = (shared.names.all(), &shared.versions.pins);
    let (visible, window, followers) =
        pins.with_past(|past, visible| (visible, past.window(), past.followers().clone()));
    let (mut held, reads) = pins.holders();
    let mut holders = Vec::new();
    for (name, version) in named {
        // A name that was dropped or given meanwhile must not be counted twice.
        if let Some(count) = held.get_mut(&version) {
            *count = count.saturating_sub(1);
        }
        holders.push(Holder { version, kind: HolderKind::Named(name) });
    }
    let handles = held.into_iter().filter(|&(_, count)| count > 0);
    holders.extend(handles.map(|(version, n)| Holder { version, kind: HolderKind::Handles(n) }));
    holders.extend(window.map(|version| Holder { version, kind: HolderKind::Window }));
    let followers = followers.into_iter();
    holders
        .extend(followers.map(|(version, n)| Holder { version, kind: HolderKind::Followers(n) }));
    holders.extend(reads.into_iter().map(|version| Holder { version, kind: HolderKind::Read }));
    holders.sort_by(|a, b| (a.version, &a.kind).cmp(&(b.version, &b.kind)));
    let version = holders.first().map_or(visible, |first| first.version.min(visible));
    Horizon { version, visible, holders }
}
