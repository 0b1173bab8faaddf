//! Streams.

mod add;
mod claim;
mod group;
mod id;
mod info;
mod pending;
mod range;
mod read;
mod sent;
mod shown;

use crate::command::{BLOCKING, Command, DENY_OOM, FAST, MOVABLE_KEYS, READ, STREAM, WRITE};

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("xadd", -5, STREAM | WRITE | DENY_OOM | FAST, (1, 1, 1), add::xadd),
    Command::keyed("xtrim", -4, STREAM | WRITE, (1, 1, 1), add::xtrim),
    Command::keyed("xdel", -3, STREAM | WRITE | FAST, (1, 1, 1), add::xdel),
    Command::keyed("xsetid", -3, STREAM | WRITE | DENY_OOM | FAST, (1, 1, 1), add::xsetid),
    Command::keyed("xlen", 2, STREAM | READ | FAST, (1, 1, 1), range::xlen),
    Command::keyed("xrange", -4, STREAM | READ, (1, 1, 1), range::xrange),
    Command::keyed("xrevrange", -4, STREAM | READ, (1, 1, 1), range::xrevrange),
    Command::keyed("xread", -4, STREAM | READ | BLOCKING | MOVABLE_KEYS, (0, 0, 0), read::xread),
    Command::keyed(
        "xreadgroup",
        -7,
        STREAM | WRITE | BLOCKING | MOVABLE_KEYS,
        (0, 0, 0),
        read::xreadgroup,
    ),
    Command::keyed("xack", -4, STREAM | WRITE | FAST, (1, 1, 1), group::xack),
    Command::keyed("xpending", -3, STREAM | READ, (1, 1, 1), pending::xpending),
    Command::keyed("xclaim", -6, STREAM | WRITE | FAST, (1, 1, 1), claim::xclaim),
    Command::keyed("xautoclaim", -6, STREAM | WRITE | FAST, (1, 1, 1), claim::xautoclaim),
    Command::container("xgroup", 0, XGROUP),
    Command::container("xinfo", 0, XINFO),
];

const XGROUP: &[Command] = &[
    Command::sub("xgroup|create", "create", -5, STREAM | WRITE | DENY_OOM, group::create),
    Command::sub("xgroup|setid", "setid", -5, STREAM | WRITE, group::set_id),
    Command::sub("xgroup|destroy", "destroy", 4, STREAM | WRITE, group::destroy),
    Command::sub(
        "xgroup|createconsumer",
        "createconsumer",
        5,
        STREAM | WRITE | DENY_OOM,
        group::create_consumer,
    ),
    Command::sub("xgroup|delconsumer", "delconsumer", 5, STREAM | WRITE, group::delete_consumer),
    Command::sub("xgroup|help", "help", 2, 0, group::help),
];

const XINFO: &[Command] = &[
    Command::sub("xinfo|consumers", "consumers", 4, STREAM | READ, info::consumers),
    Command::sub("xinfo|groups", "groups", 3, STREAM | READ, info::groups),
    Command::sub("xinfo|stream", "stream", -3, STREAM | READ, info::stream),
    Command::sub("xinfo|help", "help", 2, 0, info::help),
];
