//! What the program is that makes a request, and what became of it.

use fuser::Request;

/// The user that belongs to every group.
const ROOT_USER: u32 = 0;

/// Whether the program of a request has a group, or may do what those may that have it.
pub(crate) fn is_in_group(request: &Request, group: u32) -> bool {
    let further = || {
        let status = std::fs::read(format!("/proc/{}/status", request.pid()));
        status.is_ok_and(|status| has_group(&status, group))
    };
    request.uid() == ROOT_USER || request.gid() == group || further()
}

fn has_group(status: &[u8], group: u32) -> bool {
    let lines = status.split(|&byte| byte == b'\n');
    let groups = lines.filter_map(|line| line.strip_prefix(b"Groups:")).next();
    let groups = groups.and_then(|groups| std::str::from_utf8(groups).ok()).unwrap_or_default();
    groups.split_ascii_whitespace().any(|other| other.parse() == Ok(group))
}

/// The number of the process that a thread is of; where the system does not say so, that of the thread.
pub(crate) fn process_of(thread: u32) -> u32 {
    let status = std::fs::read(format!("/proc/{thread}/status"));
    status.ok().and_then(|status| process_in(&status)).unwrap_or(thread)
}

fn process_in(status: &[u8]) -> Option<u32> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let number = lines.find_map(|line| line.strip_prefix(b"Tgid:"))?;
    std::str::from_utf8(number).ok()?.trim().parse().ok()
}

/// The right to set the bits of files by which programs run as other users and groups.
const CAP_FSETID: u64 = 1 << 4;

/// Whether the program of a request may change a file that keeps those bits. Where the system does not say so, it may not.
pub(crate) fn may_keep_ids(request: &Request) -> bool {
    let status = || std::fs::read(format!("/proc/{}/status", request.pid()));
    // What a namespace gives to other users holds within it.
    request.uid() == ROOT_USER && status().is_ok_and(|status| has_right(&status, CAP_FSETID))
}

fn has_right(status: &[u8], right: u64) -> bool {
    let lines = status.split(|&byte| byte == b'\n');
    let rights = lines.filter_map(|line| line.strip_prefix(b"CapEff:")).next();
    let rights = rights.and_then(|rights| std::str::from_utf8(rights).ok()).unwrap_or_default();
    u64::from_str_radix(rights.trim(), 16).is_ok_and(|rights| rights & right != 0)
}

/// Of the flags of a thread: it ends.
const EXITING: u64 = 0x4;

/// The fields of `/proc/PID/stat` behind the name, from 0 on: flags of the thread, and what it ends with.
const FLAGS: usize = 6;
const EXIT_CODE: usize = 49;

/// Whether a thread makes a request because a signal ends its program. Where the system does not say so, it is taken for one that goes on.
pub(crate) fn is_killed(thread: u32) -> bool {
    let of_thread = |name: &str| std::fs::read(format!("/proc/{thread}/{name}"));
    // A thread that executes another program closes files too, and what reads its `stat` waits until it has; one that has no memory
    // any more executes nothing.
    let ends = of_thread("status").is_ok_and(|status| !has_memory(&status));
    ends && of_thread("stat").is_ok_and(|stat| ends_by_signal(&stat))
}

fn has_memory(status: &[u8]) -> bool {
    status.split(|&byte| byte == b'\n').any(|line| line.starts_with(b"VmSize:"))
}

fn ends_by_signal(stat: &[u8]) -> bool {
    // The name may have any bytes, brackets and spaces too.
    let Some(name_end) = stat.iter().rposition(|&byte| byte == b')') else { return false };
    let Some(Ok(rest)) = stat.get(name_end + 1..).map(std::str::from_utf8) else { return false };
    let field = |index| rest.split_ascii_whitespace().nth(index)?.parse::<u64>().ok();
    // The low seven bits are the signal.
    field(FLAGS).is_some_and(|flags| flags & EXITING != 0)
        && field(EXIT_CODE).is_some_and(|code| code & 0x7f != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_a_program_are_those_of_its_status() {
        let status = b"Name:\ta\nGid:\t7\t7\t7\t7\nGroups:\t4 24 27 \nVmSize:\t8 kB\n";
        let all = [4, 24, 27, 7, 2, 8].map(|group| has_group(status, group));
        assert_eq!(all, [true, true, true, false, false, false]);
        assert!(!has_group(b"Groups:\t\n", 0) && !has_group(b"", 0));
    }

    #[test]
    fn the_rights_of_a_program_are_those_of_its_status() {
        let has = |status: &[u8]| has_right(status, CAP_FSETID);
        assert!(has(b"CapPrm:\t0\nCapEff:\t000001ffffffffff\n") && has(b"CapEff:\t10\n"));
        assert!(
            !has(b"CapPrm:\t10\nCapEff:\t000001ffffffffef\n") && !has(b"CapEff:\n") && !has(b"")
        );
    }

    #[test]
    fn the_process_of_a_thread_is_that_of_its_status() {
        assert_eq!(process_in(b"Name:\ta\nTgid:\t77\nPid:\t78\n"), Some(77));
        assert_eq!((process_in(b"Pid:\t78\n"), process_in(b"Tgid:\tx\n")), (None, None));
        let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
        let thread = thread.join().unwrap() as u32;
        // It has ended: its number stands for itself.
        assert_eq!(process_of(thread), thread);
        let own = std::process::id();
        assert_eq!(process_of(rustix::thread::gettid().as_raw_nonzero().get() as u32), own);
    }

    #[test]
    fn a_program_that_a_signal_ends_is_none_that_ends_by_itself() {
        let stat = |flags: u64, code: u64| {
            let mut fields = vec!["0".to_owned(); 50];
            (fields[0], fields[FLAGS], fields[EXIT_CODE]) =
                ("S".into(), flags.to_string(), code.to_string());
            format!("77 (a) 4 (b) {}\n", fields.join(" "))
        };
        assert!(ends_by_signal(stat(0x40_0004, 9).as_bytes()));
        assert!(!ends_by_signal(stat(0x40_0004, 3 << 8).as_bytes()));
        assert!(!ends_by_signal(stat(0x40_0000, 0).as_bytes()));
        assert!(!ends_by_signal(b"") && !ends_by_signal(b"1 (x) S 1"));
        assert!(!is_killed(std::process::id()) && !is_killed(0));
    }
}
