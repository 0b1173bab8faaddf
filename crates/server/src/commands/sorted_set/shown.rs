//! Members and scores in replies.

use crate::element_listing::Shown;
use crate::reply::Reply;

/// Replies with members, and with their scores if they are asked for: in RESP3 each with its own.
pub(super) fn show(
    (with_scores, resp3): (bool, bool),
    members: &[(Vec<u8>, f64)],
    reply: &mut Reply,
) {
    let shown = Shown::Scored { with_scores, resp3 };
    shown.begin(members.len(), reply);
    for (member, score) in members {
        shown.scored(member, *score, reply);
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
