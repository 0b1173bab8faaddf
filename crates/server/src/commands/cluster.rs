//! CLUSTER: there is none, and clients that ask get that answer.

use crate::args::Args;
use crate::command::{ADMIN, Command, Context, FAST};
use crate::failure::Outcome;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::container("cluster", 0, SUBCOMMANDS),
    Command::new("asking", 1, FAST, refuse),
    Command::new("readonly", 1, FAST, refuse),
    Command::new("readwrite", 1, FAST, refuse),
];

const SUBCOMMANDS: &[Command] = &[
    Command::sub("cluster|addslots", "addslots", -3, ADMIN, refuse),
    Command::sub("cluster|addslotsrange", "addslotsrange", -4, ADMIN, refuse),
    Command::sub("cluster|bumpepoch", "bumpepoch", 2, ADMIN, refuse),
    Command::sub("cluster|count-failure-reports", "count-failure-reports", 3, ADMIN, refuse),
    Command::sub("cluster|countkeysinslot", "countkeysinslot", 3, 0, refuse),
    Command::sub("cluster|delslots", "delslots", -3, ADMIN, refuse),
    Command::sub("cluster|delslotsrange", "delslotsrange", -4, ADMIN, refuse),
    Command::sub("cluster|failover", "failover", -2, ADMIN, refuse),
    Command::sub("cluster|flushslots", "flushslots", 2, ADMIN, refuse),
    Command::sub("cluster|forget", "forget", 3, ADMIN, refuse),
    Command::sub("cluster|getkeysinslot", "getkeysinslot", 4, 0, refuse),
    Command::sub("cluster|help", "help", 2, 0, refuse),
    Command::sub("cluster|info", "info", 2, 0, refuse),
    Command::sub("cluster|keyslot", "keyslot", 3, 0, refuse),
    Command::sub("cluster|links", "links", 2, 0, refuse),
    Command::sub("cluster|meet", "meet", -4, ADMIN, refuse),
    Command::sub("cluster|myid", "myid", 2, 0, refuse),
    Command::sub("cluster|nodes", "nodes", 2, 0, refuse),
    Command::sub("cluster|replicas", "replicas", 3, ADMIN, refuse),
    Command::sub("cluster|replicate", "replicate", 3, ADMIN, refuse),
    Command::sub("cluster|reset", "reset", -2, ADMIN, refuse),
    Command::sub("cluster|saveconfig", "saveconfig", 2, ADMIN, refuse),
    Command::sub("cluster|set-config-epoch", "set-config-epoch", 3, ADMIN, refuse),
    Command::sub("cluster|setslot", "setslot", -4, ADMIN, refuse),
    Command::sub("cluster|shards", "shards", 2, 0, refuse),
    Command::sub("cluster|slaves", "slaves", 3, ADMIN, refuse),
    Command::sub("cluster|slots", "slots", 2, 0, refuse),
];

fn refuse(_: &mut Context<'_, '_>, _: Args<'_>, _: &mut Reply) -> Outcome {
    Err("ERR This instance has cluster support disabled".into())
}
