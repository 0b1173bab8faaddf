//! The bits and capabilities that a change of a file costs it: on a mount what they are on a disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::has;
use crate::mounted::Mounted;

/// Files are changed by root and by another user, in each way that there is; what is left is printed after each.
const SCRIPT: &str = r#"
    umask 022
    as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    show() { stat -c "$1: mode alone %A" $2; stat -c "$1: %A %u:%g %s" $2; getfattr --absolute-names -e hex -n security.capability $2; }
    made() { rm -f f; echo some bytes > f; chmod $1 f; }
    for mode in 4777 2777 6777 2767 6767; do
        made $mode; as sh -c 'echo x >> f'; show "appended $mode" f
        made $mode; as dd if=/dev/zero of=f bs=1 count=2 conv=notrunc; show "written $mode" f
        made $mode; as sh -c 'echo x > f'; show "cut by an open $mode" f
        made $mode; as truncate -s 3 f; show "cut $mode" f
        made $mode; as truncate -s 30 f; show "longer $mode" f
        made $mode; as fallocate -l 100 f; show "allocated $mode" f
        made $mode; as fallocate -p -o 0 -l 4096 f; show "punched $mode" f
        made $mode; echo x >> f; truncate -s 3 f; fallocate -l 100 f; echo x > f; show "by root $mode" f
        made $mode; chown 65534 f; show "given $mode" f
        made $mode; chgrp 7 f; show "given to a group $mode" f
        made $mode; setfattr -n user.tembo.transaction -v 1 f; as sh -c 'echo x >> f'; show "marked $mode" f
        made $mode; setfattr -n user.tembo.transaction -v 1 f; as sh -c 'echo x > f'; show "marked and cut $mode" f
        made $mode; touch f; chmod o-r f; setfattr -n user.a -v 1 f; show "kept $mode" f
    done
    # A file that was written before, by the same open.
    made 777; exec 3>> f; echo a >&3; chmod 6777 f; as sh -c 'echo b >&3'; show "set between writes" f
    echo c >&3; chmod 6777 f; echo d >&3; show "set between writes of root" f
    setcap cap_net_raw+ep f; show "with a capability" f; echo e >&3; show "written with it" f
    setcap cap_net_raw+ep f; setfattr -n user.a -v 1 f; truncate -s 3 f; show "cut with it" f
    setcap cap_net_raw+ep f; chown 65534 f; show "given with it" f
    setcap cap_net_raw+ep f; fallocate -l 100 f; show "allocated with it" f
    setcap cap_net_raw+ep f; touch f; chmod 700 f; show "kept with it" f; getfattr -n user.a f
    mkdir d; chmod 6777 d; chown 65534:7 d; stat -c "%A %u:%g %n" d
"#;

fn acts(at: &Path) -> String {
    let output = Command::new("sh").arg("-c").arg(SCRIPT).current_dir(at).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_change_costs_a_file_what_it_costs_on_a_disk() {
    let needed = ["setpriv", "fallocate", "getfattr"];
    if let Some(missing) = needed.into_iter().find(|program| !has(program)) {
        return eprintln!("skipped: {missing} is not installed here");
    }
    let Some(mounted) = Mounted::with(&["--allow-other"], |_| ()) else { return };
    let (at, folder) = (mounted.at(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    for path in [&at, &disk] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let (here, there) = (acts(&at), acts(&disk));
    if !there.contains("set between writes: -rwxrwxrwx") {
        eprintln!("skipped: this user may not give files, or the disk keeps no bits");
    } else {
        assert_eq!(here, there);
    }
    mounted.end();
}
