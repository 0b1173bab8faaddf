//! What is tried: scripts for one process after another, on disks that fail or do not.

use std::time::Duration;

use tembo_pmem::SyncPolicy;
use tembo_sim::{Failure, Random};

use super::life::Op;

/// The smallest log.
const SMALL: u64 = 64 << 10;

/// Where a workload begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// No pool: its creation is part of the workload.
    Nothing,
    /// A pool that was made and closed.
    Closed,
    /// A pool that was worked on by a process that died.
    Killed,
}

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing.
    None,
    /// For each call, a run in which that one fails and no other.
    Once(Failure),
    /// For each call, a run in which that one and all after it fail.
    Dying,
    /// The same for the calls of one step.
    OnceAt(&'static str),
    /// For each call of some steps, a run in which the disk is full from that one on, for a while.
    Full,
    /// The disk has no room but what the files have when the workload begins.
    NoRoom,
    /// The same, and what is written once more needs room for a moment: what was begun is made durable all the same.
    NoRoomToCopy,
}

/// One workload.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) start: Start,
    pub(super) policy: SyncPolicy,
    pub(super) log_size: u64,
    pub(super) log_initial: u64,
    pub(super) mapped: bool,
    /// Whether the pool is created as emulated persistent memory.
    pub(super) emulated: bool,
    pub(super) trouble: Trouble,
    /// Every recovery is cut off at each of its steps, not one in some.
    pub(super) is_deep: bool,
    pub(super) ops: Vec<Op>,
}

fn workload(name: &str, start: Start, ops: &[Op]) -> Workload {
    Workload {
        name: name.to_owned(),
        start,
        policy: SyncPolicy::Always,
        log_size: SMALL,
        log_initial: u64::MAX,
        mapped: false,
        emulated: false,
        trouble: Trouble::None,
        is_deep: false,
        ops: ops.to_vec(),
    }
}

/// Work of all kinds, of which some is synced and some is not.
const WORK: &[Op] = &[
    Op::Group(1),
    Op::Sync,
    Op::Group(9),
    Op::Group(3),
    Op::Sync,
    Op::Group(1),
    Op::Checkpoint,
    Op::Group(9),
    Op::Record,
    Op::Sync,
    Op::Group(2),
    Op::Record,
    Op::Group(1),
    Op::Grow,
    Op::Group(9),
    Op::Sync,
    Op::Checkpoint,
    Op::Group(4),
];

/// Records that are written once: into space that is free beyond doubt, and into space that is not.
const ONCE: &[Op] = &[
    Op::Objects,
    Op::Replace,
    Op::Sync,
    // In one sync with the extents: they are not vouched for.
    Op::Unlink,
    Op::Objects,
    Op::Sync,
    Op::Unlink,
    Op::Sync,
    Op::Replace,
    Op::Group(1),
    Op::Sync,
    Op::Objects,
    Op::Checkpoint,
    Op::Unlink,
    Op::Sync,
    Op::Objects,
    Op::Replace,
    Op::Unlink,
    Op::Sync,
    Op::Replace,
    Op::Objects,
    Op::Sync,
    Op::Checkpoint,
    Op::Objects,
    Op::Replace,
];

/// A page that is written again and again, through the log and beside it.
const PAGES: &[Op] = &[
    Op::Page,
    Op::Page,
    Op::Sync,
    Op::Page,
    Op::Page,
    Op::Group(1),
    Op::Page,
    Op::Sync,
    Op::Unlink,
    Op::Sync,
    Op::Checkpoint,
    // In one sync with extents, it is one.
    Op::Objects,
    Op::Page,
    Op::Sync,
    Op::Page,
    Op::Checkpoint,
    Op::Page,
    Op::Page,
    Op::Page,
    Op::Unlink,
    Op::Sync,
    Op::Checkpoint,
    Op::Objects,
    Op::Page,
    Op::Sync,
    Op::Kill,
    Op::Page,
    Op::Page,
    Op::Page,
    Op::Sync,
];

/// Every workload that has a name, the short ones first.
pub(super) fn named() -> Vec<Workload> {
    let grow = workload("lie-grow", Start::Closed, &[Op::Grow, Op::Grow]);
    let full = workload("no-room-to-copy", Start::Closed, WORK);
    // The header that the next opening finds may be in the system's memory alone.
    let recycle = workload("lie-recycle", Start::Closed, &[Op::Close, Op::Close, Op::Group(2)]);
    let recycle = Workload { is_deep: true, ..recycle };
    let mut all = vec![
        Workload { trouble: Trouble::OnceAt("grow.size_sync"), ..grow },
        Workload { trouble: Trouble::OnceAt("log.recycle_sync"), ..recycle },
        Workload { trouble: Trouble::NoRoomToCopy, ..full },
    ];
    all.extend(openings());
    all.extend(once());
    all.extend(domains());
    all.extend(troubles_of_openings());
    all.extend(extensions());
    all.extend(rounds());
    all.extend(troubles());
    all.extend(holes());
    all.extend(pages());
    all
}

fn openings() -> Vec<Workload> {
    use Op::{
        Checkpoint, Close, CloseResize, Copy, Cut, Group, Grow, Kill, Litter, Record, Resize, Sync,
    };
    let deep = |name, start, ops: &[Op]| Workload { is_deep: true, ..workload(name, start, ops) };
    vec![
        deep("creation", Start::Nothing, &[Group(3), Sync]),
        workload("work", Start::Closed, WORK),
        Workload { policy: SyncPolicy::Os, ..workload("work-os", Start::Closed, WORK) },
        Workload {
            policy: SyncPolicy::Interval(Duration::from_secs(1)),
            ..workload("work-interval", Start::Closed, WORK)
        },
        deep("open-clean", Start::Closed, &[Close, Group(2), Sync]),
        deep("open-killed", Start::Killed, &[Kill, Group(2), Sync, Kill, Group(1)]),
        deep("resize-killed", Start::Killed, &[Resize(2 * SMALL), Group(2), Sync, Kill]),
        deep("resize-clean", Start::Killed, &[CloseResize(2 * SMALL), Group(2), Sync, Close]),
        deep("copy", Start::Killed, &[Copy, Group(2), Sync, Copy]),
        workload("grow", Start::Closed, &[Grow, Litter, Grow, Group(9), Sync, Kill, Litter, Grow]),
        deep(
            "cut",
            Start::Closed,
            &[Grow, Group(9), Grow, Sync, Group(9), Cut, Grow, Group(9), Cut],
        ),
        workload("cut-killed", Start::Killed, &[Grow, Group(9), Cut, Kill, Litter, Cut, Grow]),
        workload("records", Start::Closed, &[Record, Kill, Record, Record, Checkpoint, Record]),
    ]
}

/// Records that are written once, under each policy, and with a sync that fails.
fn once() -> Vec<Workload> {
    use Op::{Checkpoint, Group, Kill, Objects, Replace, Sync, Unlink};
    let with = |trouble, workload| Workload { trouble, is_deep: true, ..workload };
    let torn = [Objects, Group(2), Replace, Sync, Kill, Group(1), Sync, Unlink, Sync, Objects];
    // A checkpoint whose lines lie over an extent of the same sync.
    let over = [Objects, Unlink, Objects, Sync, Checkpoint, Group(1), Sync];
    vec![
        Workload { is_deep: true, ..workload("once-torn", Start::Closed, &torn) },
        Workload { is_deep: true, ..workload("once-over", Start::Closed, &over) },
        workload("once", Start::Closed, ONCE),
        workload("once-killed", Start::Killed, ONCE),
        Workload { mapped: true, ..workload("once-mapped", Start::Closed, ONCE) },
        Workload { policy: SyncPolicy::Os, ..workload("once-os", Start::Closed, ONCE) },
        with(
            Trouble::OnceAt("pool.extent_sync"),
            workload("once-lie", Start::Closed, &[Group(1), Sync, Objects, Replace, Sync]),
        ),
    ]
}

/// A page of which lines are left out, on disks that fail and do not.
fn pages() -> Vec<Workload> {
    let with = |trouble, workload| Workload { trouble, ..workload };
    let shifted: Vec<Op> = [Op::Page].into_iter().chain(PAGES.iter().copied()).collect();
    vec![
        workload("pages", Start::Closed, PAGES),
        workload("pages-shifted", Start::Killed, &shifted),
        Workload { mapped: true, ..workload("pages-mapped", Start::Closed, PAGES) },
        Workload { mapped: true, ..workload("pages-mapped-shifted", Start::Closed, &shifted) },
        Workload { policy: SyncPolicy::Os, ..workload("pages-os", Start::Closed, PAGES) },
        with(Trouble::OnceAt("pool.run_write"), workload("lie-pages", Start::Closed, PAGES)),
        with(Trouble::OnceAt("pool.run_write"), workload("lie-shifted", Start::Closed, &shifted)),
        with(Trouble::Dying, workload("dying-pages", Start::Closed, &shifted)),
        with(Trouble::Full, workload("full-pages", Start::Closed, PAGES)),
    ]
}

/// Space that goes back to the file system: after records, beside work, before records.
fn holes() -> Vec<Workload> {
    use Op::{Checkpoint, Group, Hole, Kill, Objects, Replace, Sync, Unlink};
    let ops = [
        Objects,
        Replace,
        Sync,
        Hole,
        Group(2),
        Sync,
        Objects,
        Sync,
        Hole,
        Sync,
        Group(9),
        Kill,
        Group(1),
        Replace,
        Sync,
        Unlink,
        Sync,
        Hole,
        Replace,
        Objects,
        Sync,
        Checkpoint,
        Hole,
    ];
    let with = |trouble, workload| Workload { trouble, ..workload };
    let short = [Objects, Sync, Hole, Sync];
    vec![
        Workload { is_deep: true, ..workload("hole", Start::Closed, &short) },
        workload("holes", Start::Closed, &ops),
        workload("holes-killed", Start::Killed, &ops),
        Workload { mapped: true, ..workload("holes-mapped", Start::Closed, &ops) },
        Workload { policy: SyncPolicy::Os, ..workload("holes-os", Start::Closed, &ops) },
        with(Trouble::Once(Failure::Error), workload("lie-holes", Start::Closed, &ops)),
        with(Trouble::Dying, workload("dying-holes", Start::Closed, &ops)),
        with(Trouble::Full, workload("full-holes", Start::Closed, &ops)),
    ]
}

/// The ring goes round: with sections, which checkpoint when it is half full, and without.
fn rounds() -> Vec<Workload> {
    let mut small = Vec::new();
    for round in 0..150 {
        small.push(Op::Group(8));
        if round % 5 == 0 {
            small.push(Op::Sync);
        }
    }
    let mut overrun: Vec<Op> = vec![Op::Unreserved(1); 780];
    (0..40).for_each(|at| overrun.insert(at * 19, Op::Sync));
    overrun.push(Op::Kill);
    overrun.extend([Op::Group(9), Op::Sync]);
    vec![
        workload("ring", Start::Closed, &small),
        Workload { policy: SyncPolicy::Os, ..workload("ring-os", Start::Closed, &small) },
        workload("overrun", Start::Closed, &overrun),
    ]
}

/// A log that is extended: when an operation needs more than it has, when half of it is in use, where that fails, and
/// when it goes round afterwards.
fn extensions() -> Vec<Workload> {
    use Op::{Checkpoint, Group, Kill, Section, Sync};
    let with = |trouble, workload| Workload { trouble, ..workload };
    let extended = |name, start, ops: &[Op]| Workload {
        log_size: SMALL + SMALL / 2,
        log_initial: SMALL,
        ..workload(name, start, ops)
    };
    // The header's two slots, one after the other.
    let slots = [Group(3), Sync, Section(100), Checkpoint, Group(2), Sync, Kill];
    // Behind the end of the smaller ring, and round the end of the larger.
    let behind = |count| -> Vec<Op> {
        let mut ops = vec![Group(80); count];
        ops.insert(1, Sync);
        ops.extend([Sync, Kill, Group(2), Sync]);
        ops
    };
    let slots = |name| extended(name, Start::Nothing, &slots);
    vec![
        Workload { is_deep: true, ..slots("extend") },
        extended("extend-behind", Start::Killed, &behind(12)),
        Workload { policy: SyncPolicy::Os, ..extended("extend-round", Start::Closed, &behind(20)) },
        with(Trouble::Once(Failure::Error), slots("lie-extend")),
        with(Trouble::Dying, slots("dying-extend")),
        with(Trouble::Full, extended("full-extend", Start::Closed, &behind(20))),
        with(Trouble::NoRoom, extended("no-room-extend", Start::Closed, &behind(20))),
    ]
}

/// From one domain to the other and back.
fn domains() -> Vec<Workload> {
    use Op::{Close, Emulate, Group, Kill, Log, Record, Replace, Reuse, Sync};
    let mapped = |name, start, ops: &[Op]| Workload {
        mapped: true,
        is_deep: true,
        ..workload(name, start, ops)
    };
    vec![
        mapped("mapped", Start::Killed, &[Group(3), Sync, Record, Kill, Group(1), Close]),
        Workload {
            emulated: true,
            ..mapped("create-emulated", Start::Nothing, &[Group(2), Close])
        },
        mapped("emulate", Start::Killed, &[Group(3), Sync, Emulate, Group(2), Close, Group(1)]),
        // What the log's file has when it dies was never synced.
        Workload {
            policy: SyncPolicy::Os,
            ..mapped("emulate-unsynced", Start::Killed, &[Group(9), Sync, Group(9), Emulate])
        },
        // Lines over an extent of the same sync.
        mapped("emulate-over", Start::Closed, &[Replace, Group(9), Reuse, Sync, Emulate]),
        mapped("log-again", Start::Killed, &[Emulate, Group(3), Log, Group(2), Sync, Kill]),
        mapped("log-closed", Start::Closed, &[Emulate, Group(3), Close, Log, Group(2), Sync]),
    ]
}

/// Work on disks that fail, and on disks that are full.
fn troubles() -> Vec<Workload> {
    let with = |trouble, workload| Workload { trouble, ..workload };
    vec![
        with(Trouble::Once(Failure::Error), workload("lie", Start::Closed, WORK)),
        with(Trouble::Dying, workload("dying", Start::Closed, WORK)),
        with(Trouble::Full, workload("full", Start::Closed, WORK)),
        with(Trouble::Once(Failure::Error), workload("once-fails", Start::Closed, ONCE)),
        with(Trouble::Dying, workload("once-dies", Start::Closed, ONCE)),
        with(Trouble::Full, workload("once-full", Start::Closed, ONCE)),
        with(Trouble::NoRoomToCopy, workload("no-room-to-copy-once", Start::Closed, ONCE)),
    ]
}

/// Openings of which a step fails, or finds the disk full.
fn troubles_of_openings() -> Vec<Workload> {
    use Op::{Checkpoint, Cut, Group, Grow, Kill, Record, Resize, Sync, Unreserved};
    let cut = [Grow, Group(9), Sync, Cut, Group(3), Grow, Group(9), Sync];
    let with = |trouble, workload| Workload { trouble, ..workload };
    let deep =
        |workload| Workload { is_deep: true, ..with(Trouble::Once(Failure::Error), workload) };
    // The ring is full to its last byte when its first groups are to be forgotten: of 128 bytes, and of 192.
    let mut full = vec![Unreserved(1); 509];
    full.extend([Unreserved(2), Unreserved(2), Sync, Checkpoint]);
    full.insert(100, Sync);
    let trim = workload("lie-trim", Start::Closed, &full);
    let open = [Kill, Group(2), Sync, Checkpoint, Group(1), Sync];
    let resize = [Resize(2 * SMALL), Group(2), Sync];
    vec![
        deep(workload("lie-open", Start::Killed, &open)),
        deep(workload("lie-resize", Start::Killed, &resize)),
        deep(workload("lie-creation", Start::Nothing, &open)),
        Workload { is_deep: true, ..with(Trouble::OnceAt("log.trim_sync"), trim) },
        with(Trouble::Once(Failure::Error), workload("lie-cut", Start::Closed, &cut)),
        with(Trouble::Dying, workload("dying-cut", Start::Closed, &cut)),
        with(Trouble::Full, workload("full-cut", Start::Closed, &cut)),
        with(Trouble::Dying, workload("dying-open", Start::Killed, &open)),
        with(Trouble::Dying, workload("dying-resize", Start::Killed, &resize)),
        with(Trouble::Full, workload("full-resize", Start::Killed, &resize)),
        with(Trouble::NoRoom, workload("no-room", Start::Closed, &[Record, Group(9), Sync, Kill])),
    ]
}

/// Every sequence of up to three of a small alphabet.
pub(super) fn sequences() -> impl Iterator<Item = Workload> {
    use Op::{Checkpoint, Close, Group, Grow, Hole, Kill, Objects, Record, Replace, Sync, Unlink};
    const ALPHABET: [Op; 12] = [
        Group(1),
        Group(9),
        Sync,
        Checkpoint,
        Record,
        Grow,
        Kill,
        Close,
        Objects,
        Replace,
        Unlink,
        Hole,
    ];
    let count = ALPHABET.len();
    (1..=3_u32).flat_map(move |len| {
        (0..count.pow(len)).map(move |number| {
            let letter = |place| ALPHABET[number / count.pow(place) % count];
            let ops: Vec<Op> = (0..len).map(letter).collect();
            let start = if number % 2 == 0 { Start::Killed } else { Start::Closed };
            workload(&format!("sequence-{len}-{number}"), start, &ops)
        })
    })
}

/// A workload by chance.
pub(super) fn random(random: &mut Random, number: u64) -> Workload {
    use Op::{
        Checkpoint, Close, CloseResize, Copy, Group, Grow, Hole, Kill, Objects, Page, Record,
        Replace, Resize, Sync, Unlink,
    };
    let size = SMALL << random.below(2);
    let op = |random: &mut Random| match random.below(37) {
        0..10 => Group(1 + random.below(12) as u64),
        10..15 => Sync,
        15..17 => Checkpoint,
        17..19 => Record,
        19 => Grow,
        20 => Kill,
        21 => Close,
        22 => [Copy, CloseResize(size)][random.below(2)],
        23 => Resize(size),
        24..27 => Objects,
        27..29 => Replace,
        29..31 => Hole,
        31..35 => Page,
        _ => Unlink,
    };
    let ops: Vec<Op> = (0..4 + random.below(24)).map(|_| op(random)).collect();
    let start = [Start::Nothing, Start::Closed, Start::Killed][random.below(3)];
    let trouble = match random.below(8) {
        0 => Trouble::Once(Failure::Error),
        1 => Trouble::Dying,
        2 => Trouble::Full,
        _ => Trouble::None,
    };
    let interval = SyncPolicy::Interval(Duration::from_secs(1));
    let policy = [SyncPolicy::Always, SyncPolicy::Always, SyncPolicy::Os, interval];
    Workload {
        policy: policy[random.below(4)],
        mapped: random.below(6) == 0,
        trouble,
        ..workload(&format!("random-{number}"), start, &ops)
    }
}
