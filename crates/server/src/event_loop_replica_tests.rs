//! Turns stepped by hand: servers of Redis that follow.

use super::*;

/// A client whose socket takes little before it is read.
fn narrow(address: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, connect, socket};
    let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_recv_buffer_size(&client, 64 << 10).unwrap();
    connect(&client, &address).unwrap();
    let client = TcpStream::from(client);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// A part of the file is made as a whole, and a slow line takes it in pieces.
#[test]
fn a_server_that_takes_a_huge_part_of_the_file_slowly_is_not_silent() {
    with_loop(|event_loop, address| {
        let [mut writer] = clients(event_loop, address);
        let mut replica = narrow(address);
        let value = "x".repeat(1 << 20);
        for _ in 0..48 {
            executed(event_loop, &mut writer, &words(&["XADD", "x", "*", "f", &value]), 2);
        }
        followed(event_loop, &mut replica);
        let shared = &mut event_loop.turns.shared;
        let (limits, now_ms) = (shared.settings.stream_limits(), shared.clock.steady_ms);
        let mut piece = vec![0; 12 << 20];
        for minute in 1..4 {
            // More than the sockets hold, so that some was taken since.
            replica.read_exact(&mut piece).unwrap();
            let lost = shared.replication.redis.lost(limits, now_ms + minute * 100_000);
            assert_eq!(lost.len(), 0, "after {minute} pieces");
        }
        // It takes nothing more.
        let began = Instant::now();
        for minute in 4.. {
            if shared.replication.redis.lost(limits, now_ms + minute * 100_000).len() == 1 {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "it is never lost");
        }
    });
}

/// Steps until the server of Redis has read the end of its file and has acknowledged the stream so far.
fn online(event_loop: &mut EventLoop<'_>, replica: &mut TcpStream) {
    let (_, end) = event_loop.turns.shared.replication.redis.bounds();
    let began = Instant::now();
    while event_loop.turns.shared.replication.redis.count(end, false) == 0 {
        replica.write_all(words(&["REPLCONF", "ACK", &end.to_string()]).as_bytes()).unwrap();
        event_loop.step().unwrap();
        assert!(began.elapsed() < PATIENCE, "it is not online");
    }
}

#[test]
fn the_rest_of_the_stream_reaches_a_server_that_acknowledges_while_it_reads() {
    with_loop(|event_loop, address| {
        let [mut writer] = clients(event_loop, address);
        let mut replica = narrow(address);
        followed(event_loop, &mut replica);
        online(event_loop, &mut replica);
        let value = "x".repeat(200_000);
        for _ in 0..10 {
            executed(event_loop, &mut writer, &words(&["SET", "a", &value]), 1);
        }
        let shared = &mut event_loop.turns.shared;
        shared.replication.redis.end(true, shared.clock.steady_ms);
        shared.propagation.end();
        replica.set_nonblocking(true).unwrap();
        let (mut all, mut bytes, began) = (Vec::new(), vec![0; 100_000], Instant::now());
        loop {
            event_loop.step().unwrap();
            match replica.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => {
                    all.extend_from_slice(&bytes[..count]);
                    let _ = replica.write(words(&["REPLCONF", "ACK", "1"]).as_bytes());
                }
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            assert!(began.elapsed() < PATIENCE, "the stream does not end");
        }
        let size = all.iter().filter(|&&byte| byte == b'x').count();
        assert_eq!(size, 10 * value.len());
        drop(replica);
        while event_loop.turns.shared.replication.redis.former() > 0 {
            let shared = &mut event_loop.turns.shared;
            let (limits, now_ms) = (shared.settings.stream_limits(), shared.clock.steady_ms);
            shared.replication.redis.look_after_former(limits, now_ms);
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "its thread does not end");
        }
    });
}

#[test]
fn a_wait_in_a_transaction_counts_what_came_before_it() {
    with_loop(|event_loop, address| {
        let [mut writer, mut replica] = clients(event_loop, address);
        followed(event_loop, &mut replica);
        online(event_loop, &mut replica);
        let request = "MULTI\r\nSET b 1\r\nWAIT 0 0\r\nEXEC\r\n";
        writer.write_all(request.as_bytes()).unwrap();
        arrived(event_loop, request.len());
        assert!(replies(event_loop, &mut writer, 6).ends_with("*2\r\n+OK\r\n:1\r\n"));
        online(event_loop, &mut replica);
        let request = format!("SET a 1\r\n{request}");
        writer.write_all(request.as_bytes()).unwrap();
        arrived(event_loop, request.len());
        assert!(replies(event_loop, &mut writer, 7).ends_with("*2\r\n+OK\r\n:0\r\n"));
    });
}

#[test]
fn a_wait_goes_on_with_the_next_stream_and_ends_where_this_server_follows() {
    with_loop(|event_loop, address| {
        let [mut writer, mut replica, mut next, mut other] = clients(event_loop, address);
        followed(event_loop, &mut replica);
        online(event_loop, &mut replica);
        let request = "SET a 1\r\nWAIT 1 0\r\n";
        writer.write_all(request.as_bytes()).unwrap();
        arrived(event_loop, request.len());
        assert_eq!(replies(event_loop, &mut writer, 1), "+OK\r\n");
        let shared = &mut event_loop.turns.shared;
        shared.replication.redis.end(false, shared.clock.steady_ms);
        shared.propagation.end();
        followed(event_loop, &mut next);
        online(event_loop, &mut next);
        // Its last acknowledgement may have come before its feed was at the end of the file.
        let (_, end) = event_loop.turns.shared.replication.redis.bounds();
        next.write_all(words(&["REPLCONF", "ACK", &end.to_string()]).as_bytes()).unwrap();
        assert_eq!(replies(event_loop, &mut writer, 1), ":1\r\n");
        writer.write_all(b"WAIT 9 0\r\n").unwrap();
        arrived(event_loop, 10);
        event_loop.step().unwrap();
        executed(event_loop, &mut other, "REPLICAOF 127.0.0.1 1\r\n", 1);
        assert!(replies(event_loop, &mut writer, 1).starts_with("-ERR WAIT cannot be used"));
    });
}

#[test]
fn a_transaction_that_was_queued_before_the_server_became_a_replica_writes_nothing() {
    with_loop(|event_loop, address| {
        let [mut writer, mut reader, mut other] = clients(event_loop, address);
        executed(event_loop, &mut writer, "MULTI\r\nSET a 1\r\n", 2);
        executed(event_loop, &mut reader, "MULTI\r\nGET a\r\nPUBLISH c x\r\n", 3);
        executed(event_loop, &mut other, "REPLICAOF 127.0.0.1 1\r\n", 1);
        writer.write_all(b"EXEC\r\nEXEC\r\nGET a\r\n").unwrap();
        let text = replies(event_loop, &mut writer, 3);
        let expected = "-EXECABORT Transaction discarded because of: READONLY You can't write against a read only \
                        replica.\r\n-ERR EXEC without MULTI\r\n$-1\r\n";
        assert_eq!(text, expected);
        reader.write_all(b"EXEC\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut reader, 3), "*2\r\n$-1\r\n:0\r\n");
        // Until it holds all of a version nothing is read either.
        executed(event_loop, &mut reader, "MULTI\r\nGET a\r\n", 2);
        event_loop.turns.data.set_access(Access::Loading);
        reader.write_all(b"EXEC\r\n").unwrap();
        assert!(replies(event_loop, &mut reader, 1).starts_with("-EXECABORT"));
    });
}

#[test]
fn waits_for_keys_end_when_the_server_becomes_a_replica() {
    with_loop(|event_loop, address| {
        let [mut popper, mut reader, mut late, mut other] = clients(event_loop, address);
        for (client, request) in [
            (&mut popper, "BLPOP a 0\r\nSET b 1\r\n"),
            (&mut reader, "XREAD BLOCK 0 STREAMS s 0\r\n"),
        ] {
            client.write_all(request.as_bytes()).unwrap();
            arrived(event_loop, request.len());
            event_loop.step().unwrap();
        }
        assert_eq!(event_loop.turns.data.waiting.count(), 2);
        executed(event_loop, &mut other, "REPLICAOF 127.0.0.1 1\r\n", 1);
        assert_eq!(event_loop.turns.data.waiting.count(), 0);
        for client in [&mut popper, &mut reader] {
            let text = last_words(client);
            assert!(text.starts_with("-UNBLOCKED force unblock") && text.lines().count() == 1);
        }
        // A replica's clients may wait for what the primary sends.
        late.write_all(b"XREAD BLOCK 0 STREAMS s 0\r\n").unwrap();
        arrived(event_loop, 27);
        (0..3).for_each(|_| event_loop.step().unwrap());
        assert_eq!(event_loop.turns.data.waiting.count(), 1);
    });
}

#[test]
fn a_command_that_has_waited_is_refused_as_any_other() {
    with_loop(|event_loop, address| {
        let [mut popper, mut other] = clients(event_loop, address);
        popper.write_all(b"BLPOP a 0\r\n").unwrap();
        arrived(event_loop, 11);
        event_loop.step().unwrap();
        other.write_all(b"MULTI\r\nREPLICAOF 127.0.0.1 1\r\nRPUSH a 1\r\nEXEC\r\n").unwrap();
        arrived(event_loop, 47);
        assert!(replies(event_loop, &mut other, 6).ends_with("*2\r\n+OK\r\n:1\r\n"));
        assert!(replies(event_loop, &mut popper, 1).starts_with("-READONLY"));
    });
}

#[test]
fn keys_whose_eviction_has_failed_are_not_published_later() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        executed(event_loop, &mut client, "SET a 1\r\n", 1);
        event_loop.turns.shared.eviction.evicted.push((0, b"a".to_vec()));
        event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        client.write_all(b"GET nosuch\r\nSET b 1\r\n").unwrap();
        arrived(event_loop, 21);
        assert_eq!(replies(event_loop, &mut client, 2).matches("-ERR").count(), 2);
        assert!(event_loop.turns.shared.eviction.evicted.is_empty());
    });
}

#[test]
fn keys_that_are_evicted_for_no_command_are_published_in_their_turn() {
    with_loop(|event_loop, address| {
        let [mut client, mut replica] = clients(event_loop, address);
        followed(event_loop, &mut replica);
        online(event_loop, &mut replica);
        // As an item of memcached does that needs the room.
        event_loop.turns.shared.eviction.evicted.push((0, b"a".to_vec()));
        executed(event_loop, &mut client, "PING\r\n", 1);
        assert!(event_loop.turns.shared.eviction.evicted.is_empty());
        let (_, end) = event_loop.turns.shared.replication.redis.bounds();
        assert!(end > 0);
    });
}

#[test]
fn a_server_whose_next_byte_is_not_kept_is_disconnected() {
    with_loop(|event_loop, address| {
        let [mut writer, mut replica] = clients(event_loop, address);
        executed(event_loop, &mut replica, "REPLCONF capa eof capa psync2\r\n", 1);
        followed(event_loop, &mut replica);
        let value = "x".repeat(100_000);
        let shared = &event_loop.turns.shared;
        let (all, now_ms) = (shared.settings.stream_limits(), shared.clock.steady_ms);
        let limits = crate::replication::Limits { backlog: 1, hard: 1, soft: 0, ..all };
        executed(event_loop, &mut writer, &words(&["SET", "a", &value]), 1);
        let redis = &mut event_loop.turns.shared.replication.redis;
        assert_eq!(redis.lost(limits, now_ms).len(), 0);
        executed(event_loop, &mut writer, &words(&["SET", "a", &value]), 1);
        let redis = &mut event_loop.turns.shared.replication.redis;
        redis.trim(limits);
        assert_eq!(redis.lost(limits, now_ms).len(), 1);
    });
}

#[test]
fn a_replica_gets_no_messages_that_another_client_has_sent_to_it() {
    with_loop(|event_loop, address| {
        let [mut writer, mut tracking, mut replica] = clients(event_loop, address);
        replica.write_all(b"CLIENT ID\r\n").unwrap();
        let id = replies(event_loop, &mut replica, 1);
        executed(event_loop, &mut replica, "HELLO 3\r\n", 7);
        let redirect = format!("CLIENT TRACKING ON BCAST REDIRECT {}\r\n", id[1..].trim());
        executed(event_loop, &mut tracking, &redirect, 1);
        followed(event_loop, &mut replica);
        executed(event_loop, &mut writer, "SET a 1\r\n", 1);
        event_loop.turns.clients = Default::default();
        event_loop.turns.shared.replication.redis.end(false, 0);
        let mut all = Vec::new();
        let _ = replica.read_to_end(&mut all);
        assert!(!String::from_utf8_lossy(&all).contains("invalidate"));
    });
}

#[test]
fn a_server_that_does_not_read_the_rest_of_the_stream_is_given_up() {
    with_loop(|event_loop, address| {
        let [mut writer, mut replica] = clients(event_loop, address);
        followed(event_loop, &mut replica);
        let value = "x".repeat(1 << 20);
        let began = Instant::now();
        let mut online = false;
        for _ in 0..24 {
            executed(event_loop, &mut writer, &words(&["SET", "a", &value]), 1);
            while !online {
                let mut replicas = event_loop.turns.shared.replication.redis.iter();
                online = replicas.any(crate::replication::RedisReplica::is_online);
                assert!(began.elapsed() < PATIENCE, "it does not follow");
            }
        }
        let shared = &mut event_loop.turns.shared;
        let (limits, now_ms) = (shared.settings.stream_limits(), shared.clock.steady_ms);
        let redis = &mut shared.replication.redis;
        redis.end(true, now_ms);
        redis.look_after_former(limits, now_ms + 1000);
        assert_eq!(redis.former(), 1);
        while redis.former() > 0 {
            redis.look_after_former(limits, now_ms + limits.silent_ms + 1);
            assert!(began.elapsed() < PATIENCE, "its thread does not end");
        }
    });
}
