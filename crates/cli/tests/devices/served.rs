//! Devices served to NBD clients that people have: qemu's, libnbd's, fio. One that is not there is named, and not tried.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Folder;

struct Served<'f> {
    folder: &'f Folder,
    server: Child,
}

impl Folder {
    fn serve(&self, words: &str) -> Served<'_> {
        let mut server = Command::new(env!("CARGO_BIN_EXE_tembo"));
        server.args(words.split(' '));
        self.serve_by(server)
    }

    /// The same, by a command that becomes the server.
    fn serve_by(&self, mut server: Command) -> Served<'_> {
        server.current_dir(self.0.path()).stdout(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let ready = lines.next().unwrap().unwrap();
        assert!(ready.contains("is served at nbd"), "{ready}");
        Served { folder: self, server }
    }
}

impl Served<'_> {
    fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.folder.path("socket").display())
    }

    fn stop(mut self) {
        let stopped = Command::new("kill").arg(self.server.id().to_string()).status().unwrap();
        assert!(stopped.success() && self.server.wait().unwrap().success());
        assert!(!self.folder.path("socket").exists());
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// What a program prints, that ends well; `None`: it is not there.
fn run(program: &str, words: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(program).args(words).stdin(Stdio::null()).output() else {
        eprintln!("not tried: there is no {program}");
        return None;
    };
    assert!(output.status.success(), "{program} {words:?}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Debian's Python, which has its libraries.
const PYTHON: &str = "/usr/bin/python3";

const SERVE: &str = "device serve a.pool --socket socket --domain logged";

#[test]
fn what_was_flushed_is_there_after_a_kill() {
    let folder = Folder::new();
    folder.done("device create a.pool disk --len 16M --fixed");
    let served = folder.serve(SERVE);
    let uri = served.uri("disk");
    let write = ["-f", "raw", "-c", "write -P 0x41 1000 700000", "-c", "flush"];
    let more =
        ["-c", "write -f -P 0x42 5000 3", "-c", "discard 1M 1M", "-c", "write -z 65536 4096"];
    if run("qemu-io", &[&write[..], &more, &["-c", "flush", &uri]].concat()).is_none() {
        return;
    }
    drop(served);
    let served = folder.serve(SERVE);
    let read = ["-f", "raw", "-r", "-c", "read -P 0 0 1000", "-c", "read -P 0x41 1000 4000"];
    let more =
        ["-c", "read -P 0x42 5000 3", "-c", "read -P 0 64k 4k", "-c", "read -P 0x41 68k 600k"];
    let printed = run("qemu-io", &[&read[..], &more, &[&uri]].concat()).unwrap();
    assert!(!printed.contains("failed"), "{printed}");
    served.stop();
    let check = &folder.json("device check a.pool")[0];
    assert_eq!((&check["stray"], &check["leaked"]), (&0.into(), &0.into()));
}

#[test]
fn an_image_is_copied_over_several_connections_and_a_snapshot_is_copied_back() {
    let folder = Folder::new();
    let mut seed = 0x9e37_79b9_u64;
    let image: Vec<u8> = (0..(6 << 20) - 512)
        .map(|at| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(at);
            // Holes between.
            if at >> 18 & 3 == 1 { 0 } else { (seed >> 33) as u8 }
        })
        .collect();
    fs::write(folder.path("image"), &image).unwrap();
    folder.done(&format!("device create a.pool disk --len {} --fixed", image.len()));
    let served = folder.serve(&format!("{SERVE} disk"));
    let (file, back) = (folder.path("image"), folder.path("back"));
    if run("nbdcopy", &["--flush", file.to_str().unwrap(), &served.uri("")]).is_none() {
        return;
    }
    served.stop();
    folder.done("device snapshot a.pool monday");
    let served = folder.serve(SERVE);
    run("nbdcopy", &[&served.uri("disk@monday"), back.to_str().unwrap()]);
    assert!(fs::read(&back).unwrap() == image);
    if let Some(printed) = run("nbdinfo", &["--list", &served.uri("")]) {
        assert!(
            printed.contains("disk@monday") && printed.contains("can_multi_conn: true"),
            "{printed}"
        );
    }
    if let Some(printed) = run("nbdinfo", &["--map", &served.uri("disk")]) {
        assert!(printed.contains("hole,zero"), "{printed}");
    }
    let script = "assert h.get_size() == 6 * 1024 * 1024 - 512\n\
        assert not h.is_read_only() and h.can_fua() and h.can_trim() and h.get_structured_replies_negotiated()";
    let has_library = Command::new(PYTHON).args(["-c", "import nbd"]).output();
    if has_library.is_ok_and(|python| python.status.success()) {
        run(PYTHON, &["-m", "nbd", "-u", &served.uri("disk"), "-c", script]);
    } else {
        eprintln!("not tried: there is no library of libnbd for Python");
    }
    served.stop();
}

#[test]
fn fio_verifies_what_it_has_written_with_many_requests_at_a_time() {
    let folder = Folder::new();
    folder.done("device create a.pool disk --len 8M --fixed");
    let served = folder.serve(SERVE);
    let fio = Command::new("fio").arg("--enghelp").output();
    if !fio.is_ok_and(|fio| String::from_utf8_lossy(&fio.stdout).contains("nbd")) {
        eprintln!("not tried: there is no fio with an engine for NBD");
        return;
    }
    let uri = format!("--uri={}", served.uri("disk"));
    let what = ["--name=verify", "--ioengine=nbd", &uri, "--rw=randwrite", "--bsrange=512-64k"];
    let how = ["--blockalign=512", "--size=8m", "--iodepth=16", "--fsync=16", "--randseed=7"];
    // It would leave a file with its state in the folder of the sources.
    let verify = ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"];
    run("fio", &[&what[..], &how, &verify].concat());
    served.stop();
}

#[test]
fn a_server_says_what_is_wrong() {
    let folder = Folder::new();
    folder.done("device create a.pool disk --len 1M");
    folder.refused("device serve a.pool other --socket socket", 39, "other");
    folder.refused("device serve a.pool --bind 0.0.0.0 --port 0", 18, "NBD knows no password");
    let served = folder.serve(SERVE);
    folder.refused("device serve a.pool --socket other", 11, "held by");
    served.stop();
    fs::write(folder.path("precious"), "precious").unwrap();
    folder.refused("device serve a.pool --socket precious", 28, "something else than a socket");
    assert_eq!(fs::read_to_string(folder.path("precious")).unwrap(), "precious");
}

/// Whether a server greets a client within some seconds.
fn is_greeted(mut client: &UnixStream) -> bool {
    client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    client.read_exact(&mut [0; 18]).is_ok()
}

/// Hundredths of a second for which a process has used a processor.
fn processor_time(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // Behind the name: the state is field 3, user and system time 14 and 15.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    [11, 12].map(|at| fields[at].parse::<u64>().unwrap()).iter().sum()
}

#[test]
fn clients_for_which_there_are_no_descriptors_do_not_end_the_others() {
    let folder = Folder::new();
    folder.done("device create a.pool disk --len 1M");
    // A connection takes two at first: with one of the limits it is the second that there is not.
    for limit in [40, 41] {
        let mut server = Command::new("sh");
        let script = format!("ulimit -n {limit} && exec \"$0\" {SERVE} 2> said");
        server.args(["-c", &script, env!("CARGO_BIN_EXE_tembo")]);
        let served = folder.serve_by(server);
        let connect = || UnixStream::connect(folder.path("socket")).unwrap();
        let mut first = connect();
        assert!(is_greeted(&first));
        let others: Vec<UnixStream> = (0..50).map(|_| connect()).collect();
        let greeted = others.iter().take_while(|client| is_greeted(client)).count();
        assert!((1..50).contains(&greeted), "{greeted}");
        // It does not go round and round while one waits.
        let (before, begin) = (processor_time(served.server.id()), Instant::now());
        std::thread::sleep(Duration::from_secs(1));
        let used = processor_time(served.server.id()) - before;
        assert!(u128::from(used) * 10 * 4 < begin.elapsed().as_millis(), "{used} hundredths");
        // The first one goes on, and when the others are gone there is room again.
        first.write_all(&[0, 0, 0, 3]).unwrap();
        first.write_all(b"IHAVEOPT\0\0\0\x02\0\0\0\0").unwrap();
        first.read_exact(&mut [0; 20]).unwrap();
        drop(others);
        let patience = Instant::now() + Duration::from_secs(30);
        while !is_greeted(&connect()) {
            assert!(Instant::now() < patience, "there is no room");
        }
        let said = fs::read_to_string(folder.path("said")).unwrap();
        assert!(
            said.contains("an NBD client is not served") && said.contains("ulimit -n"),
            "{said}"
        );
        served.stop();
    }
}
