//! Space that was written and is given up before that is fenced: the thread that takes it leaves out what it finds there as
//! it wants it, and what it acknowledges survives.

use std::sync::mpsc::channel;

use tembo_pmem::{DomainRequest, RegionOptions};
use tembo_pool::{Error, Geometry, NewTenant, Object, Pool, PoolOptions, TenantFeatures};

use crate::growth::File;
use crate::tenants::{KIND, kinds};

const SIZE: u64 = 128 << 10;

/// Bytes of the space: whole lines.
const LEN: u64 = 192;

fn options() -> PoolOptions {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        log_size: 1 << 20,
        background: false,
        ..RegionOptions::default()
    };
    PoolOptions { size: SIZE, geometry: Geometry::TINY, region, kinds: kinds() }
}

fn new(name: &str) -> NewTenant<'_> {
    NewTenant { kind: KIND, name, version: 1, features: TenantFeatures::default() }
}

/// What is left of a pool whose process is killed.
fn left(file: &File, name: &str) -> (File, Pool) {
    let copy = File::new(name);
    let log = |file: &File| format!("{}.log", file.0.display());
    std::fs::copy(&file.0, &copy.0).unwrap();
    std::fs::copy(log(file), log(&copy)).unwrap();
    let pool = Pool::open(&copy.0, &options()).unwrap();
    (copy, pool)
}

fn write(pool: &Pool, object: Object, byte: u8) {
    let bytes: &[u8] = &[byte; LEN as usize];
    let (offset, room) = (object.offset(), pool.room(object));
    let _section = pool.reserve(0, LEN / 64).unwrap();
    pool.region().write_object("test.object", offset, &[bytes], room).unwrap();
}

fn bytes(pool: &Pool, object: Object) -> Vec<u8> {
    pool.region().media_bytes(object.offset(), LEN).unwrap().to_vec()
}

/// Stores a root and fences it.
fn publish(pool: &Pool, object: Object) {
    let (region, word) = (pool.region(), pool.root(1).unwrap());
    let _section = pool.reserve(0, 1).unwrap();
    region.store(word, object.to_bits());
    region.flush("test.publish", region.offset_of(word), 8);
    region.fence("test.fence");
}

/// A thread writes zeroes into the only space that held something and is free, gives it up by `give_up`, and goes on. Another
/// thread takes the space and wants zeroes there.
fn is_what_it_seems(name: &str, give_up: impl Fn(&Pool) + Sync) {
    let file = File::new(name);
    let pool = Pool::create(&file.0, &options()).unwrap();
    // The chunk stays in use, by another object of its class.
    let [_, before] = [(); 2].map(|()| pool.alloc(LEN).unwrap());
    write(&pool, before, 0xaa);
    publish(&pool, before);
    publish(&pool, Object::NONE);
    pool.region().sync().unwrap();
    pool.free(before);
    std::thread::scope(|scope| {
        let (given, is_given) = channel();
        let (end, has_ended) = channel::<()>();
        let (pool, give_up) = (&pool, &give_up);
        scope.spawn(move || {
            give_up(pool);
            given.send(()).unwrap();
            let _ = has_ended.recv();
        });
        is_given.recv().unwrap();
        let object = pool.alloc(LEN).unwrap();
        assert_eq!(object, before, "{name}: the space that was given up");
        assert_eq!(bytes(pool, object), [0; LEN as usize], "{name}");
        publish(pool, object);
        pool.region().sync().unwrap();
        let (_copy, after) = left(&file, &format!("{name}-left"));
        assert_eq!(after.root(1).unwrap().load(), object.to_bits(), "{name}");
        assert_eq!(bytes(&after, object), [0; LEN as usize], "{name}, killed");
        drop(end);
    });
}

#[test]
fn what_was_given_up_is_what_it_seems_to_be() {
    is_what_it_seems("given-up", |pool| {
        let object = pool.alloc(LEN).unwrap();
        write(pool, object, 0);
        pool.give_up([object]);
    });
}

#[test]
fn what_was_not_published_is_what_it_seems_to_be() {
    is_what_it_seems("not-published", |pool| {
        let _section = pool.reserve(0, 4).unwrap();
        let refused = pool.alloc_into(pool.root(0).unwrap(), LEN, |_, object| {
            write(pool, object, 0);
            Err(Error::NoSuchRoot { slot: 99 })
        });
        assert!(matches!(refused, Err(Error::NoSuchRoot { slot: 99 })));
    });
    is_what_it_seems("no-tenant", |pool| {
        let refused = pool.add_tenant(&new("refused"), LEN, |_, object| {
            write(pool, object, 0);
            Err(Error::NoSuchRoot { slot: 99 })
        });
        assert!(matches!(refused, Err(Error::NoSuchRoot { slot: 99 })));
    });
}

#[test]
fn what_an_operation_has_allocated_that_is_taken_back_is_what_it_seems_to_be() {
    for has_noted in [false, true] {
        is_what_it_seems(&format!("operation-{has_noted}"), |pool| {
            let made = pool.add_tenant(&new("toy"), 64, |region, root| {
                region.write("test.root", root.offset(), &[&[0; 64]])?;
                Ok::<(), Error>(())
            });
            let entry = made.unwrap();
            let mut operation = pool.operation(entry.id, LEN, 1).unwrap();
            let object = operation.alloc(LEN).unwrap();
            write(pool, object, 0);
            if has_noted {
                let word = &pool.region().words(entry.root.offset(), 1).unwrap()[0];
                operation.set(word, object.to_bits()).unwrap();
            }
            operation.abort();
        });
    }
}
