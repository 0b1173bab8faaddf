//! A fence with more extents than a group may have: what it appends is cut into groups, and a power loss may leave the first of them.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;

use tembo_pmem::{DomainRequest, Error, Region, RegionOptions, WholeObject};
use tembo_sim::{Chooser, Rest, SimDisk, Site, Snapshot};

const PAGE: u64 = 4096;
/// More pages, none beside another, than a group has extents.
const COUNT: u64 = 1030;
/// The pages from this one on are written before the others.
const FIRST: usize = COUNT as usize - 10;
/// Where one line says whether the fence came.
const LINK: u64 = 64 << 10;
const OBJECTS: u64 = 128 << 10;
const SIZE: u64 = OBJECTS + 2 * COUNT * PAGE;
/// In each page, a word that is stored to when the page is written beside the log.
const WORD: u64 = 128;

fn options(disk: &SimDisk) -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        log_size: 2 << 20,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    }
}

fn pool() -> PathBuf {
    PathBuf::from("/disk/pool")
}

fn page_at(number: u64) -> u64 {
    OBJECTS + 2 * number * PAGE
}

/// What a page is written as.
fn content(number: u64) -> Vec<u8> {
    (1_u64..=PAGE / 8).flat_map(|word| (number << 20 | word).to_le_bytes()).collect()
}

fn put(region: &Region, at: u64, value: u64) {
    region.store(&region.words(at, 1).unwrap()[0], value);
    region.flush("test.put", at, 8);
}

fn get(region: &Region, at: u64) -> u64 {
    region.words(at, 1).unwrap()[0].load()
}

/// A region in which one fence has appended all pages, and lines inside some of them and outside of them; and the disk at
/// each moment at which it may have died since.
fn fenced(inside: &[u64]) -> (Region, Vec<Snapshot>) {
    let disk = SimDisk::default();
    let region = Region::create(&pool(), SIZE, &options(&disk), |_| Ok::<(), Error>(())).unwrap();
    {
        let _section = region.reserve(1).unwrap();
        put(&region, LINK, 1);
        region.fence("test.before");
    }
    region.sync().unwrap();
    let contents: Vec<Vec<u8>> = (0..COUNT).map(content).collect();
    let of = |(number, bytes)| WholeObject { offset: page_at(number), bytes };
    let objects: Vec<_> = (0..).zip(contents.iter().map(Vec::as_slice)).map(of).collect();
    disk.record();
    {
        let _section = region.reserve(2 * COUNT + 1).unwrap();
        // The last pages first, so that the order of the extents is not that of the lines.
        for chosen in [&objects[FIRST..], &objects[..FIRST]] {
            let written = region.write_together(chosen).unwrap();
            assert!(written.iter().all(|is_written| *is_written));
        }
        inside.iter().for_each(|&number| put(&region, page_at(number) + WORD, number + 7));
        put(&region, LINK, 2);
        region.fence("test.fence");
    }
    region.sync().unwrap();
    let points = disk.points().into_iter();
    let points = points.filter(|point| !point.step.starts_with("pool.run"));
    (region, points.map(|point| point.snapshot).collect())
}

/// Whether a page is as it was written, with the word that was stored to it.
fn is_whole(region: &Region, number: u64, inside: &[u64]) -> bool {
    let mut expected = content(number);
    if inside.contains(&number) {
        expected[WORD as usize..][..8].copy_from_slice(&(number + 7).to_le_bytes());
    }
    region.media_bytes(page_at(number), PAGE).unwrap().to_vec() == expected
}

/// The region as it is after a power loss, and what was read of it that the loss decided.
fn opened(snapshot: &Snapshot, rest: Rest) -> (Region, SimDisk) {
    let disk = snapshot.after_power_loss(Chooser::new(rest));
    let region = Region::open(&pool(), &options(&disk)).unwrap();
    (region, disk)
}

/// Opens what is left by the loss of one of some sectors of the log and the pool file, and by that of all.
fn after_losses(snapshots: &[Snapshot], mut look: impl FnMut(&Region)) -> usize {
    let mut images = 0;
    for snapshot in snapshots {
        let (region, disk) = opened(snapshot, Rest::New);
        look(&region);
        let sites: Vec<Site> = disk.decisions().iter().map(|decision| decision.site).collect();
        let sector = |site: &Site| match *site {
            Site::Sector(file, at) => Some((at, file)),
            _ => None,
        };
        // The pool file is larger than its log.
        let pool_file = sites.iter().filter_map(sector).max().map(|(_, file)| file);
        let is_of_pool =
            |site: &Site| sector(site).is_some_and(|(_, file)| Some(file) == pool_file);
        let (of_pool, others): (Vec<Site>, Vec<Site>) = sites.into_iter().partition(is_of_pool);
        let mut chosen: Vec<Site> = others.iter().copied().step_by(1 + others.len() / 40).collect();
        chosen.extend(of_pool.iter().step_by(1 + of_pool.len() / 4));
        let rests = chosen.into_iter().map(Rest::NewBut).chain([Rest::Old]);
        for rest in rests {
            look(&opened(snapshot, rest).0);
            images += 1;
        }
    }
    images
}

#[test]
fn a_line_inside_one_of_many_extents_counts_for_what_it_was_stored_after() {
    // The page that is written first, one of the middle, and the one that is written last.
    let inside = [FIRST as u64, 500, FIRST as u64 - 1];
    let (region, snapshots) = fenced(&inside);
    let is_after = |region: &Region| (0..COUNT).all(|number| is_whole(region, number, &inside));
    let (mut before, mut after) = (0, 0);
    let images = after_losses(&snapshots, |region| match get(region, LINK) {
        1 => before += 1,
        // All other lines of the fence are in one group with this one.
        found => {
            assert_eq!((found, is_after(region)), (2, true));
            after += 1;
        }
    });
    assert!(images > 30 && before > 10 && after > 2, "{images}: {before} and {after}");
    // What was synced is there, be it by the log or by a checkpoint.
    drop(region);
    let synced = snapshots.last().unwrap();
    let (region, disk) = opened(synced, Rest::Old);
    assert_eq!((get(&region, LINK), is_after(&region)), (2, true));
    region.checkpoint().unwrap();
    drop(region);
    let region = Region::open(&pool(), &options(&disk)).unwrap();
    assert_eq!((get(&region, LINK), is_after(&region)), (2, true));
}

#[test]
fn more_lines_and_extents_than_a_group_has_come_with_each_line_behind_its_extent() {
    let inside: Vec<u64> = (0..COUNT).collect();
    let (_region, snapshots) = fenced(&inside);
    let is_after = |region: &Region| (0..COUNT).all(|number| is_whole(region, number, &inside));
    let (mut none, mut some) = (0, 0);
    after_losses(&snapshots, |region| {
        // Groups of one fence may come in part, but then with what was stored before.
        let shown = |number: &u64| get(region, page_at(*number) + WORD) == number + 7;
        let mut count = 0;
        for number in inside.iter().filter(|number| shown(number)) {
            assert!(is_whole(region, *number, &inside), "page {number}");
            count += 1;
        }
        match count {
            0 => none += 1,
            _ => some += 1,
        }
    });
    assert!(none > 10 && some > 2, "{none} and {some}");
    let (region, _) = opened(snapshots.last().unwrap(), Rest::Old);
    assert_eq!((get(&region, LINK), is_after(&region)), (2, true));
}
