//! What the commands of streams send to servers of Redis that follow: ids that were given, what was claimed, how far a
//! group is.

use crate::args::Args;
use crate::collection::Group;
use crate::command::Context;
use crate::commands::stream::shown::id_text;
use crate::format::{StreamHead, StreamId};
use crate::propagation::encoded;

/// Commands to be sent, each in the protocol's form; `None`: no server of Redis follows.
pub(super) struct Sent(Option<Vec<Vec<u8>>>);

impl Sent {
    /// None so far.
    pub(super) fn new(context: &Context<'_, '_>) -> Sent {
        Sent(context.shared.propagation.is_on.then(Vec::new))
    }

    fn push(&mut self, words: impl FnOnce() -> Vec<Vec<u8>>) {
        if let Some(commands) = &mut self.0 {
            commands.push(encoded(words().iter().map(Vec::as_slice)));
        }
    }

    /// An entry is pending for a consumer of a group; or it was removed, and is pending no more.
    pub(super) fn claim(
        &mut self,
        (key, group, consumer): (&[u8], &Group, &[u8]),
        id: StreamId,
        (delivered_ms, deliveries): (u64, u64),
    ) {
        self.push(|| {
            let mut words: Vec<Vec<u8>> =
                [b"XCLAIM", key, group.name(), consumer, b"0"].map(<[u8]>::to_vec).into();
            words.push(id_text(id));
            words.extend([b"TIME".to_vec(), delivered_ms.to_string().into_bytes()]);
            words.extend([b"RETRYCOUNT".to_vec(), deliveries.to_string().into_bytes()]);
            words.extend([b"FORCE", &b"JUSTID"[..], b"LASTID"].map(<[u8]>::to_vec));
            words.push(id_text(group.record().last));
            words
        });
    }

    /// A group was given what it was not claimed for.
    pub(super) fn advance(&mut self, key: &[u8], group: &Group) {
        self.push(|| {
            let record = group.record();
            let read = record.read.map_or(-1, |read| read as i64);
            let mut words: Vec<Vec<u8>> =
                [b"XGROUP", &b"SETID"[..], key, group.name()].map(<[u8]>::to_vec).into();
            words.extend([id_text(record.last), b"ENTRIESREAD".to_vec()]);
            words.push(read.to_string().into_bytes());
            words
        });
    }

    /// A group was given a consumer.
    pub(super) fn add_consumer(&mut self, key: &[u8], group: &Group, consumer: &[u8]) {
        self.push(|| {
            let words = [b"XGROUP", &b"CREATECONSUMER"[..], key, group.name(), consumer];
            words.map(<[u8]>::to_vec).into()
        });
    }

    /// Sends them in the place of the command that is being executed.
    pub(super) fn send(self, context: &mut Context<'_, '_>) {
        let Some(commands) = self.0 else { return };
        context.shared.propagation.send_nothing();
        for command in commands {
            context.shared.propagation.send_instead(context.session.db, command);
        }
    }
}

/// Sends XADD or XTRIM with what it has done: the id of the entry that was added before the arguments from `next` on; and
/// what is left after a trim that was not exact.
pub(super) fn send_added(
    context: &mut Context<'_, '_>,
    (args, next): (Args<'_>, usize),
    added: Option<StreamId>,
    (is_inexact, head): (bool, &StreamHead),
) {
    if !context.shared.propagation.is_on {
        return;
    }
    let until = if added.is_some() { next - 1 } else { args.count() };
    let mut words: Vec<Vec<u8>> = args.from(0).take(2).map(<[u8]>::to_vec).collect();
    let mut at = 2;
    while at < until {
        let is_length = args.is(at, "MAXLEN");
        if is_inexact && (is_length || args.is(at, "MINID")) {
            let left = match is_length {
                true => head.count.to_string().into_bytes(),
                false if head.count > 0 => id_text(head.first),
                false => args.at(at + 2).to_vec(),
            };
            words.extend([args.at(at).to_vec(), b"=".to_vec(), left]);
            at += 3;
        } else if is_inexact && args.is(at, "LIMIT") {
            at += 2;
        } else {
            words.push(args.at(at).to_vec());
            at += 1;
        }
    }
    if let Some(id) = added {
        words.push(id_text(id));
        words.extend(args.from(next).map(<[u8]>::to_vec));
    }
    let command = encoded(words.iter().map(Vec::as_slice));
    context.shared.propagation.send_instead(context.session.db, command);
}
