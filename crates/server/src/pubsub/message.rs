//! Messages as they appear on the wire: arrays in RESP2, pushes in RESP3.

use crate::reply::Reply;

/// A message in both protocols.
#[derive(Clone)]
pub(super) struct Message {
    resp2: Vec<u8>,
    /// Empty if it is the same.
    resp3: Vec<u8>,
}

impl Message {
    /// A message of that kind.
    pub(super) fn new(kind: &str, parts: &[&[u8]]) -> Message {
        Message::encoded(|reply| {
            reply.push_header(parts.len() + 1);
            reply.bulk(kind.as_bytes());
            parts.iter().for_each(|part| reply.bulk(part));
        })
    }

    /// What [`confirm`] appends.
    pub(super) fn confirmation(kind: &str, name: Option<&[u8]>, count: usize) -> Message {
        Message::encoded(|reply| confirm(reply, kind, name, count))
    }

    fn encoded(encode: impl Fn(&mut Reply)) -> Message {
        let encoded = |resp3| {
            let mut reply = Reply::new(usize::MAX);
            reply.set_resp3(resp3);
            encode(&mut reply);
            reply.unsent().to_vec()
        };
        Message { resp2: encoded(false), resp3: encoded(true) }
    }

    /// A line of text.
    pub(super) fn line(text: &[u8]) -> Message {
        Message { resp2: [b"+", text, b"\r\n"].concat(), resp3: Vec::new() }
    }

    pub(super) fn bytes(&self, resp3: bool) -> &[u8] {
        if resp3 && !self.resp3.is_empty() { &self.resp3 } else { &self.resp2 }
    }
}

/// Confirms a change of a client's subscriptions: its kind, the name if there is one, how many are left.
pub(super) fn confirm(reply: &mut Reply, kind: &str, name: Option<&[u8]>, count: usize) {
    reply.push_header(3);
    reply.bulk(kind.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.integer(count as i64);
}
