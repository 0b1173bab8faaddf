//! How long requests take on the thesis's hardware, in modelled time: the same on every machine and under every load.
//!
//! A request takes its thread through the driver, over the link by a DMA in pieces of a stripe, to the memory controllers, and
//! back. Link and controllers are resources that requests of all threads share ([`Calendar`]); what a controller does
//! for a commit behind the answer to the host only takes the controller's time.

use crate::calendar::Calendar;
use crate::geometry::Part;

/// What the hardware takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Nanoseconds of the thread until the array has a command.
    pub issue_ns: u64,
    /// Nanoseconds to set up a DMA.
    pub dma_ns: u64,
    /// Bytes that the link takes in a microsecond, in each direction.
    pub link_bytes_us: u64,
    /// Nanoseconds of the central controller on the way of a request.
    pub central_ns: u64,
    /// Nanoseconds of a memory's access until the first byte is read.
    pub read_ns: u64,
    /// Nanoseconds until the first byte is written.
    pub write_ns: u64,
    /// Bytes that a memory controller reads or writes in a microsecond.
    pub bank_bytes_us: u64,
    /// Nanoseconds until the thread knows that a request is over.
    pub complete_ns: u64,
}

impl Parameters {
    /// Moneta with PCM. From the thesis: the link of 2 GB/s in each direction, controllers of 4 GB/s, PCM's 48 and 150 ns
    /// (section 2.3.1), and 7 µs for a write of 4 KB from user space (section 3.4.1). How the 7 µs divide into what the
    /// driver, the set-up of a DMA and the completion take it does not say: that is a guess, made before any result
    /// was seen.
    pub fn moneta() -> Parameters {
        Parameters {
            issue_ns: 1500,
            dma_ns: 900,
            link_bytes_us: 2000,
            central_ns: 100,
            read_ns: 48,
            write_ns: 150,
            bank_bytes_us: 4000,
            complete_ns: 1280,
        }
    }
}

/// What went over the link and in and out of the memories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests.
    pub requests: u64,
    /// Transfers by DMA.
    pub transfers: u64,
    /// Bytes from the host.
    pub to_array: u64,
    /// Bytes to the host.
    pub to_host: u64,
    /// Bytes that controllers have read and written, tables and entries included.
    pub inside: u64,
}

/// Which way a transfer goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToArray,
    ToHost,
}

/// The resources of an array.
#[derive(Clone, Debug)]
pub(crate) struct Timing {
    parameters: Parameters,
    down: Calendar,
    up: Calendar,
    banks: Vec<Calendar>,
    traffic: Traffic,
}

/// Bytes of a record, and of an entry.
const META: usize = 32;

impl Timing {
    pub(crate) fn new(parameters: Parameters, controllers: usize) -> Timing {
        Timing {
            parameters,
            down: Calendar::default(),
            up: Calendar::default(),
            banks: vec![Calendar::default(); controllers],
            traffic: Traffic::default(),
        }
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// No request comes that begins before that time.
    pub(crate) fn forget_before(&mut self, time_ns: u64) {
        let all = [&mut self.down, &mut self.up].into_iter().chain(&mut self.banks);
        all.for_each(|calendar| calendar.forget_before(time_ns));
    }

    fn link(&mut self, way: Way, from_ns: u64, bytes: usize) -> u64 {
        let len_ns = (bytes as u64 * 1000).div_ceil(self.parameters.link_bytes_us);
        let (calendar, count) = match way {
            Way::ToArray => (&mut self.down, &mut self.traffic.to_array),
            Way::ToHost => (&mut self.up, &mut self.traffic.to_host),
        };
        *count += bytes as u64;
        calendar.reserve(from_ns, len_ns)
    }

    /// A controller makes accesses of so many bytes each, one behind the other.
    fn bank(&mut self, number: usize, from_ns: u64, reads: &[usize], writes: &[usize]) -> u64 {
        let Parameters { read_ns, write_ns, bank_bytes_us, .. } = self.parameters;
        let bytes: usize = reads.iter().chain(writes).sum();
        let first_ns = read_ns * reads.len() as u64 + write_ns * writes.len() as u64;
        self.traffic.inside += bytes as u64;
        let len_ns = first_ns + (bytes as u64 * 1000).div_ceil(bank_bytes_us);
        self.banks[number].reserve(from_ns, len_ns)
    }

    /// A request begins: when the array has it.
    fn request(&mut self, now_ns: u64) -> u64 {
        self.traffic.requests += 1;
        now_ns + self.parameters.issue_ns + self.parameters.central_ns
    }

    /// A request of data begins: when its transfer does.
    fn transfer(&mut self, now_ns: u64) -> u64 {
        self.traffic.transfers += 1;
        self.request(now_ns) + self.parameters.dma_ns
    }

    pub(crate) fn read(&mut self, now_ns: u64, parts: &[Part]) -> u64 {
        let begin = self.transfer(now_ns);
        let ends = parts.iter().map(|part| {
            let len = part.range.len();
            let read = self.bank(part.controller, begin, &[len], &[]);
            self.link(Way::ToHost, read, len)
        });
        ends.fold(begin, u64::max) + self.parameters.complete_ns
    }

    pub(crate) fn write(&mut self, now_ns: u64, parts: &[Part]) -> u64 {
        self.data(now_ns, parts, &[]) + self.parameters.complete_ns
    }

    /// A write to the log, with an entry for each part.
    pub(crate) fn log_write(&mut self, now_ns: u64, parts: &[Part]) -> u64 {
        self.data(now_ns, parts, &[META]) + self.parameters.complete_ns
    }

    /// Data come to the controllers, with what they write besides.
    fn data(&mut self, now_ns: u64, parts: &[Part], besides: &[usize]) -> u64 {
        let begin = self.transfer(now_ns);
        let ends = parts.iter().map(|part| {
            let len = part.range.len();
            let come = self.link(Way::ToArray, begin, len);
            let writes: Vec<usize> = std::iter::once(len).chain(besides.iter().copied()).collect();
            self.bank(part.controller, come, &[], &writes)
        });
        ends.fold(begin, u64::max)
    }

    /// A commit of what lies on those controllers in parts of those sizes: when the host knows, and when the write-back
    /// is over.
    pub(crate) fn commit(&mut self, now_ns: u64, logged: &[(usize, Vec<usize>)]) -> (u64, u64) {
        let begin = self.request(now_ns);
        self.mark(begin, logged)
    }

    /// The last write of a transaction with its commit in one request.
    pub(crate) fn atomic_write(
        &mut self,
        now_ns: u64,
        parts: &[Part],
        logged: &[(usize, Vec<usize>)],
    ) -> (u64, u64) {
        let come = self.data(now_ns, parts, &[META]);
        // A logger that is alone marks the transaction with the write; several are asked when all have answered.
        let alone = logged.len() == 1 && logged[0].1.len() == 1;
        let begin = come + if alone { 0 } else { self.parameters.central_ns };
        self.mark(begin, logged)
    }

    fn mark(&mut self, begin: u64, logged: &[(usize, Vec<usize>)]) -> (u64, u64) {
        let marks = logged.iter().map(|(number, _)| self.bank(*number, begin, &[], &[META]));
        let marked = marks.fold(begin, u64::max);
        let copies = logged.iter().map(|(number, sizes)| {
            let mut reads = vec![META; sizes.len()];
            reads.extend(sizes);
            self.bank(*number, marked, &reads, &[&sizes[..], &[META]].concat())
        });
        let copied = copies.fold(marked, u64::max);
        (marked + self.parameters.complete_ns, copied + self.parameters.complete_ns)
    }
}
