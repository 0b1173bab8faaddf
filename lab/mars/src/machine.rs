//! The array as a machine of parts that pass messages, each of which takes one step at a time.
//!
//! Which part is next the caller decides: an explorer takes every order, a host's driver any. All that is volatile lies in the
//! parts and their queues; what survives is in the region.

use std::collections::VecDeque;
use std::sync::Arc;

use tembo_pmem::Region;

use crate::Error;
use crate::bank::Bank;
use crate::central::{Central, Sent};
use crate::geometry::Geometry;
use crate::logger::Logger;
use crate::message::{Notice, Owner, Reply, Request, State};
use crate::recovery::{Recovered, RecoveryRule, recover};

/// A step that the machine can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The central controller takes the next reply.
    Central,
    /// A logger takes its next command.
    Logger(usize),
    /// A logger writes back the transaction that stands first.
    WriteBack(usize),
}

/// An array of controllers.
pub struct Machine {
    geometry: Geometry,
    banks: Vec<Bank>,
    central: Central,
    loggers: Vec<Logger>,
    replies: VecDeque<Reply>,
    notices: VecDeque<Notice>,
}

impl Machine {
    /// The array in a region, recovered by that rule: one in a region of zeros is empty.
    ///
    /// # Errors
    /// [`Error::Geometry`], [`Error::Region`] when the region is too small; damage.
    pub fn open(
        region: &Arc<Region>,
        geometry: Geometry,
        rule: RecoveryRule,
    ) -> Result<(Machine, Recovered), Error> {
        geometry.check()?;
        if region.size() < geometry.region_size() {
            return Err(Error::Geometry { what: "a region smaller than its controllers" });
        }
        let all = 0..geometry.controllers;
        let banks: Vec<Bank> = all.map(|number| Bank::new(region, geometry, number)).collect();
        let recovered = recover(&banks, rule)?;
        let logger =
            |(number, bank): (usize, &Bank)| Logger::new(number, bank.clone(), geometry.entries);
        let machine = Machine {
            geometry,
            loggers: banks.iter().enumerate().map(logger).collect(),
            banks,
            central: Central::new(geometry, recovered.sequence),
            replies: VecDeque::new(),
            notices: VecDeque::new(),
        };
        Ok((machine, recovered))
    }

    /// How it is striped.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The state of a transaction.
    pub fn state(&self, owner: Owner) -> State {
        self.central.state(owner)
    }

    /// Gives a request to the central controller, which sends its commands. It is over when a [`Notice`] says so.
    ///
    /// Writes of one transaction that overlap, and are on their way together, come in the order of the requests here. (In
    /// the thesis they do not, and a barrier is needed; to wait for [`Notice::Logged`] is that barrier.)
    ///
    /// # Errors
    /// What is wrong with the request: nothing has changed.
    pub fn request(&mut self, request: Request) -> Result<(), Error> {
        let sent = self.central.request(request)?;
        self.deliver(sent);
        Ok(())
    }

    fn deliver(&mut self, sent: Sent) {
        for (logger, command) in sent {
            self.loggers[logger].send(command);
        }
    }

    /// The steps that can be taken now; none: the machine is at rest.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.replies.is_empty() {
            steps.push(Step::Central);
        }
        for (number, logger) in self.loggers.iter().enumerate() {
            if logger.has_command() {
                steps.push(Step::Logger(number));
            }
            if logger.can_apply() {
                steps.push(Step::WriteBack(number));
            }
        }
        steps
    }

    /// Takes a step. One that cannot be taken does nothing.
    ///
    /// # Errors
    /// Damage.
    pub fn step(&mut self, step: Step) -> Result<(), Error> {
        let reply = match step {
            Step::Central => {
                let Some(reply) = self.replies.pop_front() else { return Ok(()) };
                let (sent, notice) = self.central.reply(reply)?;
                self.deliver(sent);
                self.notices.extend(notice);
                None
            }
            Step::Logger(number) => self.loggers[number].step()?,
            Step::WriteBack(number) => self.loggers[number].apply()?,
        };
        self.replies.extend(reply);
        Ok(())
    }

    /// The next notice to the host.
    pub fn notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Takes steps until none is left.
    ///
    /// # Errors
    /// Damage.
    pub fn settle(&mut self) -> Result<(), Error> {
        while let Some(step) = self.steps().first().copied() {
            self.step(step)?;
        }
        Ok(())
    }

    /// Reads what lies in the file space now: behind a commit what was written is there when its write-back is over.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        self.geometry.check_range(offset, to.len() as u64)?;
        for part in self.geometry.parts(offset, to.len()) {
            self.banks[part.controller].read(part.local, &mut to[part.range])?;
        }
        Ok(())
    }
}
