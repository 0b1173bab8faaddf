//! Classes of keyspace events, as `notify-keyspace-events` names them.

/// A class of events, as one bit; sets of them are the bits together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Classes(u32);

/// The classes, each with its letter, in the order in which Redis shows them.
const LETTERS: &[(char, Classes)] = &[
    ('g', Classes::GENERIC),
    ('$', Classes::STRING),
    ('l', Classes::LIST),
    ('s', Classes::SET),
    ('h', Classes::HASH),
    ('z', Classes::SORTED_SET),
    ('x', Classes::EXPIRED),
    ('e', Classes::EVICTED),
    ('t', Classes::STREAM),
    ('d', Classes::MODULE),
    ('n', Classes::NEW),
    ('K', Classes::KEYSPACE),
    ('E', Classes::KEYEVENT),
    ('m', Classes::MISS),
];

impl Classes {
    /// Published to `__keyspace@<db>__:<key>`.
    pub(crate) const KEYSPACE: Classes = Classes(1);
    /// Published to `__keyevent@<db>__:<event>`.
    pub(crate) const KEYEVENT: Classes = Classes(1 << 1);
    /// Commands of keys of any type.
    pub(crate) const GENERIC: Classes = Classes(1 << 2);
    /// Commands of strings.
    pub(crate) const STRING: Classes = Classes(1 << 3);
    /// Commands of lists.
    pub(crate) const LIST: Classes = Classes(1 << 4);
    /// Commands of sets.
    pub(crate) const SET: Classes = Classes(1 << 5);
    /// Commands of hashes.
    pub(crate) const HASH: Classes = Classes(1 << 6);
    /// Commands of sorted sets.
    pub(crate) const SORTED_SET: Classes = Classes(1 << 7);
    /// A key was removed because it had expired.
    pub(crate) const EXPIRED: Classes = Classes(1 << 8);
    /// A key was evicted.
    pub(crate) const EVICTED: Classes = Classes(1 << 9);
    /// Commands of streams.
    pub(crate) const STREAM: Classes = Classes(1 << 10);
    /// A key was read that is not there.
    pub(crate) const MISS: Classes = Classes(1 << 11);
    const MODULE: Classes = Classes(1 << 13);
    /// A key was added.
    pub(crate) const NEW: Classes = Classes(1 << 14);
    /// What `A` stands for.
    const ALL: Classes = Classes(0b0010_0111_1111_1100);

    /// The classes that a text names; `None` if a letter is unknown.
    pub(crate) fn parse(text: &str) -> Option<Classes> {
        text.chars().try_fold(Classes::default(), |classes, letter| {
            let class = match letter {
                'A' => Classes::ALL,
                letter => LETTERS.iter().find(|(known, _)| *known == letter)?.1,
            };
            Some(Classes(classes.0 | class.0))
        })
    }

    /// The text that names them, as Redis writes it.
    pub(crate) fn text(self) -> String {
        let is_all = self.0 & Classes::ALL.0 == Classes::ALL.0;
        let shown = |class: Classes| self.has(class) && !(is_all && Classes::ALL.has(class));
        let mut text = if is_all { "A".to_owned() } else { String::new() };
        let new_is_hidden = |letter: char| is_all && letter == 'n';
        text.extend(
            LETTERS
                .iter()
                .filter(|&&(letter, class)| shown(class) && !new_is_hidden(letter))
                .map(|(letter, _)| *letter),
        );
        // Redis 7.0 forgets the letter there, and with it, when its configuration is rewritten, the class.
        if new_is_hidden('n') && self.has(Classes::NEW) {
            text.push('n');
        }
        text
    }

    /// Whether one of those classes is among these.
    #[inline]
    pub(crate) fn has(self, class: Classes) -> bool {
        self.0 & class.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_written_as_redis_writes_them() {
        for (given, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("AKE", "AKE"),
            ("Kg$lshzxetd", "AK"),
            ("mnE", "nEm"),
            ("KEAnm", "AKEmn"),
            ("Ex", "xE"),
            ("$lK", "$lK"),
        ] {
            assert_eq!(Classes::parse(given).unwrap().text(), shown, "{given}");
        }
        assert_eq!(Classes::parse("KEq"), None);
    }
}
