//! What a server has of the keys of a connection. Each collection is read whole, and its count must fit.

use std::collections::BTreeMap;

use crate::content::{Content, State, Stream};
use crate::model::{KEYS, KINDS, key};
use crate::resp::{Client, Reply};

fn call(client: &mut Client, line: &str, key: &[u8]) -> Result<Reply, String> {
    let words: Vec<&[u8]> =
        line.split(' ').map(|word| if word == "KEY" { key } else { word.as_bytes() }).collect();
    match client.call(&words) {
        Ok(Reply::Error(error)) => Err(format!("{line}: {error}")),
        Ok(reply) => Ok(reply),
        Err(error) => Err(format!("{line}: {error}")),
    }
}

fn array(reply: Reply) -> Vec<Reply> {
    match reply {
        Reply::Array(parts) => parts,
        other => panic!("{other:?} instead of an array"),
    }
}

fn bytes(reply: Reply) -> Vec<u8> {
    match reply {
        Reply::Bulk(bytes) => bytes,
        other => panic!("{other:?} instead of bytes"),
    }
}

fn number(reply: Reply) -> i64 {
    match reply {
        Reply::Integer(number) => number,
        other => panic!("{other:?} instead of a number"),
    }
}

fn all(client: &mut Client, line: &str, key: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    Ok(array(call(client, line, key)?).into_iter().map(bytes).collect())
}

fn pairs(all: Vec<Vec<u8>>) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut all = all.into_iter();
    std::iter::from_fn(move || all.next().zip(all.next()))
}

fn parsed(bytes: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_suffix("-0").unwrap_or(&text);
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

/// All keys of a connection.
pub fn state(client: &mut Client, id: u64) -> Result<State, String> {
    let mut state = State::new();
    for kind in KINDS {
        for nth in 0..KEYS {
            let key = key(id, kind, nth);
            if number(call(client, "EXISTS KEY", &key)?) == 0 {
                continue;
            }
            let content = content(client, kind, &key)?;
            let expiry_ms = u64::try_from(number(call(client, "PEXPIRETIME KEY", &key)?)).ok();
            state.insert(key, (content, expiry_ms));
        }
    }
    Ok(state)
}

fn content(client: &mut Client, kind: &str, key: &[u8]) -> Result<Content, String> {
    let (content, counter, count) = match kind {
        "list" => {
            let list = all(client, "LRANGE KEY 0 -1", key)?;
            let count = list.len();
            (Content::List(list.into()), "LLEN KEY", count)
        }
        "hash" => {
            let hash: BTreeMap<_, _> = pairs(all(client, "HGETALL KEY", key)?).collect();
            let count = hash.len();
            (Content::Hash(hash), "HLEN KEY", count)
        }
        "set" => {
            let set = all(client, "SMEMBERS KEY", key)?;
            let count = set.len();
            (Content::Set(set.into_iter().collect()), "SCARD KEY", count)
        }
        "sorted" => {
            let scored = pairs(all(client, "ZRANGE KEY 0 -1 WITHSCORES", key)?);
            let order: Vec<_> = scored.map(|(member, score)| (parsed(&score), member)).collect();
            if !order.is_sorted() {
                return Err(format!("{}: not in order", String::from_utf8_lossy(key)));
            }
            // What the levels count: the rank of some members.
            for (rank, (_, member)) in order.iter().enumerate().step_by(97) {
                let found =
                    call(client, &format!("ZRANK KEY {}", String::from_utf8_lossy(member)), key)?;
                if found != Reply::Integer(rank as i64) {
                    return Err(format!(
                        "{}: ZRANK of {rank} is {found:?}",
                        String::from_utf8_lossy(key)
                    ));
                }
            }
            let count = order.len();
            let set = order.into_iter().map(|(score, member)| (member, score)).collect();
            (Content::Sorted(set), "ZCARD KEY", count)
        }
        _ => {
            let stream = stream(client, key)?;
            let count = stream.entries.len();
            (Content::Stream(stream), "XLEN KEY", count)
        }
    };
    let said = number(call(client, counter, key)?);
    if said != count as i64 {
        return Err(format!("{}: {counter} is {said}, not {count}", String::from_utf8_lossy(key)));
    }
    Ok(content)
}

fn stream(client: &mut Client, key: &[u8]) -> Result<Stream, String> {
    let entry = |entry: Reply| {
        let mut entry = array(entry).into_iter();
        let (id, fields) = (bytes(entry.next().unwrap()), array(entry.next().unwrap()));
        (parsed(&id) as u64, bytes(fields.into_iter().nth(1).unwrap()))
    };
    let entries = array(call(client, "XRANGE KEY - +", key)?).into_iter().map(entry).collect();
    let group = array(call(client, "XINFO GROUPS KEY", key)?).into_iter().next();
    let Some(group) = group else { return Ok(Stream { entries, group: None }) };
    let mut fields = array(group).into_iter();
    let last = fields.position(|field| field == Reply::Bulk(b"last-delivered-id".to_vec()));
    let last = last.and_then(|_| fields.next()).map(|id| parsed(&bytes(id)) as u64);
    let one = |pending: Reply| {
        let mut pending = array(pending).into_iter();
        (parsed(&bytes(pending.next().unwrap())) as u64, bytes(pending.next().unwrap()))
    };
    let pending = array(call(client, "XPENDING KEY group - + 1000000", key)?);
    let pending = pending.into_iter().map(one).collect();
    Ok(Stream { entries, group: Some((last.unwrap(), pending)) })
}
