//! Stores that earlier releases have written still open, with all that they hold: see images/README.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tembo_kv::{DomainRequest, Durability, IndexKind, Options, Store};
use tembo_pool::{
    Kind, KnownKind, Pool, Tenant, TenantEntry, TenantError, TenantFeatures, TenantKind,
};

const SIZE: usize = 512 << 10;

struct Place(PathBuf);

impl Place {
    /// A copy of an image.
    fn of(name: &str, test: &str) -> Place {
        let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
        let mut bytes = std::fs::read(images.join(name)).unwrap();
        bytes.resize(SIZE, 0);
        let process = std::process::id();
        let folder = std::env::temp_dir().join(format!("tembo-golden-{process}-{test}-{name}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("pool"), bytes).unwrap();
        Place(folder)
    }

    fn pool(&self) -> PathBuf {
        self.0.join("pool")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    Options::new()
        .background(false)
        .domain(DomainRequest::Logged)
        .log_size(4 << 20)
        .size_max(8 << 20)
}

fn holds_all(store: &Store) {
    let space = store.keyspace("db0").unwrap();
    for i in 0..40 {
        let value = store.get(space, format!("key-{i:03}").as_bytes()).unwrap().unwrap();
        let expected = format!("value {i} ").repeat(1 + i % 5);
        assert!(value.ends_with(expected.as_bytes()), "key-{i:03}: {value:?}");
        assert!(value.len() <= expected.len() + 16);
    }
}

const IMAGES: [(&str, IndexKind); 2] =
    [("store_1_cdds.image", IndexKind::Cdds), ("store_1_nvtree.image", IndexKind::Nvtree)];

#[test]
fn a_store_of_version_1_opens_with_all_that_it_holds_and_stays_of_version_1() {
    for (name, index) in IMAGES {
        let place = Place::of(name, "stays");
        let store = Store::open(&place.pool(), &options()).unwrap();
        holds_all(&store);
        assert_eq!(store.report().index, index);
        let space = store.keyspace("db0").unwrap();
        store.put(space, b"another", b"value", Durability::Strict).unwrap();
        assert_eq!(store.check().unwrap().leaked, 0);
        store.close().unwrap();
        let pool = Pool::open(&place.pool(), &options().pool_options()).unwrap();
        assert_eq!(Pool::check_superblock(pool.region()).unwrap().version, 1);
        let tenants = pool.tenants().unwrap();
        assert_eq!((tenants.len(), tenants[0].kind), (1, Kind::STORE));
        assert_eq!((&*tenants[0].name, tenants[0].version), ("main", 1));
    }
}

#[test]
fn a_store_of_version_1_is_raised_to_version_2_by_what_only_that_has() {
    for (name, _) in IMAGES {
        let place = Place::of(name, "raised");
        let pool = Pool::open(&place.pool(), &options().pool_options()).unwrap();
        let before = pool.tenant("main").unwrap();
        pool.set_tenant_features(before.id, TenantFeatures::default()).unwrap();
        assert_eq!(Pool::check_superblock(pool.region()).unwrap().version, 2);
        assert_eq!(pool.tenant("main").unwrap(), before);
        pool.close().unwrap();
        let store = Store::open(&place.pool(), &options()).unwrap();
        holds_all(&store);
        assert_eq!(store.check().unwrap().leaked, 0);
    }
}

/// A later release, which knows features that this one does not.
struct Later;

impl TenantKind for Later {
    fn known(&self) -> KnownKind {
        let all = u16::MAX;
        let features = TenantFeatures { may: all, must: all, read_only: all };
        KnownKind { kind: Kind::STORE, version: 1, features }
    }

    fn open(&self, _: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        Err(format!("{} is opened by no test", entry.name).into())
    }
}

#[test]
fn what_a_later_release_adds_is_ignored_read_or_refused_as_its_feature_says() {
    let none = TenantFeatures::default();
    let cases = [
        ("may", TenantFeatures { may: 1 << 9, ..none }, (true, true)),
        ("read-only", TenantFeatures { read_only: 1 << 9, ..none }, (false, true)),
        ("must", TenantFeatures { must: 1 << 9, ..none }, (false, false)),
    ];
    for (case, features, expected) in cases {
        let place = Place::of(IMAGES[1].0, case);
        let mut later = options().pool_options();
        later.kinds = later.kinds.with(Arc::new(Later));
        let pool = Pool::open(&place.pool(), &later).unwrap();
        pool.set_tenant_features(pool.tenant("main").unwrap().id, features).unwrap();
        pool.close().unwrap();
        let opens = |read_only| {
            let opened = Store::open(&place.pool(), &options().read_only(read_only));
            if let Err(error) = &opened {
                let unknown = "UnknownTenantFeature";
                assert!(format!("{error:?}").contains(unknown), "{case}: {error:?}");
            }
            opened.is_ok()
        };
        assert_eq!((opens(false), opens(true)), expected, "{case}");
    }
}
