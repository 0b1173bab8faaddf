//! Access control lists of files on a mount, as `setfacl` and `getfacl` have them, and in and out of a pool.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::has;
use crate::mounted::{Mounted, done, tembo, text};
use crate::transactions::as_another;

/// Lists are set, inherited, changed by permissions, and removed; what is there is printed in between.
const SCRIPT: &str = "
    umask 027
    show() { for i in \"$@\"; do stat -c '%A %n' $i; getfacl -nc $i; done; }
    echo a > f; mkdir d; setfacl -m u:65534:rw,g:7:r f; show f
    chmod 640 f; show f; chmod 606 f; show f
    setfacl -m u:65534:rwx,d:u:65534:rx,d:g::-,d:m::rwx,d:o::x d; show d
    umask 777; echo b > d/f; mkdir d/e d/e/g; mkfifo d/p; ln -s f d/l; umask 027; show d/f d/e d/e/g d/p
    stat -c '%A %n' d/l
    chmod 2770 d/e; mkdir d/e/h; show d/e d/e/h; setfacl -k d/e; echo c > d/e/f; show d/e d/e/f
    ln d/f d/m; mv d/m moved; chmod g+w moved; show d/f moved; cp -a moved copied; show copied
    setfacl -b f d; show f d; setfacl -b f
    setfacl -m d:u:1:r f && echo wrong; setfacl -m g::r,o::- f; show f
    chgrp 7 f; chown 65534 f; chmod 2770 f; setfacl -m u:3:r f; show f
    chmod 2770 f; setpriv --reuid=65534 --regid=65534 --clear-groups setfacl -m u:4:r f; show f
    chmod 2770 f; setpriv --reuid=65534 --regid=65534 --groups 7 setfacl -m u:4:rw f; show f
";

fn acts(at: &Path) -> String {
    let output = Command::new("sh").arg("-c").arg(SCRIPT).current_dir(at).output().unwrap();
    let print = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    format!("{}{}", print(output.stdout), print(output.stderr))
}

#[test]
fn lists_do_what_they_do_on_a_disk() {
    if !has("setfacl") || !has("setpriv") {
        return eprintln!("skipped: setfacl or setpriv is not installed here");
    }
    let Some(mounted) = Mounted::with(&["--allow-other"], |_| ()) else { return };
    let (at, folder) = (mounted.at(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    for path in [&at, &disk] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let (here, there) = (acts(&at), acts(&disk));
    if there.contains("Operation not supported") {
        eprintln!("skipped: the disk has no access control lists");
    } else {
        assert_eq!(here, there);
    }
    mounted.end();
}

#[test]
fn a_list_lets_in_and_keeps_out() {
    if !has("setfacl") {
        return eprintln!("skipped: setfacl is not installed here");
    }
    let Some(mounted) = Mounted::with(&["--allow-other"], |_| ()) else { return };
    let at = mounted.at();
    fs::write(at.join("a"), "secret").unwrap();
    fs::set_permissions(at.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).unwrap();
    let Some(out) = as_another(&at, &["cat", "a"]) else { return };
    assert!(!out.status.success(), "{out:?}");
    let list =
        |entries: &str| done(Command::new("setfacl").arg("-m").arg(entries).arg(at.join("a")));
    let reads = || as_another(&at, &["cat", "a"]).unwrap().status.success();
    let writes = || as_another(&at, &["sh", "-c", "echo x >> a"]).unwrap().status.success();
    list("u:65534:r");
    assert!(reads() && !writes());
    // What the permissions say is the mask.
    fs::set_permissions(at.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!reads());
    list("u:65534:rw,m::rw");
    assert!(reads() && writes());
    // A user that the list names gets nothing of what others get.
    list("u:65534:-,g::r,o::rw");
    assert!(!reads() && !writes());
    // A snapshot keeps the list that was there.
    fs::create_dir(at.join(".tembo/snapshots/before")).unwrap();
    done(Command::new("setfacl").arg("-b").arg(at.join("a")));
    assert!(reads());
    let before = as_another(&at, &["cat", ".tembo/snapshots/before/a"]).unwrap();
    assert!(!before.status.success(), "{before:?}");
    mounted.end();
}

#[test]
fn lists_and_attributes_are_imported_cloned_and_exported() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name);
    let (source, pool) = (path("source"), path("a.pool"));
    fs::create_dir_all(source.join("d")).unwrap();
    fs::write(source.join("d/a"), "a").unwrap();
    fs::write(source.join("d/b"), "b").unwrap();
    let mut sh = Command::new("sh");
    let prepared = sh.current_dir(&source).arg("-c").arg(
        "setfattr -n user.of -v tembo d/a && setfacl -m u:7:rw,g::- d/a && setfacl -m u:8:x,d:g:9:rwx d",
    );
    if !prepared.output().is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: no setfacl or setfattr here, or no lists on the disk");
    }
    let run = |args: &[&str]| {
        let output = tembo(&[&["fs"], args].concat());
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    let shown = |at: &Path| {
        let shown = "getfacl -Rn . && getfattr -Rd . && stat -c '%A %n' d d/a d/b";
        done(Command::new("sh").current_dir(at).arg("-c").arg(shown))
    };
    run(&["import", text(&pool), text(&source), "/s"]);
    run(&["clone", text(&pool), "/s", "/t"]);
    run(&["cp", text(&pool), "/s/d/a", "/s/copied"]);
    run(&["check", text(&pool)]);
    // What is made in the target inherits from it, and has to lose that.
    let target = path("target");
    fs::create_dir(&target).unwrap();
    done(Command::new("setfacl").args(["-m", "d:u:5:rwx,d:m::rwx"]).arg(&target));
    for (name, at) in [("/s", "s"), ("/t", "t")] {
        run(&["export", text(&pool), name, text(&target.join(at))]);
    }
    let copied = done(Command::new("getfacl").args(["-nc"]).arg(target.join("s/copied")));
    assert!(copied.contains("user:7:rw-") && !copied.contains("user:5"), "{copied}");
    fs::remove_file(target.join("s/copied")).unwrap();
    for at in ["s", "t"] {
        assert_eq!(shown(&target.join(at)), shown(&source), "{at}");
    }
}
