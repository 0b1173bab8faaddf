//! Scripts and functions.

use tembo_server::Config;

use crate::client::{Client, Running, encode, wait_until};
use crate::differential::Redis;

/// Scripts and commands, one behind the other: `!` before a command, `F!` before a library of functions.
const SCRIPTS: &str = include_str!("scripts.txt");

/// The words of what stands in [`SCRIPTS`].
fn words(item: &str) -> Vec<&[u8]> {
    if let Some(command) = item.strip_prefix('!') {
        return command.split(' ').map(str::as_bytes).collect();
    }
    if let Some(library) = item.strip_prefix("F!") {
        return vec![b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()];
    }
    vec![b"EVAL", item.as_bytes(), b"2", b"k1", b"k2", b"a1", b"2"]
}

#[test]
fn scripts_are_replied_to_as_by_redis() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    for hello in ["HELLO 2", "HELLO 3"] {
        let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
        theirs.call(hello);
        ours.call(hello);
        for item in SCRIPTS.split("\n====\n").map(|item| item.trim_matches('\n')) {
            let words = words(item);
            assert_eq!(theirs.call_args(&words), ours.call_args(&words), "{hello}: {item}");
        }
    }
}

#[test]
fn a_known_script_is_found_by_its_sha1_until_it_is_forgotten() {
    let server = Running::start();
    let mut client = server.client();
    let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert_eq!(client.call("SCRIPT LOAD return(1)").len(), 40 + 7);
    assert!(client.call(&format!("EVALSHA {sha} 0")).starts_with("-NOSCRIPT"));
    assert_eq!(client.call_args(&[b"EVAL", b"return 1", b"0"]), ":1\r\n");
    assert_eq!(client.call(&format!("EVALSHA {} 0", sha.to_uppercase())), ":1\r\n");
    assert_eq!(client.call(&format!("SCRIPT EXISTS {sha} x")), "*2\r\n:1\r\n:0\r\n");
    assert!(client.call("INFO memory").contains("number_of_cached_scripts:2\r\n"));
    assert_eq!(client.call("SCRIPT FLUSH"), "+OK\r\n");
    assert!(client.call(&format!("EVALSHA {sha} 0")).starts_with("-NOSCRIPT"));
}

#[test]
fn a_script_is_part_of_a_transaction_and_of_its_watches() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.call("WATCH key");
    other.call_args(&[b"EVAL", b"return redis.call('SET', KEYS[1], 1)", b"1", b"key"]);
    client.call("MULTI");
    client.call("PING");
    assert_eq!(client.call("EXEC"), "*-1\r\n");
    client.call("MULTI");
    client.call("INCR key");
    client.call_args(&[b"EVAL", b"return redis.call('INCRBY', KEYS[1], 5)", b"1", b"key"]);
    assert_eq!(client.call("EXEC"), "*2\r\n:2\r\n:7\r\n");
}

#[test]
fn a_client_that_waits_is_served_by_a_script() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.send(b"BLPOP list 0\r\n");
    wait_until(
        "the client waits",
        || other.call("INFO clients"),
        |info| info.contains("blocked_clients:1\r\n"),
    );
    // What is pushed and popped again in the script serves no client, and BLPOP itself does not wait.
    let script = b"redis.call('LPUSH', 'list', 'a') redis.call('LPOP', 'list')
        redis.call('RPUSH', 'list', 'b') return redis.pcall('BLPOP', 'list', 0)";
    assert!(other.call_args(&[b"EVAL", script, b"0"]).starts_with("-ERR This Redis command"));
    assert_eq!(client.reply(), "*2\r\n$4\r\nlist\r\n$1\r\nb\r\n");
}

#[test]
fn functions_are_there_after_a_restart() {
    const LIBRARY: &[u8] =
        b"#!lua name=lib\nredis.register_function('answer', function() return 42 end)";
    const OTHER: &[u8] =
        b"#!lua name=other\nredis.register_function('answer', function() return 1 end)";
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.call_args(&[b"FUNCTION", b"LOAD", LIBRARY]), "$3\r\nlib\r\n");
    let (store, ended) = server.stop();
    ended.unwrap();
    let server = Running::over(store, Config::default());
    let mut client = server.client();
    assert_eq!(client.call("FCALL answer 0"), ":42\r\n");
    let refused = "-ERR Function answer already exists\r\n";
    assert_eq!(client.call_args(&[b"FUNCTION", b"LOAD", OTHER]), refused);
    assert_eq!(client.call("FUNCTION DELETE lib"), "+OK\r\n");
    let (store, ended) = server.stop();
    ended.unwrap();
    let server = Running::over(store, Config::default());
    let mut client = server.client();
    assert_eq!(client.call("FCALL answer 0"), "-ERR Function not found\r\n");
    assert_eq!(client.call("FUNCTION LIST"), "*0\r\n");
}

#[test]
fn scripts_run_as_before_after_a_library_whose_loading_did_not_end() {
    let server = Running::start();
    let mut client = server.client();
    let library = b"#!lua name=lib\nwhile true do end";
    let reply = client.call_args(&[b"FUNCTION", b"LOAD", library]);
    assert!(reply.contains("FUNCTION LOAD timeout"), "{reply}");
    let script = b"return redis.call('PING')";
    assert_eq!(client.call_args(&[b"EVAL", script, b"0"]), "+PONG\r\n");
}

/// Sends a script that does not end by itself, and waits until another client is refused.
fn busy(server: &Running, script: &[u8]) -> (Client, Client) {
    let (mut client, mut other) = (server.client(), server.client());
    other.call("CONFIG SET busy-reply-threshold 1");
    client.send(&encode(&[b"EVAL", script, b"0"]));
    wait_until("the script runs", || other.call("GET key"), |reply| reply.starts_with("-BUSY"));
    (client, other)
}

const KILLED: &str = "-ERR Script killed by user with SCRIPT KILL...";

#[test]
fn a_script_that_does_not_end_is_killed_by_another_client() {
    let server = Running::start();
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do end end) f()",
    ] {
        let (mut client, mut other) = busy(&server, script.as_bytes());
        // One that has just come.
        let mut third = server.client();
        assert!(third.call("PING").starts_with("-BUSY Redis is busy running a script"));
        assert!(third.call("FUNCTION KILL").starts_with("-BUSY"));
        assert_eq!(other.call("MULTI"), "+OK\r\n");
        assert!(other.call("PING").starts_with("-BUSY"));
        assert_eq!(third.call("SCRIPT KILL"), "+OK\r\n");
        assert!(client.reply().starts_with(KILLED), "{script}");
        assert!(other.call("EXEC").starts_with("-EXECABORT"));
        assert_eq!(third.call("PING"), "+PONG\r\n");
        assert!(third.call("SCRIPT KILL").starts_with("-NOTBUSY"));
        // The state is as it was.
        assert_eq!(client.call_args(&[b"EVAL", b"return 7", b"0"]), ":7\r\n");
    }
}

#[test]
fn a_script_that_has_written_ends_with_the_server_alone_and_leaves_nothing() {
    let server = Running::start();
    let script = b"redis.call('SET', 'key', 'value') while true do end";
    let (_client, mut other) = busy(&server, script);
    assert!(other.call("SCRIPT KILL").starts_with("-UNKILLABLE"));
    assert!(other.call("SHUTDOWN").starts_with("-BUSY"));
    other.send(&encode(&[b"SHUTDOWN", b"NOSAVE"]));
    assert!(other.is_closed());
    let (store, ended) = server.stop();
    ended.unwrap();
    let server = Running::over(store, Config::default());
    assert_eq!(server.client().call("EXISTS key"), ":0\r\n");
}

#[test]
fn a_script_that_only_reads_is_not_held_by_a_pause_of_writes() {
    let server = Running::start();
    let mut client = server.client();
    let library = b"#!lua name=l\nredis.register_function{function_name='Reads', \
        callback=function() return 1 end, flags={'no-writes'}}";
    client.call_args(&[b"FUNCTION", b"LOAD", library]);
    client.call("CLIENT PAUSE 3600000 WRITE");
    let reads = b"#!lua flags=no-writes\nreturn 1";
    assert_eq!(client.call_args(&[b"EVAL", reads, b"0"]), ":1\r\n");
    assert_eq!(client.call("FCALL reads 0"), ":1\r\n");
    client.call("MULTI");
    client.call_args(&[b"EVAL", reads, b"0"]);
    assert_eq!(client.call("EXEC"), "*1\r\n:1\r\n");
}

/// Lua's own function ended the server.
#[test]
fn a_range_that_is_too_large_to_be_counted_is_not_unpacked() {
    let server = Running::start();
    let mut client = server.client();
    let unpack = |client: &mut Client, arguments: &str| {
        let script = format!("return {{unpack({arguments})}}");
        client.call_args(&[b"EVAL", script.as_bytes(), b"0"])
    };
    for range in [
        "-2, 2147483647",
        "0, 2147483647",
        "-2147483648, -2",
        "-2147483648, 2147483647",
        "0/0, 2147483647",
        "1, 1/0",
        "-1/0, 1/0",
        "1, 1e300",
        "1, 10000000",
    ] {
        let reply = unpack(&mut client, &format!("{{1, 2, 3}}, {range}"));
        assert!(reply.contains("user_script:1: too many results to unpack"), "{range}: {reply}");
    }
    for (arguments, expected) in [
        ("{1, 2, 3}, 2^32, 2^31 - 1", "*0\r\n"),
        ("{1, 2, 3}, -1, -2", "*0\r\n"),
        ("{1, 2, 3}, 1e300, 1e300", "*0\r\n"),
        ("{1, 2, 3}", "*3\r\n:1\r\n:2\r\n:3\r\n"),
        ("{1, 2, 3}, '2'", "*2\r\n:2\r\n:3\r\n"),
        ("{1, 2, 3}, 2, 2", "*1\r\n:2\r\n"),
        ("{1, 2, 3}, nil, 1", "*1\r\n:1\r\n"),
    ] {
        assert_eq!(unpack(&mut client, arguments), expected, "{arguments}");
    }
    // As many as Lua's stack has room for, with the table itself.
    let script = "local all = {} for i = 1, 7999 do all[i] = i end return select('#', unpack(all))";
    assert_eq!(client.call_args(&[b"EVAL", script.as_bytes(), b"0"]), ":7999\r\n");
    for (arguments, error) in [
        ("", "bad argument #1 to 'unpack' (table expected, got no value)"),
        ("nil", "bad argument #1 to 'unpack' (table expected, got nil)"),
        ("{}, 'a'", "bad argument #2 to 'unpack' (number expected, got string)"),
        ("{}, 1, {}", "bad argument #3 to 'unpack' (number expected, got table)"),
    ] {
        let reply = unpack(&mut client, arguments);
        assert!(reply.contains(&format!("user_script:1: {error}")), "{arguments}: {reply}");
    }
}

/// Lua's compiler counts the `=` of a long bracket in 32 bits.
#[test]
fn a_long_bracket_of_any_source_has_a_bounded_level() {
    let server = Running::start();
    let mut client = server.client();
    let bracket = |level: usize| format!("[{0}[x]{0}]", "=".repeat(level));
    let (most, too_many) = (bracket(65_535), bracket(65_536));
    let eval =
        |client: &mut Client, script: &str| client.call_args(&[b"EVAL", script.as_bytes(), b"0"]);
    assert_eq!(eval(&mut client, &format!("return {most}")), "$1\r\nx\r\n");
    let script = format!("return {too_many}");
    let library = format!(
        "#!lua name=l\nlocal x = {too_many} redis.register_function('f', function() return x end)"
    );
    let refused = "user_script: a long bracket has too many '='";
    for (words, error) in [
        ([b"EVAL", script.as_bytes(), b"0"].as_slice(), refused),
        (&[b"EVAL_RO", script.as_bytes(), b"0"], refused),
        (&[b"SCRIPT", b"LOAD", script.as_bytes()], refused),
        (
            &[b"FUNCTION", b"LOAD", library.as_bytes()],
            "user_function: a long bracket has too many '='",
        ),
    ] {
        let reply = client.call_args(words);
        assert!(reply.starts_with("-ERR Error compiling"), "{reply}");
        assert!(reply.contains(error), "{reply}");
    }
    for load in [
        "loadstring('return [' .. level .. '[x]' .. level .. ']', 'name')",
        "load(function() part = part + 1 return parts[part] end, 'name')",
    ] {
        let script = format!(
            "local level, part = string.rep('=', 65536), 0
            local parts = {{'return [', level, '[x]', level, ']'}}
            local compiled, text = {load}
            return {{tostring(compiled), text}}"
        );
        let refused = "*2\r\n$3\r\nnil\r\n$37\r\nname: a long bracket has too many '='\r\n";
        assert_eq!(eval(&mut client, &script), refused);
    }
}

/// The compiler holds what the collector does not find.
#[test]
fn nothing_is_collected_while_a_script_has_a_source_compiled() {
    let server = Running::start();
    let mut client = server.client();
    for load in
        ["loadstring(source)", "load(function() local part = source source = nil return part end)"]
    {
        let script = format!(
            "local parts = {{}}
            for i = 1, 100000 do parts[i] = \"'constant \" .. i .. \"'\" end
            local source = 'return {{' .. table.concat(parts, ',') .. '}}'
            collectgarbage()
            local weak = setmetatable({{}}, {{__mode = 'k'}})
            weak[{{}}] = true
            local compiled = {load}
            local is_left = next(weak) ~= nil
            collectgarbage()
            return {{is_left and 1 or 0, #compiled(), next(weak) == nil and 1 or 0}}"
        );
        let reply = client.call_args(&[b"EVAL", script.as_bytes(), b"0"]);
        assert_eq!(reply, "*3\r\n:1\r\n:100000\r\n:1\r\n", "{load}");
    }
}

/// What scripts find, and none of them changes.
const LIBRARIES: [&str; 10] =
    ["string", "table", "math", "coroutine", "redis", "cjson", "cmsgpack", "bit", "struct", "_G"];

/// Attempts to change it, or the types of values.
const CHANGES: &[&str] = &[
    "setmetatable('', {__index = 1})",
    "setmetatable(1, {})",
    "setmetatable(nil, {})",
    "setmetatable(true, {})",
    "setmetatable(print, {})",
    "setmetatable(redis.call, {})",
    "setmetatable(coroutine.create(redis.call), {})",
    "getmetatable('').__index = function() return 1 end",
    "getmetatable('').__index.upper = redis.call",
    "getmetatable('').__add = redis.call",
    "rawset(getmetatable(''), '__index', 1)",
    "rawset(getmetatable('').__index, 'upper', 1)",
    "setmetatable(getmetatable(''), {})",
    "table.insert(getmetatable(''), 1)",
    "getmetatable(_G).__index = nil",
    "rawset(getmetatable(_G), '__index', nil)",
    "getmetatable(1).__index = 1",
    "getmetatable(nil).__index = 1",
    "getmetatable(true).__index = 1",
    "getmetatable(redis.call).__index = 1",
    "getmetatable(coroutine.create(redis.call)).__index = 1",
    "getmetatable(string).__index = 1",
    "newproxy(true)",
    "getfenv().redis = 1",
    "setfenv(1, {})",
    "debug.setmetatable('', {})",
];

/// What one user's script does to the types of values would act in another user's.
#[test]
fn no_script_changes_what_another_one_finds() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    let mut changes: Vec<String> = CHANGES.iter().map(|change| (*change).to_owned()).collect();
    for library in LIBRARIES {
        changes.extend([
            format!("{library}.added = 1"),
            format!("rawset({library}, 'added', 1)"),
            format!("setmetatable({library}, {{}})"),
            format!("table.insert({library}, 1)"),
        ]);
    }
    for change in changes {
        let reply = client.call_args(&[b"EVAL", change.as_bytes(), b"0"]);
        assert!(reply.starts_with("-ERR"), "{change}: {reply}");
    }
    // These change nothing, whatever they say.
    for library in LIBRARIES {
        for change in [
            format!("for name in pairs({library}) do {library}[name] = nil end"),
            format!("table.sort({library})"),
            format!("table.remove({library}, 1)"),
            format!("table.setn({library}, 7)"),
        ] {
            client.call_args(&[b"EVAL", change.as_bytes(), b"0"]);
        }
    }
    let script = "local parts = {('a'):upper(), string.upper('b'), table.concat({'c', 'd'}), math.abs(-1),
        cjson.encode({1}), bit.tohex(255), struct.pack('b', 65), redis.call('PING').ok, cmsgpack.unpack(cmsgpack.pack('e'))}
        return table.concat(parts, ' ')";
    let expected = "A B cd 1 [1] 000000ff A PONG e";
    let reply = other.call_args(&[b"EVAL", script.as_bytes(), b"0"]);
    assert_eq!(reply, format!("${}\r\n{expected}\r\n", expected.len()));
}

#[test]
fn no_number_of_digits_leads_out_of_bounds() {
    let server = Running::start();
    let mut client = server.client();
    let script = b"local all = {}
        for _, digits in ipairs({-2147483648, -2147483647, -9, 2147483647, 2147483648, 0, 2^53, 0/0}) do
            all[#all + 1] = bit.tohex(48879, digits)
        end
        return table.concat(all, ' ')";
    let expected = "0000BEEF 0000BEEF 0000BEEF 0000beef 0000BEEF   ";
    let reply = client.call_args(&[b"EVAL", script, b"0"]);
    assert_eq!(reply, format!("${}\r\n{expected}\r\n", expected.len()));
}
