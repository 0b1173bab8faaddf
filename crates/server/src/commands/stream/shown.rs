//! Ids, entries and errors in replies.

use tembo_kv::Value;

use crate::failure::Failure;
use crate::format::{Packed, StreamId};
use crate::number::Decimal;
use crate::reply::Reply;

/// The text of an id.
pub(super) fn id_text(id: StreamId) -> Vec<u8> {
    let (ms, seq) = (Decimal::unsigned(id.ms), Decimal::unsigned(id.seq));
    [ms.as_bytes(), b"-", seq.as_bytes()].concat()
}

/// Replies with an id.
pub(super) fn show_id(id: StreamId, reply: &mut Reply) {
    reply.bulk(&id_text(id));
}

/// Replies with an entry: its id and its fields with their values.
pub(super) fn show_entry(id: StreamId, value: Value<'_>, reply: &mut Reply) {
    reply.array(2);
    show_id(id, reply);
    value.with(|bytes| {
        reply.array(Packed::trusted(bytes).count());
        Packed::trusted(bytes).for_each(|entry| reply.bulk(entry));
    });
}

/// Elements of an array whose length is not yet known.
pub(super) fn elements(resp3: bool) -> Reply {
    let mut reply = Reply::new(usize::MAX);
    reply.set_resp3(resp3);
    reply
}

/// Replies with an array of so many elements, which were made before.
pub(super) fn show_array(count: usize, elements: &Reply, reply: &mut Reply) {
    reply.array(count);
    reply.raw(elements.unsent());
}

fn text(bytes: &[u8]) -> String {
    // Redis's texts end where a byte is 0.
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// There is no such key or no such group.
pub(super) fn no_group(key: &[u8], group: &[u8], suffix: &str) -> Failure {
    let (key, group) = (text(key), text(group));
    format!("NOGROUP No such key '{key}' or consumer group '{group}'{suffix}").into()
}

/// The stream has no such group.
pub(super) fn no_group_of(key: &[u8], group: &[u8]) -> Failure {
    let (key, group) = (text(key), text(group));
    format!("NOGROUP No such consumer group '{group}' for key name '{key}'").into()
}

/// A subcommand has arguments that it does not take.
pub(super) fn wrong_subcommand(container: &str, subcommand: &[u8]) -> Failure {
    let subcommand = text(&subcommand[..subcommand.len().min(128)]);
    format!(
        "ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try {container} HELP."
    )
    .into()
}
