//! A process that works on a region, and what it was promised.

use std::path::Path;
use std::sync::Arc;

use tembo_pmem::{
    Disk, Domain, DomainRequest, Error, Region, RegionOptions, SyncPolicy, WholeObject,
};
use tembo_sim::{SimDisk, Slip};

use super::model::{
    GROWTH, GROWTHS_MAX, LINK, Model, OBJECT_COUNT, OBJECT_LEN, OBJECT_ROOM, OBJECTS, OBJECTS_LINK,
    PAGE, PAGE_LEN, PAGE_LINK, RECORD, RECORD_LEN, SIZE, ZEROES, format, line_at, page_of,
};

/// The pool's file.
pub(super) const POOL: &str = "/disk/pool";
/// The log's.
pub(super) const LOG: &str = "/disk/pool.log";
/// What creations leave when they are cut off.
const UNFINISHED: [&str; 2] = ["/disk/pool.tmp", "/disk/pool.log.new"];

/// Something that a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Stores a word in each of some lines, in a section, and fences.
    Group(u64),
    /// The same without a section.
    Unreserved(u64),
    /// A section for so many lines, of which none is stored to.
    Section(u64),
    /// Syncs.
    Sync,
    /// Checkpoints.
    Checkpoint,
    /// Unlinks the large record, uses its space otherwise, writes another there, and links it.
    Record,
    /// Unlinks the large record, the objects, and the page.
    Unlink,
    /// Writes a large record in the space of the last, and links it.
    Replace,
    /// Unlinks the large record, and stores small lines in its space.
    Reuse,
    /// Writes small records that fill pages together, in the space of the last ones, and links them.
    Objects,
    /// Writes a page in the space of the last, from which it differs in a line, and links it; every other time after something
    /// else was written there beside the log, where that may be, and given up.
    Page,
    /// Grows.
    Grow,
    /// Dies, and opens again.
    Kill,
    /// Closes, and opens again.
    Close,
    /// Closes and cuts off what the last growth added, and opens again.
    Cut,
    /// Closes, loses the log, and opens again: a closed pool is one file.
    Copy,
    /// As `Kill`, and asks for a log of another size.
    Resize(u64),
    /// As `Close`, and asks for a log of another size.
    CloseResize(u64),
    /// Opens in the `flush` domain, which is emulated.
    Emulate,
    /// Opens in the `logged` domain.
    Log,
    /// Another program writes behind the end of the pool's file.
    Litter,
    /// Gives space that holds nothing back to the file system, and uses it as it is then.
    Hole,
}

/// How processes of one workload work.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) policy: SyncPolicy,
    pub(super) log_size: u64,
    /// Bytes that a new log begins with.
    pub(super) log_initial: u64,
    /// Whether files can be mapped.
    pub(super) mapped: bool,
    pub(super) background: bool,
    /// Whether the pool is created as emulated persistent memory.
    pub(super) emulated: bool,
    /// What is wrong with the program.
    pub(super) slip: Option<Slip>,
}

/// What a process has been promised.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promise {
    /// There is a pool.
    pub(super) exists: bool,
    /// States from this one on are what is found when the process is killed.
    pub(super) kill: usize,
    /// The same when the power is lost.
    pub(super) power: usize,
    /// The region has at least so many bytes.
    pub(super) size: u64,
    /// Whether a power loss takes what was flushed, and the pool is refused, because persistent
    /// memory was emulated.
    pub(super) lossy: Lossy,
    /// Whether an opening that asks for no domain gets the `logged` one, where that is sure.
    pub(super) logged: Option<bool>,
}

/// Whether a power loss makes a pool one that was emulated and is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lossy {
    #[default]
    No,
    Maybe,
    Yes,
}

/// What was fenced and what was promised, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// The digest of each state.
    pub(super) states: Vec<u64>,
    pub(super) promises: Vec<Promise>,
}

/// A process at work.
pub(super) struct Life {
    setup: Setup,
    pub(super) disk: SimDisk,
    pub(super) region: Option<Region>,
    model: Model,
    pub(super) past: Past,
    value: u64,
    domain: DomainRequest,
    log_size: u64,
}

pub(super) fn options(setup: &Setup, disk: &SimDisk) -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        sync: setup.policy,
        size_max: SIZE + GROWTHS_MAX * GROWTH,
        log_size: setup.log_size,
        log_initial: setup.log_initial,
        disk: Arc::new(disk.clone()),
        background: setup.background,
        ..RegionOptions::default()
    }
}

impl Life {
    /// Begins on a disk without a pool.
    pub(super) fn before_creation(setup: &Setup, disk: SimDisk) -> Life {
        disk.slip(setup.slip.clone());
        let mut life = Life {
            disk,
            region: None,
            model: Model::default(),
            past: Past::default(),
            value: 1,
            domain: if setup.emulated { DomainRequest::Flush } else { DomainRequest::Logged },
            log_size: setup.log_size,
            setup: setup.clone(),
        };
        life.model.put(super::model::FORMATTED, 1);
        life.past.states.push(life.model.digest());
        let lossy = if setup.emulated { Lossy::Maybe } else { Lossy::No };
        life.promise(Promise { lossy, ..Promise::default() });
        life
    }

    /// Goes on with an open region that holds what `model` says.
    pub(super) fn with(setup: &Setup, disk: SimDisk, region: Region, model: Model) -> Life {
        let mut life = Life::before_creation(setup, disk);
        life.value = 1 << 32;
        life.model = model;
        life.past.states = vec![life.model.digest()];
        let size = region.size();
        let is_logged = region.domain() == Domain::Logged;
        life.domain = if is_logged { DomainRequest::Logged } else { DomainRequest::Flush };
        let lossy = if is_logged { Lossy::No } else { Lossy::Yes };
        life.region = Some(region);
        let logged = Some(is_logged);
        life.promise(Promise { exists: true, size, lossy, logged, ..Promise::default() });
        life
    }

    fn options(&self) -> RegionOptions {
        let (domain, log_size) = (self.domain, self.log_size);
        RegionOptions { domain, log_size, ..options(&self.setup, &self.disk) }
    }

    /// Creates the pool.
    pub(super) fn create(&mut self) -> Result<(), Error> {
        let region = Region::create(Path::new(POOL), SIZE, &self.options(), format)?;
        self.region = Some(region);
        let logged = Some(!self.setup.emulated);
        let lossy = if self.setup.emulated { Lossy::Yes } else { Lossy::No };
        self.promise(Promise { exists: true, size: SIZE, lossy, logged, kill: 0, power: 0 });
        Ok(())
    }

    /// Opens the pool: what is found there is durable.
    fn open(&mut self) -> Result<Result<(), Error>, String> {
        let is_logged = self.domain == DomainRequest::Logged;
        let before = self.promised();
        if !is_logged || before.logged != Some(true) {
            self.promise(Promise { lossy: Lossy::Maybe, logged: None, ..before });
        }
        let opened = Region::open(Path::new(POOL), &self.options());
        let region = match opened {
            Ok(region) => region,
            Err(error) => return Ok(Err(error)),
        };
        let found = Model::read(&region)?;
        if found != self.model {
            let difference = self.model.difference(&found);
            return Err(format!("opened again, the region holds something else: {difference}"));
        }
        self.region = Some(region);
        let last = self.past.states.len() - 1;
        let lossy = if is_logged { Lossy::No } else { Lossy::Yes };
        let logged = Some(is_logged);
        self.promise(Promise { kill: last, power: last, lossy, logged, ..before });
        Ok(Ok(()))
    }

    pub(super) fn promised(&self) -> Promise {
        self.past.promises.last().copied().unwrap_or_default()
    }

    fn promise(&mut self, promise: Promise) {
        self.past.promises.push(promise);
        self.disk.mark(self.past.promises.len() as u64 - 1);
    }

    /// All that was fenced is promised to outlive the process, and the power where `power` says so.
    fn promise_all(&mut self, power: bool) {
        let last = self.past.states.len() - 1;
        let before = self.promised();
        let power = if power { last } else { before.power };
        self.promise(Promise { kill: last, power, ..before });
    }

    /// A sync has succeeded: what that promises depends on policy and domain.
    fn promise_synced(&mut self) {
        let is_real = self.promised().lossy == Lossy::No;
        self.promise_all(is_real && self.setup.policy == SyncPolicy::Always);
    }

    /// Does something. The outer error is a promise that was broken, the inner what the region says.
    pub(super) fn run(&mut self, op: Op) -> Result<Result<(), Error>, String> {
        match op {
            Op::Group(lines) => Ok(self.group(lines)),
            Op::Unreserved(lines) => Ok(self.put_lines(lines)),
            Op::Section(lines) => {
                Ok(self.region().and_then(|region| region.reserve(lines).map(drop)))
            }
            Op::Sync => Ok(self.sync()),
            Op::Checkpoint => Ok(self.checkpoint()),
            Op::Record => Ok(self.record()),
            Op::Unlink => Ok(self.unlink(&[LINK, OBJECTS_LINK, PAGE_LINK])),
            Op::Replace => Ok(self.replace()),
            Op::Reuse => Ok(self.reuse()),
            Op::Objects => Ok(self.objects()),
            Op::Page => Ok(self.page()),
            Op::Grow => Ok(self.grow()),
            Op::Kill => self.kill(),
            Op::Close => self.close(),
            Op::Cut => self.cut(),
            Op::Copy => {
                if let Err(error) = self.finish() {
                    return Ok(Err(error));
                }
                self.disk.take(Path::new(LOG));
                self.open()
            }
            Op::Resize(size) => {
                self.log_size = size;
                self.kill()
            }
            Op::CloseResize(size) => {
                self.log_size = size;
                self.close()
            }
            Op::Emulate => {
                self.domain = DomainRequest::Flush;
                self.kill()
            }
            Op::Log => {
                self.domain = DomainRequest::Logged;
                self.kill()
            }
            Op::Litter => Ok(self.litter()),
            Op::Hole => Ok(self.hole()),
        }
    }

    fn region(&self) -> Result<&Region, Error> {
        self.region.as_ref().ok_or(Error::NotAPool { path: POOL.into() })
    }

    fn put(&mut self, offset: u64, value: u64) -> Result<(), Error> {
        let region = self.region()?;
        region.store(&region.words(offset, 1)?[0], value);
        region.flush("torture.put", offset, 8);
        self.model.put(offset, value);
        Ok(())
    }

    fn fence(&mut self) -> Result<(), Error> {
        // The state is a legal one from the moment at which the fence begins.
        self.past.states.push(self.model.digest());
        self.region()?.fence("torture.fence");
        if self.promised().lossy == Lossy::Yes {
            self.promise_all(false);
        }
        Ok(())
    }

    fn put_lines(&mut self, lines: u64) -> Result<(), Error> {
        let size = self.region()?.size();
        for line in 0..lines {
            self.value += 1;
            let value = self.value;
            // The first line is the same every time, the others go all over the region.
            let index = if line == 0 { 5 } else { value * 13 };
            let word = if line == 0 { 0 } else { value % 6 + 2 };
            self.put(line_at(index, size) + word * 8, value)?;
        }
        self.fence()
    }

    fn group(&mut self, lines: u64) -> Result<(), Error> {
        drop(self.region()?.reserve(lines)?);
        self.put_lines(lines)
    }

    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.region()?.sync()?;
        self.promise_synced();
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Error> {
        self.region()?.checkpoint()?;
        self.promise_all(true);
        Ok(())
    }

    fn record(&mut self) -> Result<(), Error> {
        let lines = 8 + self.region()?.write_lines(RECORD, RECORD_LEN);
        drop(self.region()?.reserve(lines)?);
        self.put(LINK, 0)?;
        self.fence()?;
        self.use_freed()?;
        self.value += 1;
        let value = 1 + self.value % 251;
        let record = vec![value as u8; RECORD_LEN as usize];
        let (head, tail) = record.split_at(1000);
        self.region()?.write("torture.record", RECORD, &[head, tail])?;
        self.fence()?;
        self.put(LINK, value)?;
        self.fence()
    }

    /// Stores small lines in the freed space of the record, as another user of it would leave them.
    fn use_freed(&mut self) -> Result<(), Error> {
        for page in 0..3 {
            let region = self.region()?;
            let at = RECORD + page * 4096 + 640;
            region.store(&region.words(at, 1)?[0], 0xdead);
            region.flush("torture.litter", at, 8);
        }
        self.fence()
    }

    fn reuse(&mut self) -> Result<(), Error> {
        self.unlink(&[LINK])?;
        drop(self.region()?.reserve(8)?);
        self.use_freed()
    }

    /// Unlinks what these words link, and says that its space is free.
    fn unlink(&mut self, links: &[u64]) -> Result<(), Error> {
        drop(self.region()?.reserve(8)?);
        let linked = links.iter().filter(|link| self.model.get(**link) != 0);
        let linked: Vec<u64> = linked.copied().collect();
        if linked.is_empty() {
            return Ok(());
        }
        linked.iter().try_for_each(|link| self.put(*link, 0))?;
        self.fence()?;
        let frees = self.region()?.frees();
        for link in linked {
            match link {
                LINK => frees.note(RECORD, RECORD_LEN.next_multiple_of(4096)),
                PAGE_LINK => frees.note(PAGE, PAGE_LEN),
                _ => frees.note(OBJECTS, OBJECT_COUNT * OBJECT_ROOM),
            }
        }
        Ok(())
    }

    fn replace(&mut self) -> Result<(), Error> {
        let lines = 8 + self.region()?.write_lines(RECORD, RECORD_LEN);
        drop(self.region()?.reserve(lines)?);
        self.unlink(&[LINK])?;
        let value = self.next_byte();
        let record = vec![value as u8; RECORD_LEN as usize];
        let room = RECORD_LEN.next_multiple_of(4096);
        self.region()?.write_object("torture.replace", RECORD, &[&record], room)?;
        self.fence()?;
        self.put(LINK, value)?;
        self.fence()
    }

    fn objects(&mut self) -> Result<(), Error> {
        let lines = 8 + OBJECT_COUNT * (OBJECT_ROOM / 64);
        // The smallest log grants an operation fewer.
        (0..8).try_for_each(|_| self.region()?.reserve(lines / 8).map(drop))?;
        self.unlink(&[OBJECTS_LINK])?;
        let value = self.next_byte();
        let record = vec![value as u8; OBJECT_ROOM as usize];
        let places: Vec<u64> = (0..OBJECT_COUNT).map(|n| OBJECTS + n * OBJECT_ROOM).collect();
        let mut written = vec![false; places.len()];
        if value.is_multiple_of(2) {
            // Those that fill pages, together; the others as below.
            let whole: Vec<_> =
                places.iter().map(|&offset| WholeObject { offset, bytes: &record }).collect();
            written = self.region()?.write_together(&whole)?;
            if value.is_multiple_of(4) {
                // One of them is given up, and written again.
                self.region()?.frees().note_unused(OBJECTS, OBJECT_ROOM);
                written[0] = false;
            }
        }
        for (&at, _) in places.iter().zip(&written).filter(|(_, is_written)| !**is_written) {
            let record = &record[..OBJECT_LEN as usize];
            self.region()?.write_object("torture.object", at, &[record], OBJECT_ROOM)?;
        }
        self.fence()?;
        self.put(OBJECTS_LINK, value)?;
        self.fence()
    }

    fn page(&mut self) -> Result<(), Error> {
        drop(self.region()?.reserve(8 + PAGE_LEN / 64)?);
        self.unlink(&[PAGE_LINK])?;
        let value = self.next_byte();
        let region = self.region()?;
        if value.is_multiple_of(2) {
            let other = [0xee; PAGE_LEN as usize];
            region.write_together(&[WholeObject { offset: PAGE, bytes: &other }])?;
            region.frees().note_unused(PAGE, PAGE_LEN);
        }
        region.write_object("torture.page", PAGE, &[&page_of(value)], PAGE_LEN)?;
        self.fence()?;
        self.put(PAGE_LINK, value)?;
        self.fence()
    }

    /// Gives the space of the record and of the objects back, and uses the latter without a store: it is zero.
    fn hole(&mut self) -> Result<(), Error> {
        self.unlink(&[LINK, OBJECTS_LINK])?;
        self.sync()?;
        self.checkpoint()?;
        let room = RECORD_LEN.next_multiple_of(4096);
        self.region()?.punch(RECORD, room)?;
        let is_hole = self.region()?.punch(OBJECTS, OBJECT_COUNT * OBJECT_ROOM)?;
        if !is_hole {
            return Ok(());
        }
        drop(self.region()?.reserve(8)?);
        self.put(OBJECTS_LINK, ZEROES)?;
        self.fence()
    }

    fn next_byte(&mut self) -> u64 {
        self.value += 1;
        1 + self.value % 251
    }

    fn grow(&mut self) -> Result<(), Error> {
        let size = self.region()?.size() + GROWTH;
        if size > SIZE + GROWTHS_MAX * GROWTH {
            return Ok(());
        }
        self.region()?.grow(size)?;
        let promise = self.promised();
        self.promise(Promise { size, ..promise });
        self.put(size - 64, size)?;
        self.fence()
    }

    /// The process dies. What it had fenced and not synced is gone from memory.
    fn kill(&mut self) -> Result<Result<(), Error>, String> {
        if let Some(region) = self.region.take() {
            // Only what was synced is sure to be found.
            let synced = region.sync();
            if let Err(error) = synced {
                return Ok(Err(error));
            }
            self.promise_synced();
        }
        self.open()
    }

    /// Closes the region.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        if let Some(region) = self.region.take() {
            let before = self.promised();
            if before.lossy == Lossy::Yes {
                self.promise(Promise { lossy: Lossy::Maybe, ..before });
            }
            region.close()?;
            self.promise(Promise { lossy: Lossy::No, ..before });
            self.promise_all(true);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<Result<(), Error>, String> {
        match self.finish() {
            Ok(()) => self.open(),
            Err(error) => Ok(Err(error)),
        }
    }

    fn cut(&mut self) -> Result<Result<(), Error>, String> {
        let Some(region) = self.region.take() else { return self.open() };
        let before = self.promised();
        let size = (region.size() - GROWTH).max(SIZE);
        let lossy = if before.lossy == Lossy::Yes { Lossy::Maybe } else { before.lossy };
        self.promise(Promise { size, lossy, ..before });
        // What lies behind the end may be gone from the moment at which the closing begins.
        self.model.cut(size);
        self.past.states.push(self.model.digest());
        if let Err(error) = region.close_at(size) {
            return Ok(Err(error));
        }
        let file = self.disk.content(Path::new(POOL)).map_or(0, |bytes| bytes.len() as u64);
        if file != size {
            return Err(format!("a pool that was cut to {size} bytes has {file} in its file"));
        }
        self.promise(Promise { lossy: Lossy::No, ..self.promised() });
        self.promise_all(true);
        self.open()
    }

    fn litter(&mut self) -> Result<(), Error> {
        let size = self.region()?.size();
        let io = |source| Error::Io { action: "litter", path: POOL.into(), source };
        let file = self.disk.open(Path::new(POOL)).map_err(io)?;
        file.write_at("torture.litter_write", &[0xee; 3000], size + 100).map_err(io)
    }

    /// No unfinished file is left over from what has succeeded, or failed while the process lived.
    pub(super) fn check_unfinished(&self) -> Result<(), String> {
        match UNFINISHED.iter().find(|name| self.disk.content(Path::new(name)).is_some()) {
            Some(name) => Err(format!("{name} is left over")),
            None => Ok(()),
        }
    }
}
