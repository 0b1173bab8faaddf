//! What Redis servers that follow this one are sent: the effects of commands, in the form of Redis's replication stream.
//!
//! While no such server follows, nothing is collected, and a command looks at one flag. Otherwise each command gives its
//! effects to the *unit* that is being executed: a command, a transaction or a script. Several effects of one unit are sent
//! between MULTI and EXEC. Units of a turn are kept until the turn is durable, and are sent together.

use std::io::Write;

/// The database of an effect, and the command in the protocol's form.
type Effect = (usize, Vec<u8>);

/// The effects of what is executed.
#[derive(Default)]
pub(crate) struct Propagation {
    /// A Redis server follows, or one did a short while ago.
    pub(crate) is_on: bool,
    /// What is sent in the place of the command that is being executed; `None`: the command itself.
    instead: Option<Vec<Effect>>,
    /// Of the unit.
    unit: Vec<Effect>,
    /// Of the turn.
    turn: Vec<u8>,
    /// The database that was selected last.
    selected: Option<usize>,
    /// The stream lacks something, so that each server that follows must begin anew.
    pub(crate) is_broken: bool,
}

/// Appends a command in the protocol's form.
pub(crate) fn encode<'w>(to: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'w [u8]>) {
    // Writing to a vector cannot fail.
    let _ = write!(to, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(to, "${}\r\n", word.len());
        to.extend_from_slice(word);
        to.extend_from_slice(b"\r\n");
    }
}

/// A command in the protocol's form.
pub(crate) fn encoded<'w>(words: impl ExactSizeIterator<Item = &'w [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, words);
    bytes
}

impl Propagation {
    /// Begins to collect: the first effect is preceded by the choice of its database.
    pub(crate) fn begin(&mut self) {
        self.is_on = true;
        self.selected = None;
    }

    /// Collects nothing any more, and forgets what was collected.
    pub(crate) fn end(&mut self) {
        *self = Propagation::default();
    }

    /// A command begins: so far it is sent as it is.
    pub(crate) fn begin_command(&mut self) {
        self.instead = None;
    }

    /// Nothing of the command that is being executed is sent, but for what is said later.
    pub(crate) fn send_nothing(&mut self) {
        self.instead.get_or_insert_default();
    }

    /// This is sent in the place of the command that is being executed, behind what was said before.
    pub(crate) fn send_instead(&mut self, db: usize, command: Vec<u8>) {
        self.instead.get_or_insert_default().push((db, command));
    }

    /// What is to be sent in the place of the command that has ended.
    pub(crate) fn take_instead(&mut self) -> Option<Vec<Effect>> {
        self.instead.take()
    }

    /// Adds effects to the unit.
    pub(crate) fn extend(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.unit.extend(effects);
    }

    /// The unit has ended: its effects are one transaction, if there are several.
    pub(crate) fn end_unit(&mut self) {
        let unit = std::mem::take(&mut self.unit);
        let Some(first) = unit.first() else { return };
        self.select(first.0);
        let is_transaction = unit.len() > 1;
        if is_transaction {
            self.send(&[b"MULTI"]);
        }
        for (db, command) in unit {
            self.select(db);
            self.turn.extend(command);
        }
        if is_transaction {
            self.send(&[b"EXEC"]);
        }
    }

    /// Sends a command that belongs to no database and no unit.
    pub(crate) fn send(&mut self, words: &[&[u8]]) {
        encode(&mut self.turn, words.iter().copied());
    }

    /// An effect that is a unit of its own, and no command's.
    pub(crate) fn send_alone(&mut self, db: usize, words: &[&[u8]]) {
        self.select(db);
        self.send(words);
    }

    fn select(&mut self, db: usize) {
        if self.selected != Some(db) {
            self.selected = Some(db);
            self.send(&[b"SELECT", db.to_string().as_bytes()]);
        }
    }

    /// Bytes of the turn so far.
    pub(crate) fn size(&self) -> usize {
        self.turn.len()
    }

    /// The effects of the turn, which is durable.
    pub(crate) fn take_turn(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.turn)
    }

    /// The turn has failed. What of its effects has happened is not known.
    pub(crate) fn fail(&mut self) {
        self.is_broken |= !self.turn.is_empty() || !self.unit.is_empty();
        self.turn.clear();
        self.unit.clear();
        self.instead = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(db: usize, words: &[&[u8]]) -> Effect {
        (db, encoded(words.iter().copied()))
    }

    fn sent(propagation: &mut Propagation) -> String {
        let bytes = String::from_utf8(propagation.take_turn()).unwrap();
        let words = bytes.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }

    #[test]
    fn several_effects_of_a_unit_are_a_transaction() {
        let mut propagation = Propagation::default();
        propagation.begin();
        propagation.end_unit();
        assert_eq!(sent(&mut propagation), "");
        propagation.extend([effect(0, &[b"SET", b"a", b"1"])]);
        propagation.end_unit();
        assert_eq!(sent(&mut propagation), "SELECT 0 SET a 1");
        propagation.extend([effect(1, &[b"DEL", b"a"]), effect(0, &[b"DEL", b"b"])]);
        propagation.end_unit();
        assert_eq!(sent(&mut propagation), "SELECT 1 MULTI DEL a SELECT 0 DEL b EXEC");
        propagation.send_alone(0, &[b"DEL", b"c"]);
        assert_eq!(sent(&mut propagation), "DEL c");
    }

    #[test]
    fn a_turn_that_fails_after_effects_breaks_the_stream() {
        let mut propagation = Propagation::default();
        propagation.begin();
        propagation.fail();
        assert!(!propagation.is_broken);
        propagation.extend([effect(0, &[b"DEL", b"a"])]);
        propagation.fail();
        assert!(propagation.is_broken && propagation.size() == 0);
    }

    #[test]
    fn a_command_may_be_replaced_by_nothing() {
        let mut propagation = Propagation::default();
        propagation.begin_command();
        assert_eq!(propagation.take_instead(), None);
        propagation.send_nothing();
        assert_eq!(propagation.take_instead(), Some(Vec::new()));
    }
}
