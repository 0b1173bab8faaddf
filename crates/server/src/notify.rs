//! Keyspace notifications: each change of a key is published, if `notify-keyspace-events` asks for its class.

use crate::access::Access;
use crate::clients::Clients;
use crate::command::Context;
use crate::dataset::{Dataset, Expired};
use crate::event_class::Classes;
use crate::shared::Shared;

/// An event happened to a key of the client's database. To be called by the command, when the change is made.
#[inline]
pub(crate) fn notify(context: &mut Context<'_, '_>, class: Classes, event: &str, key: &[u8]) {
    if context.shared.settings.notified.has(class) {
        notify_added(context);
        publish_event(context.shared, context.clients, (context.session.db, key), event);
    }
}

/// As [`notify`], for a key of any database.
#[inline]
pub(crate) fn notify_in(
    context: &mut Context<'_, '_>,
    class: Classes,
    event: &str,
    key: (usize, &[u8]),
) {
    if context.shared.settings.notified.has(class) {
        notify_added(context);
        publish_event(context.shared, context.clients, key, event);
    }
}

/// Elements were removed from a collection by such an event; if none is left, its key is removed as well.
#[inline]
pub(crate) fn notify_removed(
    context: &mut Context<'_, '_>,
    (class, event): (Classes, &str),
    key: &[u8],
    left: u64,
) {
    notify(context, class, event, key);
    if left == 0 {
        notify(context, Classes::GENERIC, "del", key);
    }
}

/// Publishes the keys that were added and not yet published. They come before what else happens to them.
#[inline]
pub(crate) fn notify_added(context: &mut Context<'_, '_>) {
    if context.data.added.is_any() {
        for (db, key) in context.data.added.take() {
            publish_event(context.shared, context.clients, (db, &key), "new");
        }
    }
}

/// A key, or fields of one, were removed because they had expired.
pub(crate) fn notify_expired(shared: &mut Shared, clients: &mut Clients, expired: &Expired) {
    let key = (expired.db, &expired.key[..]);
    let events: &[(Classes, &str)] = match (!expired.fields.is_empty(), expired.is_removed) {
        (false, _) => &[(Classes::EXPIRED, "expired")],
        (true, false) => &[(Classes::HASH, "hexpired")],
        (true, true) => &[(Classes::HASH, "hexpired"), (Classes::GENERIC, "del")],
    };
    if shared.propagation.is_on {
        let fields = expired.fields.iter().map(Vec::as_slice);
        let words: Vec<&[u8]> = match expired.is_removed {
            true => vec![b"DEL", &expired.key],
            false => [b"HDEL".as_slice(), &expired.key].into_iter().chain(fields).collect(),
        };
        shared.propagation.send_alone(expired.db, &words);
    }
    for &(class, event) in events {
        if shared.settings.notified.has(class) {
            publish_event(shared, clients, key, event);
        }
    }
}

/// Removes a key now if it has expired, and publishes that.
#[cold]
pub(crate) fn expire_key(
    data: &mut Dataset<'_>,
    shared: &mut Shared,
    clients: &mut Clients,
    (db, key): (usize, &[u8]),
) {
    if data.access() != Access::Open || shared.pause.is_on(shared.clock.steady_ms) {
        return;
    }
    data.record_expired(true);
    // Where the store has no room, the key is removed later, as others that are due; it is hidden until then.
    if let Ok(true) = data.expire_key(db, key) {
        shared.stats.expired_keys += 1;
    }
    for expired in data.take_expired() {
        notify_expired(shared, clients, &expired);
    }
}

/// Keys were evicted: publishes those that were not yet published.
pub(crate) fn notify_evicted(shared: &mut Shared, clients: &mut Clients) {
    for (db, key) in std::mem::take(&mut shared.eviction.evicted) {
        if shared.propagation.is_on {
            shared.propagation.send_alone(db, &[b"DEL", &key]);
        }
        if shared.settings.notified.has(Classes::EVICTED) {
            publish_event(shared, clients, (db, &key), "evicted");
        }
    }
}

#[cold]
fn publish_event(
    shared: &mut Shared,
    clients: &mut Clients,
    (db, key): (usize, &[u8]),
    event: &str,
) {
    if shared.settings.notified.has(Classes::KEYSPACE) {
        let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
        shared.pubsub.publish(clients, &channel, event.as_bytes());
    }
    if shared.settings.notified.has(Classes::KEYEVENT) {
        let channel = format!("__keyevent@{db}__:{event}");
        shared.pubsub.publish(clients, channel.as_bytes(), key);
    }
}
