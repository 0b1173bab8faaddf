//! INFO, taken apart.

use std::collections::BTreeMap;

/// The fields of INFO.
#[derive(Default)]
pub(super) struct Info(BTreeMap<String, String>);

impl Info {
    pub(super) fn parse(text: &str) -> Info {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once(':'));
        Info(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    /// 0 where there is none.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.0.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// The fields whose names begin so: the rest of the name, and the parts `name=value` of the value.
    pub(super) fn starting_with<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, Parts<'a>)> {
        let named = move |(name, value): (&'a String, &'a String)| {
            Some((name.strip_prefix(prefix)?, Parts(value)))
        };
        self.0.iter().filter_map(named)
    }
}

/// A value of several parts: `calls=3,usec=5`.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a>(&'a str);

impl<'a> Parts<'a> {
    pub(super) fn text(self, name: &str) -> &'a str {
        let is_it = |part: &&str| part.split_once('=').is_some_and(|(known, _)| known == name);
        let part = self.0.split(',').find(is_it);
        part.and_then(|part| part.split_once('=')).map_or("", |(_, value)| value)
    }

    /// 0 where there is none.
    pub(super) fn number(self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_their_parts_are_found() {
        let info =
            Info::parse("# Server\r\nrun_id:abc\r\n\r\n# Keyspace\r\ndb3:keys=7,expires=2\r\n");
        assert_eq!((info.text("run_id").as_str(), info.number("run_id")), ("abc", 0));
        let found: Vec<(&str, u64)> =
            info.starting_with("db").map(|(db, parts)| (db, parts.number("keys"))).collect();
        assert_eq!(found, [("3", 7)]);
    }
}
