//! Turns stepped by hand: how a replica changes its role, and what it goes back to then.

use super::following::{follow, tear};
use super::*;

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
