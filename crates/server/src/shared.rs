//! What all commands share beside the data: settings, counters, clocks, scans.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tembo_kv::{Report, Store};

use crate::acl::Acl;
use crate::backup::Backups;
use crate::clock::Clock;
use crate::door::Door;
use crate::eviction::{Eviction, Policy};
use crate::item_state::ItemState;
use crate::latency::Latency;
use crate::observed::Observed;
use crate::pause::Pause;
use crate::propagation::Propagation;
use crate::pubsub::PubSub;
use crate::put_off::PutOffClients;
use crate::recency::{Decay, Recency, Usage};
use crate::replication::{Follower, Replication};
use crate::scan::Scans;
use crate::scripts::Scripts;
use crate::settings::Settings;
use crate::stats::Stats;
use crate::token::Token;
use crate::tracking::Tracking;
use crate::waiting::WaitEnd;

/// What all commands share beside the data.
pub(crate) struct Shared {
    /// CONFIG.
    pub(crate) settings: Settings,
    /// What TLS needs.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// What the encrypted connection to a primary needs; none: it is not encrypted.
    pub(crate) tls_of_link: Option<Arc<rustls::ClientConfig>>,
    /// Users.
    pub(crate) acl: Acl,
    /// The configuration file.
    pub(crate) config_file: Option<PathBuf>,
    /// By the numbers of commands, whether a replica executes them while its primary is out of reach.
    pub(crate) served_stale: Vec<bool>,
    /// Counters.
    pub(crate) stats: Stats,
    /// How long turns take.
    pub(crate) latency: Latency,
    /// Commands, their times and errors.
    pub(crate) observed: Observed,
    /// CLIENT TRACKING.
    pub(crate) tracking: Tracking,
    /// CLIENT PAUSE.
    pub(crate) pause: Pause,
    /// Clients with a command that it holds.
    pub(crate) paused: Vec<Token>,
    /// Clients of which a command is put off.
    pub(crate) put_off: PutOffClients,
    /// More memory is in use than `maxmemory` allows.
    pub(crate) is_over_memory: bool,
    /// Bytes of memory of all clients, while there is a limit.
    pub(crate) clients_size: usize,
    /// Keys that are to be evicted.
    pub(crate) eviction: Eviction,
    /// When keys were last used, once that was asked.
    pub(crate) recency: Option<Recency>,
    /// It is noted when keys are used.
    pub(crate) notes_usage: bool,
    /// Backups.
    pub(crate) backups: Backups,
    /// Subscriptions.
    pub(crate) pubsub: PubSub,
    /// What memcached's faces keep.
    pub(crate) items: ItemState,
    /// Primary and replicas.
    pub(crate) replication: Replication,
    /// What replicas that are servers of Redis are sent.
    pub(crate) propagation: Propagation,
    /// Where clients come in while a script runs; none in a process without sockets.
    pub(crate) door: Option<Door>,
    /// Clients taken in so far.
    pub(crate) clients_seen: u64,
    /// Scripts and functions.
    pub(crate) scripts: Scripts,
    /// Positions of scans under way.
    pub(crate) scans: Scans,
    /// The store's report at the last tick.
    pub(crate) report: Report,
    /// The turn's clocks.
    pub(crate) clock: Clock,
    /// When the server started.
    pub(crate) started: Instant,
    /// Names this run of the server.
    pub(crate) run_id: String,
    /// The port listened at.
    pub(crate) port: u16,
    /// When a snapshot was last saved, in seconds since 1970.
    pub(crate) saved_s: u64,
    /// Whether the last background save succeeded.
    pub(crate) save_ok: bool,
    /// A background save is to be made at the end of the turn.
    pub(crate) save_wanted: bool,
    /// Clients that CLIENT KILL has ended in this turn.
    pub(crate) killed: Vec<Token>,
    /// Clients whose wait a command has ended, or what replicas have acknowledged.
    pub(crate) released: Vec<(Token, WaitEnd)>,
    /// The disk had no room for the last sync: what is visible is not durable. When that is tried again, by the server's clock.
    pub(crate) sync_again_ms: Option<u64>,
    /// The client of which an order to be a replica or a primary, within EXEC, was refused at the end of the turn, and why.
    pub(crate) refused: Option<(Token, tembo_kv::Error)>,
    /// SHUTDOWN was asked for.
    pub(crate) shutdown: bool,
    random: u64,
}

impl Shared {
    /// Nothing has happened yet.
    pub(crate) fn new(
        settings: Settings,
        acl: Acl,
        backups: Backups,
        port: u16,
        clock: Clock,
    ) -> Shared {
        let seed = || RandomState::new().hash_one(clock.wall_us);
        let run_id = format!("{:016x}{:016x}{:08x}", seed(), seed(), seed() as u32);
        Shared {
            settings,
            tls: None,
            tls_of_link: None,
            acl,
            config_file: None,
            served_stale: Vec::new(),
            stats: Stats::default(),
            latency: Latency::default(),
            observed: Observed::new(),
            tracking: Tracking::default(),
            pause: Pause::default(),
            paused: Vec::new(),
            put_off: PutOffClients::default(),
            is_over_memory: false,
            clients_size: 0,
            eviction: Eviction::default(),
            recency: None,
            notes_usage: false,
            backups,
            pubsub: PubSub::default(),
            items: ItemState::default(),
            replication: Replication::default(),
            propagation: Propagation::default(),
            door: None,
            clients_seen: 0,
            scripts: Scripts::default(),
            scans: Scans::new(seed()),
            report: Report::default(),
            clock,
            started: Instant::now(),
            run_id,
            port,
            saved_s: clock.wall_s(),
            save_ok: true,
            save_wanted: false,
            killed: Vec::new(),
            released: Vec::new(),
            sync_again_ms: None,
            refused: None,
            shutdown: false,
            random: seed() | 1,
        }
    }

    /// Takes the store's report. No transaction may be open.
    pub(crate) fn take_report(&mut self, store: &Store) {
        let (visible, durable) = (store.visible(), store.durable());
        self.report = Report { visible, durable, ..store.report() };
    }

    /// Takes over what the settings say of eviction.
    pub(crate) fn begin_eviction(&mut self) {
        let asks_usage = self.settings.eviction.is_some_and(Policy::asks_usage);
        self.notes_usage |= asks_usage && self.settings.maxmemory > 0;
        self.eviction.is_running = self.settings.maxmemory > 0;
    }

    fn usage_clock(&self) -> (u64, Decay) {
        (self.clock.steady_ms, self.settings.decay)
    }

    fn recency(&mut self) -> &mut Recency {
        let seed = self.random();
        // A key that is not known may have been used since the server began, but not after this moment.
        self.recency.get_or_insert_with(|| Recency::new(0, seed))
    }

    /// Notes that a key of a database is used; whether it is read, and not written.
    pub(crate) fn note_use(&mut self, place: (usize, &[u8]), is_read: bool) {
        let clock = self.usage_clock();
        self.recency().note(place, is_read, clock);
    }

    /// Notes when a key was last used, or how often.
    pub(crate) fn set_use(&mut self, place: (usize, &[u8]), idle_ms: u64, count: Option<u8>) {
        let clock = self.usage_clock();
        self.recency().set(place, (idle_ms, count), clock);
    }

    /// What is known of the use of a key; from here on it is noted for all.
    pub(crate) fn usage(&mut self, place: (usize, &[u8])) -> Usage {
        let clock = self.usage_clock();
        self.recency().of(place, clock)
    }

    /// Whether what is visible waits for room on the disk to become durable. Nothing is written meanwhile.
    #[inline]
    pub(crate) fn is_disk_full(&self) -> bool {
        self.sync_again_ms.is_some()
    }

    /// Whether writes are refused because there are too few replicas.
    #[inline]
    pub(crate) fn lacks_replicas(&self) -> bool {
        self.settings.min_replicas > 0 && self.good_replicas() < self.settings.min_replicas
    }

    /// Whether this server is a replica that is not to be read from, because its primary is out of reach.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        !self.settings.serves_stale && self.replication.is_out_of_reach()
    }

    /// Whether a command, by its number, is executed also then.
    #[cold]
    pub(crate) fn serves_stale(&self, number: usize) -> bool {
        self.served_stale.get(number).is_none_or(|served| *served)
    }

    /// How many replicas have been heard of lately.
    #[cold]
    fn good_replicas(&self) -> usize {
        let heard_ms = self.clock.steady_ms.saturating_sub(self.settings.replica_lag_ms);
        let is_good = |one: &Follower<'_>| one.is_online && one.heard_ms >= heard_ms;
        self.replication.followers().filter(is_good).count()
    }

    /// A name as Redis gives it to a run and to a stream: 40 digits that no other has.
    pub(crate) fn new_name(&mut self) -> String {
        format!("{:016x}{:016x}{:08x}", self.random(), self.random(), self.random() as u32)
    }

    /// A random number, not fit for secrets.
    pub(crate) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
