//! Members and scores in replies.

use crate::reply::Reply;

/// Replies with members, and with their scores if they are asked for: in RESP3 each with its own.
pub(super) fn show(
    (with_scores, resp3): (bool, bool),
    members: &[(Vec<u8>, f64)],
    reply: &mut Reply,
) {
    reply.array(if with_scores && !resp3 { members.len() * 2 } else { members.len() });
    for (member, score) in members {
        if with_scores && resp3 {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(*score);
        }
        if reply.is_overflown() {
            break;
        }
    }
}

/// Replies with a score, or with nothing.
pub(super) fn reply_score(score: Option<f64>, reply: &mut Reply) {
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
}
