//! The programs of figure 3.9 do what they should over each scheme, and threads in modelled time change nothing of it.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;

use tembo_mars::{
    AriesOptions, AriesStore, ArrayStore, BplusTree, Crew, Error, Geometry, Graph, HashTable, Host,
    Machine, Parameters, Random, RecoveryRule, Scheme, Store,
};
use tembo_pmem::{Region, RegionOptions};

fn host(size: u64) -> Host {
    let geometry = Geometry::moneta(size);
    let region = geometry.region_size();
    let options = RegionOptions { size_max: region, ..RegionOptions::default() };
    let region = Arc::new(Region::volatile(region, &options).unwrap());
    let (machine, _) = Machine::open(&region, geometry, RecoveryRule::Participants).unwrap();
    Host::new(machine, Parameters::moneta())
}

fn array(scheme: Scheme, size: u64) -> ArrayStore {
    let log_size = 1 << 20;
    ArrayStore::new(host(size + u64::from(ArrayStore::THREADS) * log_size), scheme, log_size)
}

/// Runs a program by four threads in modelled time over each scheme, and over ARIES by one.
fn over_all(size: u64, mut program: impl FnMut(&mut dyn DynStore)) {
    for scheme in Scheme::ALL {
        program(&mut array(scheme, size));
    }
    let options =
        AriesOptions { page_size: 4096, pages: size.div_ceil(4032), frames: 64, log_size: 1 << 20 };
    program(&mut AriesStore::open(host(options.size()), options).unwrap());
}

/// A store without its type.
trait DynStore {
    fn read(&mut self, at: u64, to: &mut [u8]);
    fn update(&mut self, writes: Vec<(u64, Vec<u8>)>);
}

impl<S: Store<Error = Error>> DynStore for S {
    fn read(&mut self, at: u64, to: &mut [u8]) {
        Store::read(self, at, to).unwrap();
    }

    fn update(&mut self, writes: Vec<(u64, Vec<u8>)>) {
        Store::update(self, writes).unwrap();
    }
}

struct Any<'s>(&'s mut dyn DynStore);

impl Store for Any<'_> {
    type Error = Error;

    fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), Error> {
        self.0.read(at, to);
        Ok(())
    }

    fn update(&mut self, writes: Vec<(u64, Vec<u8>)>) -> Result<(), Error> {
        self.0.update(writes);
        Ok(())
    }
}

#[test]
fn a_hash_table_has_what_was_inserted_and_not_removed() {
    over_all(HashTable::new(32).size(), |store| {
        let (mut store, mut table) = (Any(store), HashTable::new(32));
        let (mut model, mut random) = (BTreeSet::new(), Random::new(1));
        for _ in 0..400 {
            let key = random.below(48);
            let is_in = table.toggle(&mut store, key, key as u8 + 1).unwrap();
            assert_eq!(is_in, Some(model.insert(key) || !model.remove(&key)));
        }
        for key in 0..48 {
            let expected = model.contains(&key).then_some(key as u8 + 1);
            assert_eq!(table.get(&mut store, key).unwrap(), expected);
        }
    });
}

#[test]
fn a_bplus_tree_has_in_its_store_what_it_has_in_memory() {
    over_all(BplusTree::new(2_000).size(), |store| {
        let (mut store, mut tree) = (Any(store), BplusTree::new(2_000));
        let (mut model, mut random) = (BTreeSet::new(), Random::new(2));
        for _ in 0..2_000 {
            let key = random.below(3_000);
            let is_in = tree.toggle(&mut store, key, 1).unwrap();
            assert_eq!(is_in, Some(model.insert(key) || !model.remove(&key)));
        }
        assert!((0..3_000).all(|key| tree.contains(key) == model.contains(&key)));
        assert!(tree.check(&mut store).unwrap());
    });
}

#[test]
fn a_graph_has_each_edge_at_both_ends() {
    over_all(Graph::new(600).size(), |store| {
        let (mut store, mut graph) = (Any(store), Graph::new(600));
        let (mut model, mut random) = (BTreeSet::new(), Random::new(3));
        let edge = |one: u64, other: u64| (one.min(other), one.max(other));
        // More than fit on the page of the first node.
        for other in 1..300 {
            assert_eq!(graph.toggle(&mut store, (0, other)).unwrap(), Some(true));
            model.insert(edge(0, other));
        }
        for _ in 0..400 {
            let (one, other) = (graph.node(&mut random), graph.node(&mut random));
            if one != other {
                let is_in = graph.toggle(&mut store, (one, other)).unwrap();
                let edge = edge(one, other);
                assert_eq!(is_in, Some(model.insert(edge) || !model.remove(&edge)));
            }
        }
        for node in 0..600 {
            let mut found = graph.neighbours(&mut store, node).unwrap();
            found.sort_unstable();
            let ends = model.iter().filter_map(|&(one, other)| match node {
                _ if one == node => Some(other as u32),
                _ if other == node => Some(one as u32),
                _ => None,
            });
            let mut expected: Vec<u32> = ends.collect();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
        let neighbour = u64::from(graph.neighbours(&mut store, 0).unwrap()[0]);
        assert_eq!(graph.search(&mut store, (0, neighbour), 100).unwrap(), Some(1));
    });
}

/// Modelled time depends on the program only.
#[test]
fn modelled_time_is_the_same_each_time() {
    let rate = |scheme, threads| {
        let mut store = array(scheme, HashTable::new(512).size());
        let (mut table, mut random) = (HashTable::new(512), Random::new(4));
        let mut crew = Crew::new(threads);
        let rate = crew.run(300, &mut store, ArrayStore::host, |store, _| {
            table.toggle(store, random.below(700), 1).map(drop)
        });
        rate.unwrap()
    };
    for scheme in Scheme::ALL {
        assert_eq!(rate(scheme, 4).to_bits(), rate(scheme, 4).to_bits());
        let gain = rate(scheme, 4) / rate(scheme, 1);
        assert!((2.0..4.5).contains(&gain), "{scheme:?}: {gain}");
    }
    assert!(rate(Scheme::AtomicWrite, 4) > 1.2 * rate(Scheme::SoftAtomic, 4));
    assert!(rate(Scheme::Unsafe, 4) > rate(Scheme::AtomicWrite, 4));
}

/// Requests, transfers and bytes over the link of an update of 512 bytes: the thesis's figure 3.5 counts three DMAs for
/// SoftAtomic and one for the others.
#[test]
fn an_update_takes_as_many_requests_and_transfers_as_in_the_thesis() {
    for (scheme, requests, transfers, bytes) in [
        (Scheme::SoftAtomic, 3, 3, 512 + 64 + 512 + 16),
        (Scheme::LogWriteCommit, 2, 1, 512),
        (Scheme::AtomicWrite, 1, 1, 512),
        (Scheme::Unsafe, 1, 1, 512),
    ] {
        let mut store = array(scheme, 1 << 20);
        Store::update(&mut store, vec![(0, vec![7; 512])]).unwrap();
        let traffic = store.host().traffic();
        assert_eq!(
            (traffic.requests, traffic.transfers, traffic.to_array),
            (requests, transfers, bytes)
        );
    }
}
