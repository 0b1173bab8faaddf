//! The replies of `CONTAINER HELP`.

use crate::reply::Reply;

/// The reply of `CONTAINER HELP`.
pub(super) fn help_lines(reply: &mut Reply, container: &str, lines: &[&str]) {
    reply.array(lines.len() + 3);
    let first = format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    reply.simple(&first);
    for line in lines {
        reply.simple(line);
    }
    reply.simple("HELP");
    reply.simple("    Prints this help.");
}
