//! Random commands on streams, over few keys, groups, consumers and ids.

use crate::client::Random;

/// Makes commands; ids that are added rise most of the time.
pub struct StreamScript {
    pub random: Random,
    last: usize,
    /// Entries are removed singly, and ids are set: then Redis's blocks are not where they would be otherwise.
    has_gaps: bool,
}

impl StreamScript {
    pub fn new(seed: u64) -> StreamScript {
        StreamScript { random: Random(seed), last: 0, has_gaps: !seed.is_multiple_of(3) }
    }

    fn key(&mut self) -> String {
        match self.random.below(20) {
            0 => "string".into(),
            1 => "none".into(),
            n => format!("x{}", n % 3),
        }
    }

    fn group(&mut self) -> String {
        self.random.pick(&["g0", "g0", "g1", "g1", "g2", "nogroup"]).to_owned()
    }

    fn consumer(&mut self) -> String {
        self.random.pick(&["c0", "c1", "c2", ""]).to_owned()
    }

    /// An id near those that were added.
    fn id(&mut self) -> String {
        let n = self.random.below(self.last + 4);
        match self.random.below(12) {
            0 => (n / 4).to_string(),
            1 => "0".into(),
            2 => self
                .random
                .pick(&["0-0", "x", "", "5-", "18446744073709551615-18446744073709551615", "1-1-1"])
                .to_owned(),
            _ => format!("{}-{}", n / 4, n % 4),
        }
    }

    fn end(&mut self) -> String {
        match self.random.below(6) {
            0 => "-".into(),
            1 => "+".into(),
            2 => format!("({}", self.id()),
            _ => self.id(),
        }
    }

    fn number(&mut self) -> String {
        self.random.pick(&["0", "1", "2", "5", "10", "-1", "x", "100"]).to_owned()
    }

    fn ids(&mut self, command: &mut Vec<String>) {
        for _ in 0..=self.random.below(5) {
            let id = self.id();
            command.push(id);
        }
    }

    fn trim(&mut self, command: &mut Vec<String>) {
        let by = self.random.pick(&["MAXLEN", "MAXLEN", "minid"]);
        command.push(by.to_owned());
        let sign = if self.has_gaps { "=" } else { self.random.pick(&["~", "~", "="]) };
        if sign == "~" || self.random.below(2) == 0 {
            command.push(sign.to_owned());
        }
        let id = self.id();
        let length = self.random.pick(&["0", "1", "5", "20", "50", "100", "-1", "x"]);
        command.push(if by == "minid" { id } else { length.to_owned() });
        if self.random.below(5) == 0 {
            let limit = self.random.pick(&["0", "1", "7", "100", "1000", "-1", "x"]);
            command.extend(["LIMIT".to_owned(), limit.to_owned()]);
        }
    }

    /// A command; in a transaction none whose reply depends on the time.
    pub fn command(&mut self, in_multi: bool) -> Vec<String> {
        match self.random.below(30) {
            0..6 => self.add(),
            6..8 => self.range(),
            8..10 => self.read(),
            10..14 => self.read_group(),
            14 => {
                let (key, group) = (self.key(), self.group());
                let mut command = words(&["XACK", &key, &group]);
                self.ids(&mut command);
                command
            }
            15..17 => self.claim(),
            17 | 18 => self.pending(in_multi),
            19..22 => self.group_command(),
            22 | 23 => self.info(in_multi),
            24 | 25 => self.remove(),
            26 => self.keys(),
            27 => words(&[self.random.pick(&["MULTI", "EXEC", "EXEC", "DISCARD", "EXEC"])]),
            28 => {
                let command = self.random.pick(&["XADD", "XREAD", "XINFO", "XGROUP", "XPENDING"]);
                let key = self.key();
                let more = self.random.pick(&["STREAMS", "CREATE", "HELP", "STREAM", "x"]);
                let last = self.random.pick(&["HELP", "COUNT", "0", "GROUP"]);
                words(&[command, more, &key, last])
            }
            _ => {
                let key = self.key();
                words(&["XLEN", &key])
            }
        }
    }

    fn add(&mut self) -> Vec<String> {
        let key = self.key();
        let mut command = words(&["XADD", &key]);
        match self.random.below(8) {
            0 => command.push("NOMKSTREAM".into()),
            1 | 2 => self.trim(&mut command),
            3 => {
                self.trim(&mut command);
                command.push("nomkstream".into());
            }
            _ => {}
        }
        let n = self.last;
        let id = match self.random.below(12) {
            0 => self.id(),
            1 => format!("{}-*", n / 4),
            2 if self.random.below(40) == 0 => "18446744073709551615-*".into(),
            _ => {
                self.last += 1 + self.random.below(2);
                format!("{}-{}", self.last / 4, self.last % 4)
            }
        };
        command.push(id);
        for _ in 0..1 + self.random.below(2) {
            let value = self.random.below(50).to_string();
            command.extend([self.random.pick(&["f", "g", ""]).to_owned(), value]);
        }
        if self.random.below(30) == 0 {
            command.pop();
        }
        command
    }

    fn range(&mut self) -> Vec<String> {
        let (key, from, to) = (self.key(), self.end(), self.end());
        let mut command = words(&[self.random.pick(&["XRANGE", "XREVRANGE"]), &key, &from, &to]);
        if self.random.below(3) == 0 {
            command.push(self.random.pick(&["COUNT", "COUNT", "COUNT", "x"]).to_owned());
            let number = self.number();
            command.push(number);
        }
        command
    }

    fn streams(&mut self, command: &mut Vec<String>, ids: &[&str]) {
        command.push("STREAMS".into());
        let count = 1 + self.random.below(3);
        for _ in 0..count {
            let key = self.key();
            command.push(key);
        }
        for _ in 0..count {
            let id = if self.random.below(3) == 0 {
                self.id()
            } else {
                self.random.pick(ids).to_owned()
            };
            command.push(id);
        }
        if self.random.below(20) == 0 {
            command.pop();
        }
    }

    fn read_options(&mut self, command: &mut Vec<String>) {
        if self.random.below(3) == 0 {
            let number = self.number();
            command.extend(["COUNT".to_owned(), number]);
        }
        if self.random.below(6) == 0 {
            let block = self.random.pick(&["1", "1", "1", "-1", "x"]);
            command.extend(words(&["BLOCK", block]));
        }
    }

    fn read(&mut self) -> Vec<String> {
        let mut command = words(&["XREAD"]);
        self.read_options(&mut command);
        if self.random.below(15) == 0 {
            command.extend(match self.random.below(3) {
                0 => words(&["GROUP", "g0", "c0"]),
                1 => words(&["NOACK"]),
                _ => words(&["BOGUS"]),
            });
        }
        self.streams(&mut command, &["0", "$", "0-0", ">"]);
        command
    }

    fn read_group(&mut self) -> Vec<String> {
        let (group, consumer) = (self.group(), self.consumer());
        let mut command = words(&["XREADGROUP", "GROUP", &group, &consumer]);
        self.read_options(&mut command);
        if self.random.below(5) == 0 {
            command.push("NOACK".into());
        }
        self.streams(&mut command, &[">", ">", ">", ">", "0", "$"]);
        command
    }

    fn claim(&mut self) -> Vec<String> {
        let (key, group, consumer) = (self.key(), self.group(), self.consumer());
        let idle = self.random.pick(&["0", "0", "100000", "-5", "x"]).to_owned();
        if self.random.below(2) == 0 {
            let from = self.end();
            let mut command = words(&["XAUTOCLAIM", &key, &group, &consumer, &idle, &from]);
            if self.random.below(2) == 0 {
                let number = self.number();
                command.extend(["COUNT".to_owned(), number]);
            }
            if self.random.below(3) == 0 {
                command.push("JUSTID".into());
            }
            return command;
        }
        let mut command = words(&["XCLAIM", &key, &group, &consumer, &idle]);
        self.ids(&mut command);
        for _ in 0..self.random.below(4) {
            let number = self.number();
            let id = self.id();
            command.extend(match self.random.below(8) {
                0 => words(&["TIME", self.random.pick(&["1000", "1", "x", "-1"])]),
                1 => words(&["IDLE", self.random.pick(&["1000000", "0", "99999999999999"])]),
                2 => words(&["RETRYCOUNT", &number]),
                3 => words(&["LASTID", &id]),
                4 => words(&["JUSTID"]),
                5 if self.random.below(5) == 0 => words(&["BOGUS"]),
                _ => words(&["FORCE"]),
            });
        }
        command
    }

    fn pending(&mut self, in_multi: bool) -> Vec<String> {
        let (key, group) = (self.key(), self.group());
        let mut command = words(&["XPENDING", &key, &group]);
        if in_multi || self.random.below(3) == 0 {
            return command;
        }
        if self.random.below(3) == 0 {
            command.extend(words(&["IDLE", self.random.pick(&["0", "100000", "x"])]));
        }
        let (from, to, count) = (self.end(), self.end(), self.number());
        command.extend([from, to, count]);
        if self.random.below(2) == 0 {
            let consumer = self.consumer();
            command.push(consumer);
        }
        command
    }

    fn group_command(&mut self) -> Vec<String> {
        let (key, group, consumer) = (self.key(), self.group(), self.consumer());
        let id = match self.random.below(3) {
            0 => self.id(),
            _ => self.random.pick(&["$", "0", "-", "+"]).to_owned(),
        };
        let number = self.number();
        match self.random.below(12) {
            0..3 => words(&["XGROUP", "CREATE", &key, &group, &id]),
            3 => words(&["XGROUP", "CREATE", &key, &group, &id, "MKSTREAM"]),
            4 => words(&["XGROUP", "CREATE", &key, &group, &id, "ENTRIESREAD", &number]),
            5 => words(&["XGROUP", "SETID", &key, &group, &id]),
            6 => words(&["XGROUP", "SETID", &key, &group, &id, "ENTRIESREAD", &number]),
            7 | 8 => words(&["XGROUP", "CREATECONSUMER", &key, &group, &consumer]),
            9 => words(&["XGROUP", "DELCONSUMER", &key, &group, &consumer]),
            10 if self.random.below(3) == 0 => words(&["XGROUP", "DESTROY", &key, &group]),
            _ => words(&["XGROUP", "SETID", &key, &group, &id, "BOGUS"]),
        }
    }

    fn info(&mut self, in_multi: bool) -> Vec<String> {
        let (key, group, number) = (self.key(), self.group(), self.number());
        match self.random.below(8) {
            0..2 => words(&["XINFO", "GROUPS", &key]),
            2 if !in_multi => words(&["XINFO", "CONSUMERS", &key, &group]),
            3 if !in_multi => words(&["XINFO", "STREAM", &key]),
            4 if !in_multi => words(&["XINFO", "STREAM", &key, "FULL"]),
            5 if !in_multi => words(&["XINFO", "STREAM", &key, "FULL", "COUNT", &number]),
            6 => words(&["XINFO", "STREAM", &key, "BOGUS"]),
            _ => words(&["XINFO", "GROUPS", &key]),
        }
    }

    fn remove(&mut self) -> Vec<String> {
        let key = self.key();
        match self.random.below(5) {
            0..2 if self.has_gaps => {
                let mut command = words(&["XDEL", &key]);
                self.ids(&mut command);
                command
            }
            2 if self.has_gaps => {
                let (id, number) = (self.id(), self.number());
                let removed = self.id();
                let mut command = words(&["XSETID", &key, &id]);
                match self.random.below(3) {
                    0 => {}
                    1 => command.extend(words(&["ENTRIESADDED", &number])),
                    _ => command.extend(words(&["MAXDELETEDID", &removed])),
                }
                command
            }
            3 if self.random.below(8) == 0 => words(&["DEL", &key]),
            _ => {
                let mut command = words(&["XTRIM", &key]);
                self.trim(&mut command);
                command
            }
        }
    }

    fn keys(&mut self) -> Vec<String> {
        let (key, other) = (self.key(), self.key());
        match self.random.below(9) {
            0 => words(&["TYPE", &key]),
            1 => words(&["OBJECT", "ENCODING", &key]),
            2 => words(&["COPY", &key, &other, "REPLACE"]),
            3 => words(&["RENAME", &key, &other]),
            4 => words(&["SET", "string", "x"]),
            5 => words(&["GET", &key]),
            6 => words(&["EXISTS", &key, &other]),
            7 => words(&[
                "COMMAND", "GETKEYS", "XREAD", "COUNT", "1", "STREAMS", &key, &other, "0", "0",
            ]),
            _ => words(&["MOVE", &key, "1"]),
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The reply without what depends on the time or on how Redis lays a stream out.
pub fn masked(command: &[String], reply: &str) -> String {
    let is = |at: usize, word: &str| command.get(at).is_some_and(|one| one == word);
    if is(0, "XPENDING") && command.len() > 3 {
        // Each has the time since its delivery and how often it was delivered.
        let mut is_time = false;
        let mut line = |line: &str| {
            is_time = line.starts_with(':') && !is_time;
            if is_time { ":time".to_owned() } else { line.to_owned() }
        };
        return reply.lines().map(&mut line).collect::<Vec<_>>().join("\n");
    }
    if !is(0, "XINFO") {
        return reply.to_owned();
    }
    let mut hides_next = false;
    let mut line = |line: &str| {
        let hidden = hides_next || (line.starts_with(':') && line.len() > 12);
        hides_next = ["idle", "radix-tree-keys", "radix-tree-nodes"].contains(&line);
        if hidden { ":hidden".to_owned() } else { line.to_owned() }
    };
    reply.lines().map(&mut line).collect::<Vec<_>>().join("\n")
}
