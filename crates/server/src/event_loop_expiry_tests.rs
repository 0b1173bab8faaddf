//! Keys that are due together leave beside other clients.

use super::*;

/// The removal of keys that are due together became slower from key to key, and other clients waited.
#[test]
fn keys_that_are_due_together_leave_in_turns_that_answer_others_and_cost_the_same() {
    const KEYS: u64 = 40_000;
    const MOST: u64 = 32 * 32;
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        for number in 0..KEYS {
            let data = &mut event_loop.turns.data;
            data.put(0, &number.to_be_bytes(), b"v", Some(2000)).unwrap();
            if number % 1000 == 999 {
                data.commit().unwrap();
            }
        }
        let expired = |event_loop: &EventLoop<'_>| event_loop.turns.shared.stats.expired_keys;
        let mut lines = Vec::new();
        let mut from = event_loop.turns.data.store().report().flushed_lines;
        while expired(event_loop) < KEYS {
            let before = expired(event_loop);
            client.write_all(b"PING\r\n").unwrap();
            arrived(event_loop, b"PING\r\n".len());
            event_loop.step().unwrap();
            let mut answer = [0; 7];
            client.set_nonblocking(true).unwrap();
            assert_eq!(client.read(&mut answer).unwrap(), 7, "not answered in its turn");
            client.set_nonblocking(false).unwrap();
            let removed = expired(event_loop) - before;
            assert!((1..=MOST).contains(&removed), "{removed} keys in a turn");
            if before * 4 / KEYS < (before + removed) * 4 / KEYS {
                let now = event_loop.turns.data.store().report().flushed_lines;
                lines.push(now - from);
                from = now;
            }
        }
        // Of each quarter of the keys: some of the store's own work comes late.
        let (first, last) = (lines[0], lines[lines.len() - 1]);
        assert!(lines.len() == 4 && last <= 2 * first, "lines flushed: {lines:?}");
    });
}
