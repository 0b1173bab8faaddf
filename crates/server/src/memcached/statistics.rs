//! `stats`: what memcached's tools ask, under the names that they know.

use crate::failure::Failure;
use crate::memcached::items::Items;

/// The version of memcached whose commands these are: clients and tools choose what they send by it.
pub(super) const VERSION: &str = "1.6.18";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    General,
    Settings,
    /// What has no meaning here.
    Empty,
    /// To begin again from 0.
    Reset,
}

/// Names and values.
pub(super) fn statistics(
    items: &mut Items<'_, '_>,
    topic: Topic,
) -> Result<Vec<(&'static str, String)>, Failure> {
    match topic {
        Topic::General => general(items),
        Topic::Settings => Ok(settings(items)),
        Topic::Empty | Topic::Reset => Ok(Vec::new()),
    }
}

fn settings(items: &Items<'_, '_>) -> Vec<(&'static str, String)> {
    let settings = &items.shared.settings;
    vec![
        ("maxbytes", settings.maxmemory.to_string()),
        ("maxconns", settings.maxclients.to_string()),
        ("evictions", if settings.eviction.is_some() { "on" } else { "off" }.to_owned()),
        ("cas_enabled", "yes".to_owned()),
        ("flush_enabled", "yes".to_owned()),
        ("item_size_max", items.shared.items.size_max.to_string()),
        ("auth_enabled_ascii", yes(!settings.requirepass.is_empty())),
        ("binding_protocol", "auto-negotiate".to_owned()),
    ]
}

fn yes(holds: bool) -> String {
    if holds { "yes" } else { "no" }.to_owned()
}

fn general(items: &mut Items<'_, '_>) -> Result<Vec<(&'static str, String)>, Failure> {
    let len = items.len()?;
    let (shared, stats) = (&*items.shared, items.shared.items.stats);
    let numbers = [
        ("pid", u64::from(std::process::id())),
        ("uptime", shared.started.elapsed().as_secs()),
        ("time", shared.clock.wall_s()),
        ("pointer_size", u64::from(usize::BITS)),
        ("max_connections", shared.settings.maxclients as u64),
        ("total_connections", shared.stats.connections),
        ("rejected_connections", shared.stats.rejected),
        ("cmd_get", stats.get.hits + stats.get.misses),
        ("cmd_set", stats.set),
        ("cmd_flush", stats.flush),
        ("cmd_touch", stats.touch.hits + stats.touch.misses),
        ("cmd_meta", stats.meta),
        ("get_hits", stats.get.hits),
        ("get_misses", stats.get.misses),
        ("delete_hits", stats.delete.hits),
        ("delete_misses", stats.delete.misses),
        ("incr_hits", stats.incr.hits),
        ("incr_misses", stats.incr.misses),
        ("decr_hits", stats.decr.hits),
        ("decr_misses", stats.decr.misses),
        ("cas_hits", stats.cas.hits),
        ("cas_misses", stats.cas.misses),
        ("cas_badval", stats.cas_badval),
        ("touch_hits", stats.touch.hits),
        ("touch_misses", stats.touch.misses),
        ("store_too_large", stats.too_large),
        ("store_no_memory", stats.no_memory),
        ("auth_cmds", stats.auth),
        ("auth_errors", stats.auth_errors),
        ("evictions", stats.evictions),
        ("bytes_read", shared.stats.input_bytes),
        ("bytes_written", shared.stats.output_bytes),
        ("limit_maxbytes", shared.settings.maxmemory),
        ("threads", 1),
        ("bytes", shared.report.used_bytes),
        ("curr_items", len),
        ("total_items", stats.stored),
    ];
    let mut shown = vec![
        ("version", VERSION.to_owned()),
        ("tembo_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("accepting_conns", "1".to_owned()),
    ];
    shown.extend(numbers.map(|(name, number)| (name, number.to_string())));
    Ok(shown)
}
