//! Turns stepped by hand: messages for clients whose command is executed.

use super::*;

/// Has a client send a request, and what it is sent until so many line ends are there.
fn answer(
    event_loop: &mut EventLoop<'_>,
    client: &mut TcpStream,
    request: &str,
    ends: usize,
) -> String {
    client.write_all(request.as_bytes()).unwrap();
    replies(event_loop, client, ends)
}

/// It went to the client that had waited.
#[test]
fn a_message_of_what_a_waiting_client_does_reaches_the_one_that_it_waited_for() {
    with_loop(|event_loop, address| {
        let [mut writer, mut popper] = clients(event_loop, address);
        executed(event_loop, &mut writer, "CONFIG SET notify-keyspace-events El\r\n", 1);
        writer.write_all(b"HELLO 3\r\nSUBSCRIBE __keyevent@0__:lpop\r\nPING\r\n").unwrap();
        let text = answer(event_loop, &mut writer, "ECHO begun\r\n", 1);
        assert!(text.starts_with('%'), "{text}");
        while !replies(event_loop, &mut writer, 1).contains("begun") {}
        popper.write_all(b"BLPOP a 0\r\n").unwrap();
        arrived(event_loop, 11);
        event_loop.step().unwrap();
        let text = answer(event_loop, &mut writer, "RPUSH a 1\r\n", 8);
        let message = ">3\r\n$7\r\nmessage\r\n$19\r\n__keyevent@0__:lpop\r\n$1\r\na\r\n";
        assert_eq!(text, format!(":1\r\n{message}"));
        assert_eq!(
            answer(event_loop, &mut popper, "PING\r\n", 6),
            "*2\r\n$1\r\na\r\n$1\r\n1\r\n+PONG\r\n"
        );
    });
}

/// It was lost.
#[test]
fn a_client_that_tracks_learns_that_the_key_it_has_made_was_taken() {
    with_loop(|event_loop, address| {
        let [mut writer, mut popper] = clients(event_loop, address);
        writer.write_all(b"HELLO 3\r\nCLIENT TRACKING ON BCAST NOLOOP\r\nECHO begun\r\n").unwrap();
        while !replies(event_loop, &mut writer, 1).contains("begun") {}
        popper.write_all(b"BLPOP a 0\r\n").unwrap();
        arrived(event_loop, 11);
        event_loop.step().unwrap();
        let text = answer(event_loop, &mut writer, "RPUSH a 1\r\n", 7);
        assert_eq!(text, ":1\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n");
        replies(event_loop, &mut popper, 5);
    });
}

#[test]
fn a_monitor_sees_its_own_commands_before_their_replies() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        executed(event_loop, &mut client, "RPUSH a 1 2\r\n", 1);
        executed(event_loop, &mut client, "MONITOR\r\n", 1);
        for (request, reply) in [
            ("KEYS *\r\n", "*1\r\n$1\r\na\r\n"),
            ("LRANGE a 0 -1\r\n", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"),
        ] {
            let ends = 1 + reply.matches("\r\n").count();
            let text = answer(event_loop, &mut client, request, ends);
            let (shown, rest) = text.split_once("\r\n").unwrap();
            assert!(shown.starts_with('+') && shown.ends_with('"'), "{text:?}");
            assert_eq!(rest, reply);
        }
    });
}

#[test]
fn a_client_that_was_killed_takes_nothing_that_it_waited_for() {
    with_loop(|event_loop, address| {
        let [mut writer, mut popper] = clients(event_loop, address);
        let id = answer(event_loop, &mut popper, "CLIENT ID\r\n", 1);
        popper.write_all(b"BLPOP a 0\r\n").unwrap();
        arrived(event_loop, 11);
        event_loop.step().unwrap();
        let kill = format!("CLIENT KILL ID {}\r\nRPUSH a 1\r\nLLEN a\r\n", id[1..].trim_end());
        assert_eq!(answer(event_loop, &mut writer, &kill, 3), ":1\r\n:1\r\n:1\r\n");
    });
}

/// What a command has committed early stays, and so do the replies that show it.
#[test]
fn a_turn_that_fails_replaces_no_replies_of_what_was_committed_earlier_in_it() {
    with_loop(|event_loop, address| {
        let [mut popper, mut writer, mut selector] = clients(event_loop, address);
        popper.write_all(b"BLPOP a 0\r\n").unwrap();
        arrived(event_loop, 11);
        event_loop.step().unwrap();
        // WAIT commits early.
        let (first, second) = (
            "RPUSH a 1\r\nSET b 1\r\nWAIT 0 0\r\nSET b 2\r\n",
            "SELECT 3\r\nWAIT 0 0\r\nSET b 2\r\n",
        );
        writer.write_all(first.as_bytes()).unwrap();
        arrived(event_loop, first.len());
        selector.write_all(second.as_bytes()).unwrap();
        arrived(event_loop, first.len() + second.len());
        (event_loop.turns.data.fault_after, event_loop.turns.data.fault) =
            (2, Some(StoreError::KeyTooLong { size: 1 }));
        event_loop.step().unwrap();
        assert!(event_loop.turns.data.fault.is_none());
        assert_eq!(replies(event_loop, &mut popper, 5), "*2\r\n$1\r\na\r\n$1\r\n1\r\n");
        assert_eq!(replies(event_loop, &mut writer, 4), ":1\r\n+OK\r\n:0\r\n+OK\r\n");
        let text = replies(event_loop, &mut selector, 3);
        assert!(text.starts_with("+OK\r\n:0\r\n-ERR a key of 1 bytes"), "{text}");
        assert_eq!(answer(event_loop, &mut selector, "EXISTS b\r\n", 1), ":0\r\n");
        assert_eq!(answer(event_loop, &mut writer, "GET b\r\nLLEN a\r\n", 3), "$1\r\n2\r\n:0\r\n");
    });
}

/// The removal was replied to with the error.
#[test]
fn a_replicaof_that_finds_no_room_fails_alone() {
    with_loop_over(small_store(IndexKind::Nvtree), |event_loop, address| {
        let [mut writer, mut other] = clients(event_loop, address);
        fill(event_loop, &mut writer, 1000);
        fill(event_loop, &mut writer, 50);
        let (removal, order) = ("DEL key:0\r\n", "REPLICAOF 127.0.0.1 1\r\n");
        writer.write_all(removal.as_bytes()).unwrap();
        arrived(event_loop, removal.len());
        other.write_all(order.as_bytes()).unwrap();
        arrived(event_loop, removal.len() + order.len());
        assert_eq!(replies(event_loop, &mut writer, 1), ":1\r\n");
        assert!(replies(event_loop, &mut other, 1).starts_with("-OOM"));
        assert_eq!(event_loop.turns.shared.stats.failed_turns, 0);
        assert!(event_loop.turns.shared.replication.following().is_none());
        assert_eq!(answer(event_loop, &mut writer, "EXISTS key:0\r\n", 1), ":0\r\n");
    });
}
