//! What the server says about its commands and clients, beside Redis.

use crate::client::{Client, Running};
use crate::differential::Redis;

/// The bulks of an array, as text.
fn bulks(reply: &str) -> Vec<String> {
    reply.lines().skip(2).step_by(2).map(str::to_owned).collect()
}

#[test]
fn rows_of_commands_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    for hello in ["PING", "HELLO 3"] {
        let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
        theirs.call(hello);
        ours.call(hello);
        let known = bulks(&theirs.call("COMMAND LIST"));
        let names = bulks(&ours.call("COMMAND LIST"));
        let mut compared = 0;
        for name in names.iter().filter(|name| known.contains(name)) {
            let call = format!("COMMAND INFO {name}");
            let (theirs, ours) = (theirs.call(&call), ours.call(&call));
            // Containers have subcommands in any order, and not all of them here: they are compared one by one.
            let has_subcommands = names.iter().any(|other| other.starts_with(&format!("{name}|")));
            if !has_subcommands {
                assert_eq!(theirs, ours, "{name}");
                compared += 1;
            }
        }
        assert!(compared > 150, "{compared}");
    }
}

#[test]
fn commands_are_listed_by_category_and_pattern() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    let known = bulks(&theirs.call("COMMAND LIST"));
    let mut all = bulks(&ours.call("COMMAND LIST"));
    all.retain(|name| known.contains(name));
    for filter in
        ["ACLCAT string", "aclcat PUBSUB", "PATTERN g*", "PATTERN client|*", "MODULE x", "ACLCAT x"]
    {
        let listed = |client: &mut Client| {
            let mut names = bulks(&client.call(&format!("COMMAND LIST FILTERBY {filter}")));
            names.retain(|name| all.contains(name));
            names.sort_unstable();
            names
        };
        assert_eq!(listed(&mut theirs), listed(&mut ours), "{filter}");
    }
    for call in [
        "COMMAND LIST FILTERBY x y",
        "COMMAND LIST FILTERBY PATTERN",
        "COMMAND GETKEYS OBJECT ENCODING a",
        "COMMAND GETKEYS MEMORY USAGE a",
        "COMMAND GETKEYS BITOP AND a b c",
        "COMMAND GETKEYS PFCOUNT a b",
        "COMMAND GETKEYS SUBSCRIBE a",
        "COMMAND GETKEYS LCS a b",
    ] {
        assert_eq!(theirs.call(call), ours.call(call), "{call}");
    }
}

#[test]
fn subscribers_are_listed_by_their_type() {
    let server = Running::start();
    let (mut client, mut subscriber) = (server.client(), server.client());
    subscriber.call("SUBSCRIBE a b");
    subscriber.reply();
    let list = client.call("CLIENT LIST TYPE pubsub");
    assert_eq!(list.matches("id=").count(), 1, "{list}");
    assert!(list.contains(" flags=P db=0 sub=2 psub=0 ssub=0 "), "{list}");
    assert_eq!(client.call("CLIENT LIST TYPE normal").matches("id=").count(), 1);
    client.call("CLIENT NO-EVICT on");
    assert!(client.call("CLIENT INFO").contains(" flags=e "));
    assert!(client.call("INFO stats").contains("\r\npubsub_channels:2\r\n"));
    assert_eq!(client.call("CLIENT KILL TYPE pubsub"), ":1\r\n");
    assert!(subscriber.is_closed());
}
