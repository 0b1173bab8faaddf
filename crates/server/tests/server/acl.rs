//! Users and what they may do, beside Redis byte for byte.

use std::path::PathBuf;

use tembo_server::{Config, Directive};

use crate::client::{Client, Running};
use crate::differential::Redis;

/// Commands by client: `0 ACL LIST` is one of the first client. A line without a number goes on with the client before.
const SCRIPT: &str = include_str!("acl.txt");

/// What is compared of a reply: all of it, but for ages and clients in ACL LOG and the order of rules, which Redis takes from
/// a hash table.
fn compared(command: &str, reply: String) -> String {
    if command.starts_with("ACL LOG") && command != "ACL LOG RESET" {
        return without_client(&reply);
    }
    if command == "ACL LIST" || command.starts_with("ACL GETUSER") {
        let mut words: Vec<&str> = reply.split([' ', '\r', '\n']).collect();
        words.sort_unstable();
        return words.join(" ");
    }
    reply
}

/// Of an entry of ACL LOG, what does not differ from run to run.
fn without_client(reply: &str) -> String {
    let lines: Vec<&str> = reply.split("\r\n").collect();
    let is_kept = |at: &usize| {
        let before = |count: usize| at.checked_sub(count).and_then(|at| lines.get(at)).copied();
        let of = |name: &str| {
            [before(1), before(2)].contains(&Some(name)) && lines[*at] != "client-info"
        };
        !of("age-seconds") && !of("client-info")
    };
    (0..lines.len()).filter(is_kept).map(|at| format!("{}\n", lines[at])).collect()
}

/// The words of a line; `_` is a space within one, `EMPTY` one without letters.
fn words(command: &str) -> Vec<Vec<u8>> {
    let word = |word: &str| word.replace("EMPTY", "").replace('_', " ").into_bytes();
    command.split(' ').map(word).collect()
}

#[test]
fn users_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    for protocol in ["2", "3"] {
        let server = Running::start();
        // As the script leaves it.
        let reset = "ACL SETUSER default reset on nopass ~* &* +@all";
        Client::connect(redis.address).call(reset);
        server.client().call(reset);
        let mut connections: Vec<(Client, Client)> = Vec::new();
        let (mut at, mut wrong) = (0, Vec::new());
        for line in SCRIPT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (number, command) = line.split_once(' ').unwrap_or((line, ""));
            let command = match number.parse() {
                Ok(number) => {
                    at = number;
                    command
                }
                Err(_) => line,
            };
            while connections.len() <= at {
                let mut pair = (Client::connect(redis.address), server.client());
                let hello = format!("HELLO {protocol}");
                pair.0.call(&hello);
                pair.1.call(&hello);
                connections.push(pair);
            }
            let words = words(command);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let (expected, actual) =
                (connections[at].0.call_args(&words), connections[at].1.call_args(&words));
            let (expected, actual) = (compared(command, expected), compared(command, actual));
            if actual != expected {
                wrong.push(format!(
                    "RESP{protocol}, client {at}: {command}\n  {actual:?}\n  {expected:?}"
                ));
            }
        }
        let users = Client::connect(redis.address).call("ACL USERS");
        for name in users.split("\r\n").filter(|name| name.starts_with('u')) {
            Client::connect(redis.address).call(&format!("ACL DELUSER {name}"));
        }
        Client::connect(redis.address).call("ACL LOG RESET");
        assert!(wrong.is_empty(), "not as Redis:\n{}", wrong.join("\n"));
    }
}

/// A path that nothing has.
fn path(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tembo-acl-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    folder.join("users.acl")
}

#[test]
fn users_are_kept_in_a_file() {
    let file = path("kept");
    let text = "user alice on >alice ~* &* +@all\n\nuser bob on nopass ~set* -@all +@set +acl\n";
    std::fs::write(&file, text).unwrap();
    let config = Config { aclfile: Some(file.clone()), ..Config::default() };
    let server = Running::with(config.clone());
    let mut client = server.client();
    assert_eq!(client.call("ACL WHOAMI"), "$7\r\ndefault\r\n");
    assert_eq!(client.call("AUTH alice alice"), "+OK\r\n");
    assert_eq!(client.call("ACL SETUSER eve on nopass resetchannels &test ~* +@all"), "+OK\r\n");
    assert_eq!(client.call("ACL SAVE"), "+OK\r\n");
    let saved = std::fs::read_to_string(&file).unwrap();
    // Passwords are not.
    assert!(saved.contains("user eve on nopass ~* resetchannels &test +@all\n"), "{saved}");
    assert!(!saved.contains(">alice") && saved.starts_with("user alice on #2bd806c9"), "{saved}");
    // Its clients end, but for those of the default user.
    let mut other = server.client();
    assert_eq!(client.call("ACL LOAD"), "+OK\r\n");
    assert!(client.is_closed());
    assert_eq!(other.call("PING"), "+PONG\r\n");
    // A file that is wrong changes nothing.
    std::fs::write(&file, format!("{saved}user alice on nopass\nuser bob +nosuch\n")).unwrap();
    let refused = other.call("ACL LOAD");
    assert!(refused.contains("WARNING: Duplicate user 'alice' found on line 5. "), "{refused}");
    assert!(refused.contains("no change to the previously active ACL rules was performed"));
    assert!(other.call("ACL GETUSER alice").contains("+@all"));
    server.stop().1.unwrap();

    std::fs::write(&file, &saved).unwrap();
    let server = Running::with(config);
    let mut client = server.client();
    assert_eq!(client.call("AUTH eve any"), "+OK\r\n");
    assert_eq!(client.call("PUBLISH test a"), ":0\r\n");
    assert!(client.call("PUBLISH other a").starts_with("-NOPERM "));
    let entry = server.client().call("ACL LOG");
    assert!(entry.contains("\r\nchannel\r\n") && entry.contains(" user=eve "), "{entry}");
}

#[test]
fn users_of_the_configuration_file_are_written_back() {
    let file = path("config");
    let line = "user default on nopass ~* &* +@all -flushdb";
    std::fs::write(&file, format!("{line}\n# mine\n")).unwrap();
    let users = tembo_server::read_config_file(&file).unwrap();
    let config = Config { file: Some(file.clone()), users, ..Config::default() };
    let server = Running::with(config.clone());
    let mut client = server.client();
    assert!(client.call("FLUSHDB").starts_with("-NOPERM this user has no permissions to run the"));
    client.call("ACL SETUSER ann on >secret +get ~a*");
    assert_eq!(client.call("CONFIG REWRITE"), "+OK\r\n");
    let written = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    assert!(lines[0].starts_with("user ann on #2bb80d53"), "{written}");
    assert!(lines[0].ends_with(" ~a* resetchannels -@all +get"), "{written}");
    assert_eq!(lines[1..], [line, "# mine"]);
    // Two of one name, and rules that are wrong, are reported with their place.
    let twice: Vec<Directive> = [&config.users[..], &config.users].concat();
    let wrong = Directive { args: vec![b"x".to_vec(), b"+nosuch".to_vec()], ..twice[0].clone() };
    for users in [twice, vec![wrong]] {
        let error = tembo_server::Server::check(&Config { users, ..Config::default() });
        assert!(matches!(error, Err(tembo_server::Error::Directive { line: 1, .. })), "{error:?}");
    }
}

#[test]
fn a_default_user_that_is_closed_protects_like_a_password() {
    let file = path("closed");
    std::fs::write(&file, "user default off\nuser ann on >x ~* &* +@all\n").unwrap();
    let bind = vec![std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)];
    let config = Config { aclfile: Some(file.clone()), bind: bind.clone(), ..Config::default() };
    let server = Running::with(config);
    let mut client = server.client_at_loopback();
    assert_eq!(client.call("GET a"), "-NOAUTH Authentication required.\r\n");
    assert_eq!(client.call("AUTH default x"), client.call("AUTH ann y"));
    assert_eq!(client.call("AUTH ann x"), "+OK\r\n");
    assert_eq!(client.call("GET a"), "$-1\r\n");
    std::fs::write(&file, "user default on nopass ~* &* +@all\n").unwrap();
    let open = Config { aclfile: Some(file), bind, ..Config::default() };
    let refused = tembo_server::Server::check(&open);
    assert!(matches!(refused, Err(tembo_server::Error::Unprotected { .. })));
}

/// Many wrong passwords: each attempt is answered, the wrong ones wrong and the right one right, and other clients are served
/// meanwhile.
#[test]
fn an_address_that_guesses_is_answered_later_and_rightly() {
    let server = Running::with(Config { requirepass: Some("right".into()), ..Config::default() });
    let mut guesser = server.client();
    for _ in 0..12 {
        assert!(guesser.call("AUTH wrong").starts_with("-WRONGPASS "));
    }
    // Pipelined behind an attempt that waits, nothing is executed before it.
    guesser.send(b"AUTH wrong\r\nPING\r\nAUTH right\r\nPING\r\n");
    let mut other = server.client();
    assert_eq!(other.call("AUTH right"), "+OK\r\n");
    assert_eq!(other.call("PING"), "+PONG\r\n");
    let replies: Vec<String> = (0..4).map(|_| guesser.reply()).collect();
    assert!(replies[0].starts_with("-WRONGPASS "), "{replies:?}");
    assert_eq!(replies[1..], ["-NOAUTH Authentication required.\r\n", "+OK\r\n", "+PONG\r\n"]);
    // One that goes while it waits leaves nothing behind.
    let mut gone = server.client();
    gone.send(b"AUTH wrong\r\n");
    drop(gone);
    assert_eq!(server.client().call("AUTH right"), "+OK\r\n");
    // A transaction cannot wait.
    other.call("MULTI");
    other.call("AUTH wrong");
    assert!(other.call("EXEC").contains("-ERR too many wrong passwords"));
}

#[test]
fn a_script_finds_out_what_its_user_may_call() {
    let server = Running::start();
    let (mut control, mut client) = (server.client(), server.client());
    let user = "ACL SETUSER bob on nopass resetkeys ~x* -@all +@scripting +set +auth";
    assert_eq!(control.call(user), "+OK\r\n");
    let script =
        b"return {redis.acl_check_cmd('set', 'xx', 1), redis.acl_check_cmd('set', 'yy', 1), \
        redis.acl_check_cmd('hset', 'xx', 'f', 1), redis.acl_check_cmd('acl', 'list')}";
    let all = ":1\r\n".repeat(4);
    assert_eq!(client.call_args(&[b"EVAL", script, b"0"]), format!("*4\r\n{all}"));
    assert_eq!(client.call("AUTH bob x"), "+OK\r\n");
    let none = "$-1\r\n".repeat(3);
    assert_eq!(client.call_args(&[b"EVAL", script, b"0"]), format!("*4\r\n:1\r\n{none}"));
    let unknown = client.call("EVAL return(redis.acl_check_cmd('nosuch')) 0");
    assert!(
        unknown.starts_with("-ERR Invalid command passed to redis.acl_check_cmd()"),
        "{unknown}"
    );
    assert_eq!(control.call("ACL LOG"), "*0\r\n");
}
