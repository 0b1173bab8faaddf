//! Turns stepped by hand: how a replica changes its role, and what it goes back to then.

use super::disks::{self, is_durable, with_disk};
use super::following::{follow, get, put, reached, string, tear};
use super::*;
use crate::replication::format::FrameKind;

#[test]
fn what_a_replica_goes_back_to_is_in_no_list_of_snapshots() {
    let store = Store::volatile(&Options::new()).unwrap();
    with_loop_over(store.clone(), |event_loop, address| {
        let (mut client, _listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
        assert_eq!(store.snapshots().len(), 1);
        client.write_all(b"TEMBO.SNAPSHOT LIST\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut client, 1), "*0\r\n");
    });
}

/// The store was cleared.
#[test]
fn a_replica_goes_back_without_a_name_too_when_it_was_to_follow_another() {
    let store = Store::volatile(&Options::new()).unwrap();
    with_loop_over(store.clone(), |event_loop, address| {
        let (mut client, _listener, mut upstream) = follow(event_loop, address);
        // All names are in use then.
        let named = (0..).map(|number| store.save_snapshot(&format!("name:{number}")));
        assert_eq!(named.take_while(Result::is_ok).count(), 64);
        tear(event_loop, &mut upstream);
        // No server listens there.
        executed(event_loop, &mut client, "REPLICAOF 127.0.0.1 1\r\n", 1);
        assert_eq!(event_loop.turns.shared.replication.offset(0), 10);
        executed(event_loop, &mut client, "REPLICAOF NO ONE\r\n", 1);
        assert_eq!(get(event_loop, &mut client, "a"), "$3\r\none\r\n");
        assert_eq!(get(event_loop, &mut client, "b"), "$-1\r\n");
    });
}

#[test]
fn what_a_replica_acknowledges_is_durable_though_the_turn_of_it_fails() {
    with_disk(|event_loop, address, disk| {
        let (_client, _listener, mut upstream) = follow(event_loop, address);
        upstream.frame(FrameKind::Whole, 11, &[put("b", &string("two"))]);
        let began = Instant::now();
        while event_loop.turns.shared.replication.following().unwrap().place().version != 11 {
            event_loop.follow().unwrap();
            assert!(began.elapsed() < PATIENCE, "it is not applied");
        }
        assert!(!is_durable(disk, "b"));
        event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        event_loop.turns.run().unwrap();
        event_loop.end_turn();
        while upstream.words()[2] != "11" {}
        assert!(is_durable(disk, "b"));
    });
}

/// Sentinel prefers the replica with the highest offset.
#[test]
fn a_replica_on_a_full_disk_shows_the_offset_of_what_is_durable() {
    with_disk(|event_loop, address, disk| {
        let (mut client, _listener, mut upstream) = follow(event_loop, address);
        event_loop.step().unwrap();
        disks::fill(disk);
        upstream.frame(FrameKind::Whole, 11, &[put("b", &string("two"))]);
        reached(event_loop, 11);
        assert!(event_loop.turns.shared.is_disk_full() && !is_durable(disk, "b"));
        for (version, is_full) in [(10, true), (11, false)] {
            client.write_all(b"ROLE\r\n").unwrap();
            let text = replies(event_loop, &mut client, 9);
            assert!(text.ends_with(&format!("connected\r\n:{version}\r\n")), "{text}");
            assert_eq!(event_loop.turns.shared.replication.offset(0), version);
            assert_eq!(event_loop.turns.shared.is_disk_full(), is_full);
            disk.heal();
            let began = Instant::now();
            while event_loop.turns.shared.is_disk_full() {
                event_loop.step().unwrap();
                assert!(began.elapsed() < PATIENCE, "it finds no room");
            }
        }
        assert!(is_durable(disk, "b"));
    });
}

/// All clients of the turn had the error, or the client was replied to with the success.
#[test]
fn a_transaction_whose_change_of_role_is_refused_at_the_end_of_the_turn_is_an_error_alone() {
    let order = "MULTI\r\nREPLICAOF NO ONE\r\n";
    for is_full in [false, true] {
        with_disk(|event_loop, address, disk| {
            let (mut client, _listener, mut upstream) = follow(event_loop, address);
            let [mut other] = clients(event_loop, address);
            tear(event_loop, &mut upstream);
            // It keeps the store from going back.
            let snapshot = event_loop.turns.data.store().snapshot().unwrap();
            executed(event_loop, &mut client, order, 2);
            if is_full {
                disks::fill(disk);
                upstream.frame(FrameKind::Part, 11, &[put("c", &string("two"))]);
                let began = Instant::now();
                while !event_loop.turns.shared.is_disk_full() {
                    event_loop.step().unwrap();
                    assert!(began.elapsed() < PATIENCE, "the disk is not full");
                }
                disks::held(event_loop, &mut client, "EXEC\r\n");
                disk.heal();
            } else {
                client.write_all(b"EXEC\r\n").unwrap();
                other.write_all(b"PING\r\n").unwrap();
                arrived(event_loop, 12);
                assert_eq!(replies(event_loop, &mut other, 1), "+PONG\r\n");
            }
            let text = replies(event_loop, &mut client, 1);
            assert!(text.starts_with("-ERR"), "{text}");
            assert!(event_loop.turns.shared.replication.following().is_some());
            drop(snapshot);
            executed(event_loop, &mut other, "REPLICAOF NO ONE\r\n", 1);
            assert_eq!(get(event_loop, &mut other, "a"), "$3\r\none\r\n");
        });
    }
}

/// At the next start it was a primary.
#[test]
fn a_host_with_too_long_a_name_is_refused() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        for size in [256, 70_000] {
            let host = "h".repeat(size);
            for (request, refusal) in [
                (["REPLICAOF", &host, "1"], "-ERR Invalid master host"),
                (["REPLCONF", "IP-ADDRESS", &host], "-ERR REPLCONF ip-address"),
            ] {
                client.write_all(words(&request).as_bytes()).unwrap();
                let text = replies(event_loop, &mut client, 1);
                assert!(text.starts_with(refusal), "{text}");
            }
        }
        assert!(event_loop.turns.shared.replication.following().is_none());
        executed(event_loop, &mut client, &words(&["REPLICAOF", &"h".repeat(255), "1"]), 1);
        assert!(event_loop.turns.shared.replication.following().is_some());
    });
}
