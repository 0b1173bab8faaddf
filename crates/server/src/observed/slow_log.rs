//! SLOWLOG: the last commands that took longer than the operator wants to know of.

use std::collections::VecDeque;

/// Arguments that are kept of a command, and bytes of one.
const KEPT_MAX: (usize, usize) = (32, 128);

/// A command that took long.
pub(crate) struct SlowCommand {
    /// Its number among all of them.
    pub(crate) id: u64,
    /// When it was executed, in seconds since 1970.
    pub(crate) at_s: u64,
    /// How long it took.
    pub(crate) took_us: u64,
    /// Its arguments, shortened.
    pub(crate) args: Vec<Vec<u8>>,
    /// The client's address.
    pub(crate) peer: String,
    /// The client's name.
    pub(crate) name: Vec<u8>,
}

/// The last ones, newest first.
#[derive(Default)]
pub(crate) struct SlowLog {
    commands: VecDeque<SlowCommand>,
    next_id: u64,
}

impl SlowLog {
    /// Keeps a command; at most so many are kept.
    pub(crate) fn push(&mut self, mut command: SlowCommand, len_max: usize) {
        command.id = self.next_id;
        self.next_id += 1;
        self.commands.push_front(command);
        self.commands.truncate(len_max);
    }

    /// The commands, newest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &SlowCommand> {
        self.commands.iter()
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.commands.clear();
    }
}

/// The arguments of a command as they are kept: of many the first, of long ones the beginning.
pub(crate) fn shortened<'a>(args: impl Iterator<Item = &'a [u8]>, count: usize) -> Vec<Vec<u8>> {
    let (args_max, size_max) = KEPT_MAX;
    let kept = if count > args_max { args_max - 1 } else { count };
    let short = |arg: &[u8]| {
        let mut short = arg[..arg.len().min(size_max)].to_vec();
        if arg.len() > size_max {
            short
                .extend_from_slice(format!("... ({} more bytes)", arg.len() - size_max).as_bytes());
        }
        short
    };
    let mut all: Vec<Vec<u8>> = args.take(kept).map(short).collect();
    if count > kept {
        all.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_shortened() {
        let long = vec![b'x'; 130];
        let words: Vec<&[u8]> = vec![&long; 40];
        let kept = shortened(words.iter().copied(), words.len());
        assert_eq!(kept.len(), 32);
        assert!(kept[0].ends_with(b"x... (2 more bytes)"));
        assert_eq!(kept[31], b"... (9 more arguments)");
        assert_eq!(shortened([b"a".as_slice(); 32].into_iter(), 32).len(), 32);
    }

    #[test]
    fn the_oldest_are_forgotten_and_numbers_go_on() {
        let mut log = SlowLog::default();
        for _ in 0..5 {
            let command = SlowCommand {
                id: 0,
                at_s: 0,
                took_us: 1,
                args: Vec::new(),
                peer: String::new(),
                name: Vec::new(),
            };
            log.push(command, 3);
        }
        assert_eq!(log.iter().map(|command| command.id).collect::<Vec<_>>(), [4, 3, 2]);
        log.clear();
        assert_eq!(log.iter().len(), 0);
    }
}
