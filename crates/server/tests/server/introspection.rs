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

/// Commands between the nodes of a cluster, and Redis's own for its tests.
const NOT_HERE: [&str; 1] = ["restore-asking"];

#[test]
fn every_command_of_redis_is_here() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let known = bulks(&Client::connect(redis.address).call("COMMAND LIST"));
    let names = bulks(&tembo.client().call("COMMAND LIST"));
    let missing: Vec<_> = known.iter().filter(|name| !names.contains(name)).collect();
    assert_eq!(missing, NOT_HERE);
}

#[test]
fn what_belongs_to_a_cluster_or_to_modules_is_refused_as_where_there_is_none() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    for call in ["READONLY", "READWRITE", "ASKING", "MODULE LIST", "MEMORY PURGE", "BGREWRITEAOF"] {
        assert_eq!(theirs.call(call), ours.call(call), "{call}");
    }
    assert!(ours.call("MODULE LOAD /tmp/module.so").starts_with("-ERR Tembo has no modules"));
    assert!(ours.call("LOLWUT").contains("Tembo ver. "));
}

#[test]
fn memory_stats_has_names_of_redis_and_numbers_that_agree() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    let stats = |client: &mut Client| {
        client.call("HELLO 3");
        match Node::parse(&mut client.call("MEMORY STATS").lines()) {
            Node::Map(pairs) => pairs.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            other => panic!("{other:?}"),
        }
    };
    let (known, before) = (stats(&mut theirs), stats(&mut ours));
    for name in before.keys().filter(|name| !name.starts_with("tembo.")) {
        assert!(known.contains_key(name), "{name}");
    }
    ours.call(&format!("SET a {}", "x".repeat(100_000)));
    ours.call("SET b 1");
    let after = stats(&mut ours);
    let number = |stats: &std::collections::BTreeMap<String, Node>, name: &str| match &stats[name] {
        Node::Leaf(number) => number.parse::<u64>().unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!((number(&before, "keys.count"), number(&after, "keys.count")), (0, 2));
    let dataset = number(&after, "dataset.bytes");
    assert!(dataset >= number(&before, "dataset.bytes") + 100_000);
    assert_eq!(number(&after, "keys.bytes-per-key"), dataset / 2);
    assert!(number(&after, "tembo.pool") >= dataset);
}

#[test]
fn the_doctor_names_a_limit_that_is_close() {
    let tembo = Running::start();
    let mut client = tembo.client();
    assert!(client.call("MEMORY DOCTOR").contains("Nothing is out of the ordinary"));
    client.call(&format!("SET a {}", "x".repeat(100_000)));
    client.call("CONFIG SET maxmemory 100000");
    let advice = client.call("MEMORY DOCTOR");
    assert!(advice.contains("close to `maxmemory` (100000)"), "{advice}");
}

/// A reply, taken apart.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Leaf(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    fn parse<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Node {
        let line = lines.next().unwrap();
        let count = line.get(1..).and_then(|count| count.parse::<usize>().ok());
        match line.as_bytes()[0] {
            b'$' => Node::Leaf(lines.next().unwrap().to_owned()),
            b'*' | b'~' => Node::List((0..count.unwrap()).map(|_| Node::parse(lines)).collect()),
            b'%' => {
                let pair = |_| match Node::parse(lines) {
                    Node::Leaf(name) => (name, Node::parse(lines)),
                    other => panic!("{other:?} is no name"),
                };
                Node::Map((0..count.unwrap()).map(pair).collect())
            }
            _ => Node::Leaf(line[1..].to_owned()),
        }
    }

    fn into_map(self) -> Vec<(String, Node)> {
        match self {
            Node::Map(fields) => fields,
            other => panic!("{other:?} is no map"),
        }
    }
}

/// Versions, groups and arguments are Redis's; the rest is worded otherwise, and the history of changes is left out.
#[test]
fn documentation_has_the_structure_that_clients_read() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    let known = bulks(&theirs.call("COMMAND LIST"));
    let names = bulks(&ours.call("COMMAND LIST"));
    theirs.call("HELLO 3");
    ours.call("HELLO 3");
    let of = |client: &mut Client, name: &str| {
        let reply = client.call(&format!("COMMAND DOCS {name}"));
        let mut all = Node::parse(&mut reply.lines()).into_map();
        assert_eq!(all.len(), 1, "{name}");
        let mut fields = all.remove(0).1.into_map();
        assert_eq!(fields[0].0, "summary", "{name}");
        let kept = ["since", "group", "doc_flags", "deprecated_since", "arguments"];
        fields.retain(|(field, _)| kept.contains(&field.as_str()));
        fields
    };
    let mut compared = 0;
    for name in names.iter().filter(|name| known.contains(name)) {
        assert_eq!(of(&mut theirs, name), of(&mut ours, name), "{name}");
        compared += 1;
    }
    assert!(compared > 250, "{compared}");
    // Subcommands are described within their container.
    let reply = ours.call("COMMAND DOCS client nosuch");
    let client = Node::parse(&mut reply.lines()).into_map().remove(0).1.into_map();
    let subcommands = client.into_iter().find(|(field, _)| field == "subcommands").unwrap().1;
    assert!(subcommands.into_map().iter().any(|(name, _)| name == "client|kill"));
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
        "COMMAND GETKEYS EVAL x 2 a b",
        "COMMAND GETKEYS EVAL x 0",
        "COMMAND GETKEYS EVAL x 3 a",
        "COMMAND GETKEYS EVAL x",
        "COMMAND GETKEYS FCALL_RO f 1 a",
        "COMMAND GETKEYS SORT a STORE b GET c STORE d",
        "COMMAND GETKEYS SORT_RO a",
        "COMMAND GETKEYS XREAD COUNT 1 STREAMS a b 0 0",
        "COMMAND GETKEYS XREAD COUNT 1",
        "COMMAND GETKEYS ZUNIONSTORE a 2 b c",
        "COMMAND GETKEYS ZUNIONSTORE a 3 b c",
        "COMMAND GETKEYS GEORADIUS a 1 2 3 m STOREDIST b",
        "COMMAND GETKEYS PING a b",
        "COMMAND GETKEYS NOSUCH a b",
        "COMMAND GETKEYSANDFLAGS SET a b",
        "COMMAND GETKEYSANDFLAGS SET a b GET",
        "COMMAND GETKEYSANDFLAGS MSET a 1 b 2",
        "COMMAND GETKEYSANDFLAGS LMOVE a b LEFT RIGHT",
        "COMMAND GETKEYSANDFLAGS SORT a STORE b",
        "COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0",
        "COMMAND GETKEYSANDFLAGS BITFIELD a SET u8 0 1",
        "COMMAND GETKEYSANDFLAGS EVALSHA x 1 a",
        "COMMAND GETKEYSANDFLAGS DEL a b",
        "CLUSTER INFO",
        "CLUSTER SLOTS",
        "PFSELFTEST",
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

#[test]
fn a_client_sees_how_large_its_buffers_are() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(other.call("PING"), "+PONG\r\n");
    assert!(client.call("CLIENT INFO").contains(" qbuf=26 qbuf-free="));
    let list = client.call("CLIENT LIST");
    assert!(list.contains(" qbuf=26 qbuf-free=") && list.contains(" qbuf=0 qbuf-free="), "{list}");
    let descriptors = |list: &str| -> std::collections::BTreeSet<i32> {
        let of = |line: &str| line.split(" fd=").nth(1)?.split(' ').next()?.parse().ok();
        list.lines().filter_map(of).collect()
    };
    let descriptors = descriptors(&list);
    assert!(
        descriptors.len() == 2 && descriptors.iter().all(|descriptor| *descriptor > 2),
        "{list}"
    );
}

/// What INFO says of errors and of commands, but for times.
fn counts(client: &mut Client) -> Vec<String> {
    let mut counts = Vec::new();
    for section in ["errorstats", "commandstats"] {
        for line in client.call(&format!("INFO {section}")).lines() {
            if line.starts_with("errorstat") {
                counts.push(line.to_owned());
            } else if let Some((name, rest)) = line.split_once(":calls=")
                && !name.contains("info")
                && !name.contains("config")
            {
                let (calls, rest) = rest.split_once(",usec").unwrap();
                counts.push(format!("{name} {calls} {}", rest.split_once(",rejected").unwrap().1));
            }
        }
    }
    counts.sort_unstable();
    counts
}

#[test]
fn an_error_in_a_script_counts_once() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    for script in [
        "return redis.call('select', 99)",
        "return redis.pcall('select', 99)",
        "redis.pcall('select', 99) return 1",
        "return redis.error_reply('MY_CODE text')",
        "return redis.error_reply('')",
        "return redis.status_reply('fine')",
        "redis.call('get')",
        "redis.call('nosuch')",
        "redis.call('set', 's', 1) return redis.call('lpush', 's', 1)",
        "error('raised')",
        "error({err='OWN raised'})",
        "return nosuch",
    ] {
        let counted = |client: &mut Client| {
            client.call("CONFIG RESETSTAT");
            client.call_args(&[b"EVAL", script.as_bytes(), b"0"]);
            let total = client.call("INFO stats");
            let total =
                total.lines().find(|line| line.starts_with("total_error")).unwrap().to_owned();
            (counts(client), total)
        };
        assert_eq!(counted(&mut theirs), counted(&mut ours), "{script}");
    }
}

#[test]
fn writes_are_refused_while_there_are_too_few_replicas() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    for call in [
        "CONFIG SET min-replicas-to-write 1",
        "CONFIG GET min-slaves-to-write",
        "SET a b",
        "GET a",
        "MULTI",
        "SET a b",
        "GET a",
        "EXEC",
        "PUBLISH a b",
        "CONFIG SET min-replicas-max-lag 0",
        "SET a b",
        "CONFIG SET min-slaves-max-lag 10",
        "CONFIG SET min-replicas-to-write 0",
        "MULTI",
        "SET a c",
        "CONFIG SET min-replicas-to-write 2",
        "EXEC",
        "GET a",
    ] {
        assert_eq!(theirs.call(call), ours.call(call), "{call}");
    }
    for script in [
        "return redis.call('GET', 'a')",
        "return redis.call('SET', 'a', 'b')",
        "#!lua\nreturn 1",
        "#!lua flags=no-writes\nreturn 1",
    ] {
        let args: [&[u8]; 3] = [b"EVAL", script.as_bytes(), b"0"];
        assert_eq!(theirs.call_args(&args), ours.call_args(&args), "{script}");
    }
}

/// What MEMORY USAGE says, of the samples and of all elements.
fn usages(client: &mut Client, key: &str) -> [i64; 2] {
    ["", " SAMPLES 0"].map(|samples| {
        let reply = client.call(&format!("MEMORY USAGE {key}{samples}"));
        reply.trim_start_matches(':').trim_end().parse().unwrap()
    })
}

#[test]
fn the_usage_of_a_key_is_that_of_all_that_is_under_it() {
    let tembo = Running::start();
    let mut client = tembo.client();
    let add = |client: &mut Client, command: &str, element: &dyn Fn(usize) -> String| {
        for from in (0..2000).step_by(500) {
            let elements: Vec<String> = (from..from + 500).map(element).collect();
            let reply = client.call(&format!("{command} {}", elements.join(" ")));
            assert!(reply.starts_with(':'), "{reply}");
        }
    };
    add(&mut client, "HSET hash", &|number| format!("field:{number:06} value:{number:06}"));
    add(&mut client, "SADD set", &|number| format!("member:{number:06}"));
    add(&mut client, "ZADD sorted", &|number| format!("{number} member:{number:06}"));
    add(&mut client, "RPUSH list", &|number| format!("element:{number:06}"));
    client.call("XADD stream * field value");
    client.call(&format!("SET string {}", "x".repeat(1000)));
    client.call("SET short 1");
    // Names and values alone.
    for (key, least) in
        [("hash", 2000 * 24), ("set", 2000 * 13), ("sorted", 2000 * 42), ("list", 2000 * 14)]
    {
        let [sampled, all] = usages(&mut client, key);
        assert!((least..6 * least).contains(&all), "{key}: {all}");
        assert!((all / 10 * 8..all / 10 * 12).contains(&sampled), "{key}: {sampled} to {all}");
        let more_than_there_are = client.call(&format!("MEMORY USAGE {key} SAMPLES 2010"));
        assert_eq!(more_than_there_are, format!(":{all}\r\n"), "{key}");
    }
    assert_eq!(usages(&mut client, "string").map(|size| size / 100), [10; 2]);
    let short = usages(&mut client, "short");
    client.call("EXPIRE short 100");
    assert!(usages(&mut client, "short")[0] > short[0]);
    assert!(usages(&mut client, "stream")[0] > 20);
    assert_eq!(client.call("MEMORY USAGE missing SAMPLES 3"), "$-1\r\n");
    let wrong = client.call("MEMORY USAGE short SAMPLES few");
    assert_eq!(wrong, "-ERR value is not an integer or out of range\r\n");
}
