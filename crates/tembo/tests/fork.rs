//! A store after a fork: the child is refused and can let go, the parent goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code)]

use tembo::{DomainRequest, Durability, Options, Store};

/// What the child tries: to change the store, unless a thread of the parent may have held a lock when it was
/// forked; then to drop it. True if nothing was possible.
fn child(store: Store, has_background: bool) -> bool {
    let is_refused = has_background
        || store.keyspace("animals").is_ok_and(|animals| {
            let put = store.put(animals, b"child", b"1", Durability::Strict);
            let buffered = store.put(animals, b"child", b"2", Durability::Buffered);
            put.is_err() && buffered.is_err()
        });
    drop(store);
    is_refused
}

#[test]
fn a_child_of_the_opener_changes_no_store_and_lets_go() {
    use DomainRequest::{Flush, Logged};
    for (domain, background) in [(Logged, false), (Flush, false), (Logged, true), (Flush, true)] {
        let dir = std::env::temp_dir().join(format!("tembo-fork-store-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("animals.pool");
        let options = Options::new().domain(domain).background(background);
        let store = Store::create(&path, &options).unwrap();
        let animals = store.keyspace("animals").unwrap();
        store.put(animals, b"parent", b"1", Durability::Strict).unwrap();
        // SAFETY: the child waits for no thread that it does not have, and ends by `_exit`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: ends a child that waits for a lock that was held when it was forked.
            unsafe { libc::alarm(20) };
            let is_refused = child(store, background);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!is_refused)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status), "{domain:?}: {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 0, "{domain:?}");
        store.put(animals, b"parent", b"2", Durability::Strict).unwrap();
        store.close().unwrap();
        let store = Store::open(&path, &options).unwrap();
        let animals = store.keyspace("animals").unwrap();
        assert_eq!(store.get(animals, b"parent").unwrap().as_deref(), Some(&b"2"[..]));
        assert!(store.get(animals, b"child").unwrap().is_none());
        drop(store);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
