//! Several processes on one database: the first one owns the pool, and any of them may be killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub
)]

#[path = "programs/host.rs"]
mod host;

use std::io::{BufRead, BufReader, ErrorKind, Lines, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use tembo_kv::{Options, Store};
use tembo_sqlite::{Owner, OwnerError};

use host::{Folder, has, has_python, library, python, shell};

/// A program that is spoken with.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(mut command: Command) -> Program {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        Program { child, input, lines: BufReader::new(output).lines() }
    }

    /// One that has said that it is ready.
    fn ready(command: Command) -> Program {
        let mut program = Program::start(command);
        assert_eq!(program.line(), "ready");
        program
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("the program has ended").unwrap()
    }

    /// The number of the next transaction that is committed.
    fn committed(&mut self) -> i64 {
        loop {
            let line = self.line();
            if !line.starts_with("lost") {
                return line[2..].parse().unwrap();
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends its input, and waits until it has ended.
    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A bank with one writer, which says what is committed.
fn writing(pool: &Path, writer: usize) -> Program {
    let mut command = python("write", pool);
    command.arg(writer.to_string());
    Program::start(command)
}

/// What Python prints, which succeeds.
fn printed(mut command: Command) -> String {
    let output = command.output().unwrap();
    let (printed, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}{errors}");
    printed.into_owned()
}

#[test]
fn a_client_does_what_an_owner_does() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("client");
    let pool = folder.0.join("bank.pool");
    let owner = Program::ready(python("hold", &pool));
    let socket = folder.0.join("bank.pool.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(printed(python("features", &pool)).ends_with("done\n"));
    owner.end();
    assert!(printed(python("check", &pool)).starts_with("ok\n40000\n"));
}

#[test]
fn a_child_of_an_owner_that_is_killed_keeps_no_other_process_waiting() {
    if !has_python() || !has("sqlite3", &[":memory:", "select 1"]) {
        return;
    }
    let folder = Folder::new("child");
    let pool = folder.0.join("bank.pool");
    // It has a child, which lives until the input ends.
    let mut owner = Program::ready(python("fork", &pool));
    let input = owner.input.take();
    let mut client = writing(&pool, 0);
    client.committed();
    owner.kill();
    // The child maps the pool, which so stays locked. It keeps no connection.
    let refused = shell(&folder, ".open file:bank.pool?vfs=tembo\nselect count(*) from account;");
    assert!(refused.contains("locked"), "{refused}");
    drop(input);
    client.committed();
    writing(&pool, 1).committed();
}

#[test]
fn an_owner_without_a_database_of_its_own_serves_programs_that_come_and_go() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("owner");
    let pool = folder.0.join("bank.pool");
    let store = Store::create(&pool, &Options::new().size(4 << 20)).unwrap();
    let owner = Owner::new(&pool, store).unwrap();
    assert_eq!(owner.socket(), folder.0.canonicalize().unwrap().join("bank.pool.sock"));
    assert!(printed(python("features", &pool)).ends_with("done\n"));
    assert!(printed(python("check", &pool)).starts_with("ok\n40000\n"));
    assert!(owner.socket().exists());
    drop(owner);
    assert!(printed(python("check", &pool)).starts_with("ok\n40000\n"));
    // What is no socket is not removed, and then the pool is not served.
    let other = folder.0.join("other.pool");
    let store = Store::create(&other, &Options::new().size(4 << 20)).unwrap();
    std::fs::write(folder.0.join("other.pool.sock"), "a file").unwrap();
    let refused = Owner::new(&other, store).err().unwrap();
    assert!(matches!(refused, OwnerError::Socket { .. }), "{refused}");
    assert_eq!(std::fs::read(folder.0.join("other.pool.sock")).unwrap(), b"a file");
}

#[test]
fn two_shells_and_a_python_write_and_read_one_database() {
    if !has("sqlite3", &[":memory:", "select 1"]) || !has_python() {
        return;
    }
    let folder = Folder::new("shells");
    let pool = folder.0.join("app.pool");
    let mut bank = writing(&pool, 0);
    bank.line();
    let shells = [0, 1].map(|number| {
        let mut command = Command::new("sqlite3");
        command.current_dir(&folder.0);
        let mut shell = Program::start(command);
        let input = shell.input.as_mut().unwrap();
        writeln!(input, ".load {}\n.open file:app.pool?vfs=tembo", library().display()).unwrap();
        writeln!(input, ".timeout 60000\nbegin immediate;").unwrap();
        writeln!(input, "create table if not exists t(shell, n); commit;").unwrap();
        for n in 0..50 {
            writeln!(input, "begin immediate; insert into t values({number}, {n}); commit;")
                .unwrap();
            writeln!(input, "select count(*) = {} from t where shell = {number};", n + 1).unwrap();
        }
        writeln!(input, ".print done").unwrap();
        shell
    });
    for mut shell in shells {
        for _ in 0..50 {
            assert_eq!(shell.line(), "1");
        }
        assert_eq!(shell.line(), "done");
        bank.line();
        shell.end();
    }
    bank.line();
    bank.kill();
    let script = ".open file:app.pool?vfs=tembo\nselect count(*) from t;\npragma integrity_check;";
    assert_eq!(shell(&folder, script), "100\nok\n");
}

#[test]
fn the_lock_of_a_client_goes_with_it() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("lock");
    let pool = folder.0.join("bank.pool");
    let owner = Program::ready(python("hold", &pool));
    assert_eq!(writing(&pool, 0).line(), "0 0");
    for _ in 0..3 {
        let mut client = Program::ready(python("lock", &pool));
        client.kill();
        // It waits for no lock, and finds the sum of the accounts as it was.
        writing(&pool, 0).line();
    }
    assert!(printed(python("check", &pool)).starts_with("ok\n40000\n"));
    owner.end();
}

#[test]
fn what_is_open_at_an_owner_that_is_killed_fails_and_the_next_transaction_goes_on() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("lose");
    let pool = folder.0.join("bank.pool");
    let mut owner = Program::ready(python("hold", &pool));
    let mut client = Program::ready(python("lose", &pool));
    owner.kill();
    writeln!(client.input.as_mut().unwrap()).unwrap();
    assert_eq!(client.line(), "done");
    // The client owns the pool now, and serves it.
    assert!(printed(python("check", &pool)).starts_with("ok\n40000\n"));
    client.end();
}

#[test]
fn a_client_takes_over_from_an_owner_that_closes() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("over");
    let pool = folder.0.join("bank.pool");
    let owner = Program::ready(python("hold", &pool));
    let mut client = writing(&pool, 0);
    client.line();
    owner.end();
    let mut last = -1_i64;
    for _ in 0..50 {
        // A commit that the owner's end cut short may be there without having been acknowledged.
        let n = client.committed();
        assert!(n > last, "{n} after {last}");
        last = n;
    }
}

/// What writers have acknowledged, and how many errors a round the end of an owner explains.
struct Noted {
    acknowledged: [i64; 4],
    lost: usize,
}

/// Takes down a line of a writer.
fn note(noted: &mut Noted, line: &str) {
    if line.starts_with("lost") {
        noted.lost += 1;
        return;
    }
    let acknowledged = &mut noted.acknowledged;
    // The last line of a killed one may be cut off.
    let mut words = line.split(' ').map(str::parse::<i64>);
    match (words.next(), words.next()) {
        (Some(Ok(writer)), Some(Ok(n))) => {
            let known = &mut acknowledged[usize::try_from(writer).unwrap()];
            *known = (*known).max(n);
        }
        _ => assert!(!line.contains("sum"), "{line}"),
    }
}

#[test]
fn processes_are_killed_and_what_was_committed_is_there() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("killed");
    let pool = folder.0.join("bank.pool");
    let mut noted = Noted { acknowledged: [-1; 4], lost: 0 };
    let rounds = std::env::var("TEMBO_SQLITE_ROUNDS").map_or(10, |rounds| rounds.parse().unwrap());
    for round in 0..rounds {
        let mut banks: Vec<Program> = Vec::new();
        for writer in 0..3 {
            let mut bank = writing(&pool, writer);
            // The first one owns the pool when the others begin.
            note(&mut noted, &bank.line());
            banks.push(bank);
        }
        // The owner is killed, a client, or one after the other.
        let victims: &[usize] = [&[0][..], &[1], &[0, 1], &[2, 0]][round % 4];
        for &victim in victims {
            for (writer, bank) in banks.iter_mut().enumerate() {
                for _ in 0..=(round * 7 + writer * 3) % 20 {
                    note(&mut noted, &bank.line());
                }
            }
            let mut killed = banks.remove(victim.min(banks.len() - 1));
            killed.kill();
            killed.lines.by_ref().for_each(|line| note(&mut noted, &line.unwrap()));
            for bank in &mut banks {
                for _ in 0..10 {
                    note(&mut noted, &bank.line());
                }
            }
        }
        // The owner at last.
        for mut bank in banks.into_iter().rev() {
            bank.kill();
            bank.lines.by_ref().for_each(|line| note(&mut noted, &line.unwrap()));
        }
        if victims == [1] {
            assert_eq!(noted.lost, 0, "round {round}: only a client was killed");
        }
        noted.lost = 0;
        check(&pool, round, &noted.acknowledged);
    }
}

fn check(pool: &Path, round: usize, acknowledged: &[i64]) {
    let found = printed(python("check", pool));
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found[..2], ["ok", "40000"], "round {round}");
    for (last, acknowledged) in found[2..].iter().zip(acknowledged) {
        assert!(last.parse::<i64>().unwrap() >= *acknowledged, "round {round}: {found:?}");
    }
}

/// A frame of the protocol.
fn frame(content: &[u8]) -> Vec<u8> {
    let mut frame = (content.len() as u32).to_le_bytes().to_vec();
    frame.extend(content);
    frame
}

fn opening(device: &str) -> Vec<u8> {
    let mut content = b"\x01TEMBOSQL\x02\0\0\0\0".to_vec();
    content.extend((device.len() as u32).to_le_bytes());
    content.extend(device.as_bytes());
    content.push(0);
    frame(&content)
}

/// Whether the owner ends the connection.
fn is_ended(mut stream: &UnixStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        // Bytes that the owner has not read.
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn bytes_that_are_no_request_end_the_connection_and_not_the_owner() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("bytes");
    let pool = folder.0.join("bank.pool");
    let owner = Program::ready(python("hold", &pool));
    let connect = || UnixStream::connect(folder.0.join("bank.pool.sock")).unwrap();
    let mut contents = vec![
        frame(b""),
        frame(b"\x02\x01"),
        frame(b"\x01TEMBOSQL\x01\0\0\0"),
        vec![0xff; 4096],
        frame(&[0; 300]),
    ];
    for request in
        [&b"\x00"[..], b"\x04", b"\x05abc", b"\x09\x00abc", b"\x02", b"\x02\x01", b"\x63"]
    {
        contents.push([opening("main"), frame(request)].concat());
    }
    // More than may be read at once.
    let read = [&b"\x04"[..], &[0; 8], &[0xff; 4]].concat();
    contents.push([opening("main"), frame(&read)].concat());
    for content in contents {
        let mut stream = connect();
        // The owner may have ended the connection before all is written.
        let _ = stream.write_all(&content);
        assert!(is_ended(&stream), "{content:?}");
    }
    // Writes without a lock, of a session that is not there, and a pragma that is not known, are errors.
    let mut stream = connect();
    stream.write_all(&opening("main")).unwrap();
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [12, 0, 0, 0, 0, 0, 0, 0]);
    let write = [&b"\x05"[..], &[0; 8], &[1, 0, 0, 0], b"x"].concat();
    let commit = [&b"\x09\x00"[..], &[0xff; 8]].concat();
    for (request, code) in [(write, 8), (commit, 10), (b"\x0b\x01\0\0\0x\0\0\0\0\0".to_vec(), 12)] {
        stream.write_all(&frame(&request)).unwrap();
        let mut reply = [0; 8];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply, [4, 0, 0, 0, code, 0, 0, 0], "{request:?}");
    }
    assert!(printed(python("features", &pool)).ends_with("done\n"));
    owner.end();
}

#[test]
fn a_client_that_does_not_read_holds_no_other_up() {
    if !has_python() {
        return;
    }
    let folder = Folder::new("silent");
    let pool = folder.0.join("bank.pool");
    let owner = Program::ready(python("hold", &pool));
    let mut stream = UnixStream::connect(folder.0.join("bank.pool.sock")).unwrap();
    stream.write_all(&opening("main")).unwrap();
    stream.set_nonblocking(true).unwrap();
    // Until neither side takes more: the owner waits with a reply.
    let length = frame(b"\x07");
    while stream.write_all(&length).is_ok() {}
    assert!(printed(python("features", &pool)).ends_with("done\n"));
    drop(stream);
    owner.end();
}
