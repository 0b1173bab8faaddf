//! Operations of the pool's log that a crash has interrupted, as images: they are rolled back or forward by every later
//! release. And the tenants of a superblock. See ../images/README.md.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use tembo_pmem::{Observer, Stored};
use tembo_pool::{FeatureSet, Object, Pool, TenantEntry, TenantFeatures};

use crate::tenants::{KNOWN_ROOT, observed_tenant_pool, opened_toys, second_tenant};
use crate::{image, sparse};

/// Keeps the bytes of a pool at the first fence of a name: what the fence is for is written, and nothing that follows it.
#[derive(Default)]
struct Cut {
    pool: OnceLock<Weak<Pool>>,
    at: Mutex<Option<&'static str>>,
    found: Mutex<Option<Vec<u8>>>,
}

impl Observer for Cut {
    fn load(&self, _: u64, _: u64) {}
    fn store(&self, _: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
    }
    fn flush(&self, _: &'static str, _: u64, _: u64) {}
    fn fence(&self, name: &'static str) {
        let is_here = *self.at.lock().unwrap() == Some(name);
        if is_here && let Some(pool) = self.pool.get().and_then(Weak::upgrade) {
            *self.at.lock().unwrap() = None;
            *self.found.lock().unwrap() = Some(image::bytes(&pool));
        }
    }
    fn sync(&self) {}
    fn resize(&self, _: u64) {}
}

/// A pool with a tenant, the first five words of whose root are 10 to 14, and a log that no operation has used.
struct House {
    cut: Arc<Cut>,
    pool: Arc<Pool>,
    tenant: TenantEntry,
}

impl House {
    fn new() -> House {
        let cut = Arc::new(Cut::default());
        let (pool, tenant) = observed_tenant_pool(cut.clone());
        cut.pool.set(Arc::downgrade(&pool)).unwrap();
        pool.operation(tenant.id, 0, 1).unwrap().abort();
        for (index, value) in (10..15_u64).enumerate() {
            let at = tenant.root.offset() + 8 * index as u64;
            pool.region().write("test.words", at, &[&value.to_le_bytes()]).unwrap();
        }
        pool.region().fence("test.words.fence");
        House { cut, pool, tenant }
    }

    fn word(&self, index: u64) -> &tembo_pmem::Word {
        &self.pool.region().words(self.at(index), 1).unwrap()[0]
    }

    fn at(&self, index: u64) -> u64 {
        self.tenant.root.offset() + 8 * index
    }

    /// The pool at the fence that `change` comes to.
    fn cut_at(&self, fence: &'static str, change: impl FnOnce()) -> Vec<u8> {
        *self.cut.at.lock().unwrap() = Some(fence);
        change();
        self.cut.found.lock().unwrap().take().unwrap()
    }
}

/// Three words are changed in place, one of them twice, and an object is allocated.
fn undo() -> Vec<u8> {
    let house = House::new();
    let mut operation = house.pool.operation(house.tenant.id, 64, 3).unwrap();
    operation.set(house.word(0), 20).unwrap();
    operation.undo(&[house.word(1), house.word(2)]).unwrap();
    operation.set(house.word(1), 21).unwrap();
    operation.set(house.word(0), 30).unwrap();
    let object = operation.alloc(64).unwrap();
    operation.set(house.word(2), object.to_bits()).unwrap();
    image::bytes(&house.pool)
}

/// A word is changed in place; two that were collected are sealed, and not stored.
fn redo() -> Vec<u8> {
    let house = House::new();
    house.cut_at("pool.log.commit.fence", || {
        let mut operation = house.pool.operation(house.tenant.id, 0, 3).unwrap();
        operation.set(house.word(0), 20).unwrap();
        operation.redo(house.word(1), 21).unwrap();
        operation.redo(house.word(2), 22).unwrap();
        operation.redo(house.word(1), 31).unwrap();
        operation.commit().unwrap().done().unwrap();
    })
}

/// Two operations have committed with work that is not done; the words of the second are not stored.
fn intent() -> Vec<u8> {
    let house = House::new();
    let mut first = house.pool.operation(house.tenant.id, 0, 3).unwrap();
    first.set(house.word(0), 20).unwrap();
    first.intend(7, &[1, 2, u64::MAX]).unwrap();
    let first = first.commit().unwrap();
    let image = house.cut_at("pool.log.commit.fence", || {
        let mut second = house.pool.operation(house.tenant.id, 0, 3).unwrap();
        second.redo(house.word(1), 21).unwrap();
        second.intend(8, &[]).unwrap();
        drop(second.commit().unwrap());
    });
    drop(first);
    image
}

/// The words of three operations are committed with one fence each, those of the last one not stored. It has an object
/// whose contents an entry vouches for.
fn words() -> Vec<u8> {
    let house = House::new();
    let commit = |words: &[[u64; 2]]| {
        let operation = house.pool.operation(house.tenant.id, 0, 1).unwrap();
        operation.commit_words(words, &[]).unwrap();
    };
    commit(&[[house.at(0), 20], [house.at(1), 21]]);
    commit(&[[house.at(1), 31], [house.at(2), 22]]);
    house.cut_at("pool.log.seal.fence", || {
        let mut operation = house.pool.operation(house.tenant.id, 64, 2).unwrap();
        let object = operation.alloc(64).unwrap();
        house.pool.region().write("test.content", object.offset(), &[&[7; 64]]).unwrap();
        let contents = [operation.content(object.offset(), &[7; 64])];
        let words = [[house.at(2), 32], [house.at(3), object.to_bits()]];
        operation.commit_words(&words, &contents).unwrap();
    })
}

/// More words than a lane holds are sealed in an extent, and not stored.
fn extent() -> Vec<u8> {
    let house = House::new();
    house.cut_at("pool.log.seal.fence", || {
        let words: Vec<[u64; 2]> = (0..100).map(|n| [house.at(n % 4), 100 + n]).collect();
        house
            .pool
            .operation(house.tenant.id, 1600, 300)
            .unwrap()
            .commit_words(&words, &[])
            .unwrap();
    })
}

/// Two tenants, features of the pool and of one of them.
fn tenants() -> Vec<u8> {
    let house = House::new();
    second_tenant(&house.pool);
    let features = TenantFeatures { may: 1, must: 1, read_only: 0 };
    house.pool.set_tenant_features(house.tenant.id, features).unwrap();
    house.pool.set_features(FeatureSet::May, 0x8000_0001).unwrap();
    image::bytes(&house.pool)
}

/// How the content of an image is made today.
type Make = fn() -> Vec<u8>;

const IMAGES: [(&str, Make); 6] = [
    ("log_2_undo", undo),
    ("log_2_redo", redo),
    ("log_2_intent", intent),
    ("log_2_words", words),
    ("log_2_extent", extent),
    ("superblock_2_tenants", tenants),
];

fn golden(name: &str) -> Vec<u8> {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
    sparse::from_text(&std::fs::read_to_string(images.join(format!("{name}.txt"))).unwrap())
}

/// The pool of an image, opened, and the first five words of its tenant's root, which its opening has stored.
fn opened(name: &str) -> (Arc<Pool>, TenantEntry, Vec<u64>) {
    let pool = opened_toys(&golden(name)).unwrap();
    let tenant = pool.tenant("one").unwrap();
    let found = roots_words(&pool, &tenant);
    (pool, tenant, found)
}

fn roots_words(pool: &Pool, tenant: &TenantEntry) -> Vec<u64> {
    let words = pool.region().words(tenant.root.offset(), (KNOWN_ROOT / 8) as usize).unwrap();
    words[..5].iter().map(tembo_pmem::Word::load).collect()
}

/// What another process finds, which no operation of the log changes any more.
fn is_settled(pool: &Pool, tenant: &TenantEntry) {
    let before = roots_words(pool, tenant);
    let again = opened_toys(&image::bytes(pool)).unwrap();
    assert_eq!(roots_words(&again, tenant), before);
    let mut operation = again.operation(tenant.id, 0, 1).unwrap();
    operation.set(&again.region().words(tenant.root.offset(), 1).unwrap()[0], 99).unwrap();
    operation.commit().unwrap().done().unwrap();
    let last = opened_toys(&image::bytes(&again)).unwrap();
    assert_eq!(roots_words(&last, tenant), [&[99], &before[1..]].concat());
}

/// What the image shows before any opening.
fn raw(name: &str, tenant: &TenantEntry) -> Vec<u64> {
    let at = (tenant.root.offset() - tembo_pmem::HEADER_SIZE) as usize;
    let words = golden(name)[at..at + 40].to_vec();
    words.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn an_operation_cut_off_today_leaves_these_bytes() {
    for (name, make) in IMAGES {
        let made = make();
        if std::env::var_os("TEMBO_WRITE_IMAGES").is_some() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
            std::fs::write(path.join(format!("{name}.txt")), sparse::to_text(&made)).unwrap();
        }
        assert!(made == golden(name), "{name}");
        let magic = golden(name).windows(8).filter(|bytes| bytes == b"TembPLg2").count();
        assert_eq!(magic, 1, "{name}");
    }
}

#[test]
fn words_of_an_image_that_were_changed_in_place_are_taken_back() {
    let (pool, tenant, found) = opened("log_2_undo");
    let raw = raw("log_2_undo", &tenant);
    assert_eq!((raw[0], raw[1], &raw[3..]), (30, 21, &[13, 14][..]));
    assert!(Object::from_bits(raw[2]).size() == 64);
    assert_eq!(found, [10, 11, 12, 13, 14]);
    assert!(pool.unfinished(tenant.id).unwrap().is_empty());
    is_settled(&pool, &tenant);
}

#[test]
fn words_of_an_image_that_were_sealed_are_stored() {
    let (pool, tenant, found) = opened("log_2_redo");
    assert_eq!(raw("log_2_redo", &tenant), [20, 11, 12, 13, 14]);
    assert_eq!(found, [20, 31, 22, 13, 14]);
    is_settled(&pool, &tenant);
}

#[test]
fn intents_of_an_image_are_found_until_they_are_done() {
    let (pool, tenant, found) = opened("log_2_intent");
    assert_eq!(raw("log_2_intent", &tenant), [20, 11, 12, 13, 14]);
    assert_eq!(found, [20, 21, 12, 13, 14]);
    let mut intents = Vec::new();
    for committed in pool.unfinished(tenant.id).unwrap() {
        let all = committed.intents().iter();
        intents.extend(all.map(|intent| (intent.tenant, intent.code, intent.args.clone())));
        committed.done().unwrap();
    }
    intents.sort_by_key(|(_, code, _)| *code);
    let id = tenant.id;
    assert_eq!(intents, [(id, 7, vec![1, 2, u64::MAX]), (id, 8, vec![])]);
    let again = opened_toys(&image::bytes(&pool)).unwrap();
    assert!(again.unfinished(id).unwrap().is_empty());
    is_settled(&pool, &tenant);
}

#[test]
fn words_of_an_image_that_two_operations_have_committed_are_stored_in_their_order() {
    let (pool, tenant, found) = opened("log_2_words");
    assert_eq!(raw("log_2_words", &tenant), [20, 31, 22, 13, 14]);
    assert_eq!((&found[..3], found[4]), (&[20, 31, 32][..], 14));
    let object = Object::from_bits(found[3]);
    let content = pool.region().media_bytes(object.offset(), 64).unwrap().to_vec();
    assert_eq!((object.size(), content), (64, vec![7; 64]));
    is_settled(&pool, &tenant);
}

#[test]
fn words_of_an_image_that_lie_in_an_extent_are_stored() {
    let (pool, tenant, found) = opened("log_2_extent");
    assert_eq!(raw("log_2_extent", &tenant), [10, 11, 12, 13, 14]);
    assert_eq!(found, [196, 197, 198, 199, 14]);
    is_settled(&pool, &tenant);
}

/// Contents that are not what the entry has the checksum of: the operation did not commit, and the one before it did.
#[test]
fn words_of_an_image_whose_contents_are_torn_are_not_stored() {
    let (_, tenant, found) = opened("log_2_words");
    let mut torn = golden("log_2_words");
    torn[(Object::from_bits(found[3]).offset() - tembo_pmem::HEADER_SIZE) as usize] ^= 1;
    let pool = opened_toys(&torn).unwrap();
    assert_eq!(roots_words(&pool, &tenant), [20, 31, 22, 13, 14]);
}

#[test]
fn tenants_of_an_image_are_found_with_all_that_is_said_of_them() {
    let pool = opened_toys(&golden("superblock_2_tenants")).unwrap();
    assert_eq!(Pool::check_superblock(pool.region()).unwrap().version, 2);
    assert_eq!(pool.features().unwrap().may, 0x8000_0001);
    let found = pool.tenants().unwrap();
    let lines: Vec<_> =
        found.iter().map(|entry| (&*entry.name, entry.version, entry.features)).collect();
    let features = TenantFeatures { may: 1, must: 1, read_only: 0 };
    let second = ("zwölf mal zwölf: zweiundvier", 2, TenantFeatures::default());
    assert_eq!(lines, [("one", 3, features), second]);
    assert!(found.iter().all(|entry| entry.kind == crate::tenants::KIND));
    let root = |at: usize, len| pool.region().media_bytes(found[at].root.offset(), len);
    assert_eq!(root(0, 8).unwrap().to_vec(), 10_u64.to_le_bytes());
    assert_eq!(root(1, 6).unwrap().to_vec(), b"a root");
    let _tenants = pool.open_tenants().unwrap();
    let check = pool.check().unwrap();
    assert_eq!((check.account.leaked, check.tenants.len()), (0, 2));
}
