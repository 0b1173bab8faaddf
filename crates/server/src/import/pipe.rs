//! Commands on their way to the server, many at a time.

use crate::client::{Answer, Client};
use crate::import::error::ImportError;
use crate::import::imported::Imported;

/// Commands, and bytes of them, that are sent together.
const BATCH: (usize, usize) = (1000, 512 << 10);

/// Commands on their way.
pub(super) struct Pipe {
    target: Client,
    batch: Vec<u8>,
    count: usize,
    pub(super) state: Imported,
}

impl Pipe {
    pub(super) fn new(target: Client) -> Pipe {
        Pipe { target, batch: Vec::new(), count: 0, state: Imported::default() }
    }

    /// Sends a command, soon.
    pub(super) fn push(&mut self, words: &[&[u8]]) -> Result<(), ImportError> {
        self.batch.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.batch.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.batch.extend_from_slice(word);
            self.batch.extend_from_slice(b"\r\n");
        }
        self.count += 1;
        if self.count >= BATCH.0 || self.batch.len() >= BATCH.1 { self.flush() } else { Ok(()) }
    }

    /// Sends what waits, and waits for the answers: then it is durable.
    pub(super) fn flush(&mut self) -> Result<(), ImportError> {
        if self.count == 0 {
            return Ok(());
        }
        let answers = self.target.pipeline(&self.batch, self.count);
        for answer in answers.map_err(ImportError::Target)? {
            self.judge(answer);
        }
        self.batch.clear();
        self.count = 0;
        Ok(())
    }

    fn judge(&mut self, answer: Answer) {
        match answer {
            Answer::Error(text) => {
                self.state.refused += 1;
                self.state.first_refusal.get_or_insert(text);
            }
            // Of EXEC.
            Answer::Array(answers) => answers.into_iter().for_each(|answer| self.judge(answer)),
            _ => {}
        }
    }

    /// Sends what waits; all that was imported.
    pub(super) fn finish(mut self) -> Result<Imported, ImportError> {
        self.flush()?;
        Ok(self.state)
    }
}
