//! The crate `redis` as a client, in both protocols: what programs in Rust use.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use redis::streams::{StreamReadOptions, StreamReadReply};
use redis::{
    Commands, Connection, ConnectionLike, ErrorKind, PushKind, RedisResult, Script, Value,
};

use crate::client::Running;

/// Many times what anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(server: &Running, protocol: &str) -> Connection {
    let url = format!("redis://{}/0?protocol={protocol}", server.address);
    let connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

/// Runs a test in RESP2 and in RESP3.
fn in_both(test: impl Fn(&Running, &str)) {
    for protocol in ["resp2", "resp3"] {
        test(&Running::start(), protocol);
    }
}

#[test]
fn commands_have_their_types() {
    in_both(|server, protocol| {
        let mut connection = connect(server, protocol);
        let bytes: Vec<u8> = (0..=255).collect();
        let () = connection.set("bytes", &bytes).unwrap();
        assert_eq!(connection.get::<_, Vec<u8>>("bytes").unwrap(), bytes);
        assert_eq!(connection.get::<_, Option<String>>("none").unwrap(), None);
        assert_eq!(connection.incr::<_, _, i64>("count", 41).unwrap(), 41);
        assert!(connection.expire::<_, bool>("count", 100).unwrap());
        assert!((1..=100).contains(&connection.ttl::<_, i64>("count").unwrap()));
        let () = connection.hset_multiple("hash", &[("a", 1), ("b", 2)]).unwrap();
        let hash: BTreeMap<String, i64> = connection.hgetall("hash").unwrap();
        assert_eq!(hash, BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]));
        assert_eq!(connection.rpush::<_, _, i64>("list", &["a", "b", "c"]).unwrap(), 3);
        assert_eq!(connection.lrange::<_, Vec<String>>("list", 0, -1).unwrap(), ["a", "b", "c"]);
        let popped: Option<(String, String)> = connection.blpop("list", 1.0).unwrap();
        assert_eq!(popped, Some(("list".to_owned(), "a".to_owned())));
        assert_eq!(connection.sadd::<_, _, i64>("set", &["x", "y", "x"]).unwrap(), 2);
        assert!(connection.sismember::<_, _, bool>("set", "x").unwrap());
        assert_eq!(connection.zadd::<_, _, _, i64>("order", "half", 0.5).unwrap(), 1);
        assert_eq!(connection.zscore::<_, _, Option<f64>>("order", "half").unwrap(), Some(0.5));
        let scored: Vec<(String, f64)> = connection.zrange_withscores("order", 0, -1).unwrap();
        assert_eq!(scored, [("half".to_owned(), 0.5)]);
        let refused: RedisResult<i64> = connection.incr("list", 1);
        assert_eq!(refused.unwrap_err().code(), Some("WRONGTYPE"));
        let unknown: RedisResult<()> = redis::cmd("NOSUCH").query(&mut connection);
        assert!(unknown.unwrap_err().to_string().contains("unknown command"));
        assert_eq!(redis::cmd("DBSIZE").query::<i64>(&mut connection).unwrap(), 6);
    });
}

#[test]
fn every_key_is_found_by_scan() {
    in_both(|server, protocol| {
        let mut connection = connect(server, protocol);
        let mut pipe = redis::pipe();
        for number in 0..1000 {
            pipe.set(format!("key:{number}"), number).ignore();
        }
        let () = pipe.query(&mut connection).unwrap();
        let found: RedisResult<Vec<String>> = connection.scan_match("key:*").unwrap().collect();
        let mut found = found.unwrap();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 1000);
    });
}

#[test]
fn pipelines_and_transactions() {
    in_both(|server, protocol| {
        let (mut connection, mut other) = (connect(server, protocol), connect(server, protocol));
        let (a, b): (i64, Option<String>) = redis::pipe()
            .set("a", 1)
            .ignore()
            .incr("a", 1)
            .get("b")
            .query(&mut connection)
            .unwrap();
        assert_eq!((a, b), (2, None));
        let whole: (i64, i64) =
            redis::pipe().atomic().incr("a", 1).incr("a", 1).query(&mut connection).unwrap();
        assert_eq!(whole, (3, 4));
        // An error of one command is that of the transaction, and the others have happened.
        let failed: RedisResult<()> = redis::pipe()
            .atomic()
            .lpush("a", 1)
            .ignore()
            .incr("a", 1)
            .ignore()
            .query(&mut connection);
        assert!(failed.is_err());
        assert_eq!(connection.get::<_, i64>("a").unwrap(), 5);
        // Another client changes the watched key in the first attempt.
        let mut attempts = 0;
        let result: (i64,) = redis::transaction(&mut connection, &["a"], |connection, pipe| {
            let value: i64 = connection.get("a")?;
            attempts += 1;
            if attempts == 1 {
                let () = other.set("a", 100)?;
            }
            pipe.set("a", value + 1).ignore().get("a").query(connection)
        })
        .unwrap();
        assert_eq!((result, attempts), ((101,), 2));
    });
}

#[test]
fn messages_reach_subscribers() {
    in_both(|server, protocol| {
        let (mut connection, mut other) = (connect(server, protocol), connect(server, protocol));
        let mut subscriber = connection.as_pubsub();
        subscriber.subscribe("news").unwrap();
        subscriber.psubscribe("n?ws").unwrap();
        assert_eq!(other.publish::<_, _, i64>("news", "text").unwrap(), 2);
        for pattern in [None, Some("n?ws".to_owned())] {
            let message = subscriber.get_message().unwrap();
            assert_eq!(message.get_channel_name(), "news");
            assert_eq!(message.get_payload::<String>().unwrap(), "text");
            assert_eq!(message.get_pattern::<Option<String>>().unwrap(), pattern);
        }
    });
}

/// In RESP3 a client that tracks keys is notified of changes between its replies.
#[test]
fn messages_come_between_replies_in_resp3() {
    let server = Running::start();
    let (mut connection, mut other) = (connect(&server, "resp3"), connect(&server, "resp3"));
    let (sender, pushed) = mpsc::channel();
    connection.set_push_sender(sender);
    let () = redis::cmd("CLIENT").arg("TRACKING").arg("ON").query(&mut connection).unwrap();
    assert_eq!(connection.get::<_, Option<i64>>("a").unwrap(), None);
    let () = other.set("a", 1).unwrap();
    // Until the message has come: it may be behind the reply.
    let message = loop {
        let () = redis::cmd("PING").query(&mut connection).unwrap();
        if let Ok(message) = pushed.try_recv() {
            break message;
        }
    };
    assert_eq!(message.kind, PushKind::Invalidate);
    assert_eq!(message.data, [Value::Array(vec![Value::BulkString(b"a".to_vec())])]);
}

#[test]
fn streams_and_their_groups() {
    in_both(|server, protocol| {
        let mut connection = connect(server, protocol);
        for number in 0..5 {
            let id: String = connection.xadd("jobs", "*", &[("number", number)]).unwrap();
            assert!(id.contains('-'));
        }
        let () = connection.xgroup_create("jobs", "workers", "0").unwrap();
        let options = StreamReadOptions::default().group("workers", "one").count(3);
        let read: StreamReadReply = connection.xread_options(&["jobs"], &[">"], &options).unwrap();
        let ids = &read.keys[0].ids;
        let numbers: Vec<i64> = ids.iter().map(|id| id.get("number").unwrap()).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(connection.xack::<_, _, _, i64>("jobs", "workers", &[&ids[0].id]).unwrap(), 1);
        // What was not acknowledged is given again.
        let read: StreamReadReply = connection.xread_options(&["jobs"], &["0"], &options).unwrap();
        assert_eq!(read.keys[0].ids.len(), 2);
        assert_eq!(connection.xlen::<_, i64>("jobs").unwrap(), 5);
    });
}

#[test]
fn scripts_are_loaded_when_the_server_does_not_know_them() {
    in_both(|server, protocol| {
        let mut connection = connect(server, protocol);
        let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        for expected in [2, 4] {
            let sum: i64 = script.key("sum").arg(2).invoke(&mut connection).unwrap();
            assert_eq!(sum, expected);
        }
        let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut connection).unwrap();
        assert_eq!(script.key("sum").arg(2).invoke::<i64>(&mut connection).unwrap(), 6);
        let failed: RedisResult<()> =
            Script::new("return redis.error_reply('MINE is it')").invoke(&mut connection);
        assert_eq!(failed.unwrap_err().code(), Some("MINE"));
    });
}

/// What was acknowledged is there for a client that connects again.
#[test]
fn a_client_connects_again_after_a_restart() {
    let server = Running::start();
    let mut connection = connect(&server, "resp3");
    let () = connection.set("a", "kept").unwrap();
    let (store, result) = server.stop();
    result.unwrap();
    let lost: RedisResult<String> = connection.get("a");
    assert!(lost.unwrap_err().is_connection_dropped());
    assert!(!connection.is_open());
    let server = Running::over(store, tembo_server::Config::default());
    let mut connection = connect(&server, "resp3");
    assert_eq!(connection.get::<_, String>("a").unwrap(), "kept");
    let refused = redis::Client::open(format!("redis://:secret@{}/", server.address));
    let refused = refused.unwrap().get_connection().err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::AuthenticationFailed);
}
