//! The words of `tembo-lab crashtest`, in which a violation says how it is seen again.

use tembo_sim::Cache;

use crate::{Effort, Model, Mutation, Structure, Target, Twist};

impl Structure {
    /// All of them.
    pub const ALL: [Structure; 17] = [
        Structure::Region,
        Structure::Pool,
        Structure::Log,
        Structure::Heap,
        Structure::Cdds,
        Structure::Nvtree,
        Structure::Hash,
        Structure::Kv,
        Structure::KvCdds,
        Structure::KvHash,
        Structure::Replica,
        Structure::Shared,
        Structure::Stores,
        Structure::Array,
        Structure::ArrayCdds,
        Structure::Server,
        Structure::Fs,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Structure::Region => "region",
            Structure::Pool => "pool",
            Structure::Log => "log",
            Structure::Heap => "heap",
            Structure::Cdds => "cdds",
            Structure::Nvtree => "nvtree",
            Structure::Hash => "hash",
            Structure::Kv => "kv",
            Structure::KvCdds => "kv-cdds",
            Structure::KvHash => "kv-hash",
            Structure::Replica => "replica",
            Structure::Shared => "shared",
            Structure::Stores => "stores",
            Structure::Array => "array",
            Structure::ArrayCdds => "array-cdds",
            Structure::Server => "server",
            Structure::Fs => "fs",
        }
    }

    /// The model that is looked at unless another is asked for.
    pub fn model(self) -> Model {
        if self == Structure::Region { Model::Logged } else { Model::Flush }
    }

    /// Whether it can be explored on that medium.
    pub fn has(self, model: Model) -> bool {
        match self {
            Structure::Region => model == Model::Logged,
            Structure::Kv | Structure::Fs | Structure::Heap => true,
            _ => model != Model::Logged,
        }
    }
}

impl Model {
    /// All of them.
    pub const ALL: [Model; 3] = [Model::Flush, Model::Eadr, Model::Logged];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Model::Flush => "flush",
            Model::Eadr => "eadr",
            Model::Logged => "logged",
        }
    }
}

impl Twist {
    /// All of them.
    pub const ALL: [Twist; 3] = [Twist::Dropped, Twist::Early, Twist::Misplaced];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Twist::Dropped => "dropped",
            Twist::Early => "early",
            Twist::Misplaced => "misplaced",
        }
    }
}

/// When stores are durable in that model.
pub(crate) fn cache(model: Model) -> Cache {
    if model == Model::Eadr { Cache::Eadr } else { Cache::Flush }
}

/// The arguments that show the same again.
pub(crate) fn replay(
    target: Target,
    effort: &Effort<'_>,
    workload: &str,
    mutation: Option<&Mutation>,
) -> String {
    let Target { structure, model } = target;
    let mut line = format!(
        "tembo-lab crashtest --structure {} --model {} --seed {} --images {}",
        structure.name(),
        model.name(),
        effort.seed,
        effort.images_max
    );
    if let Some(Mutation { step, twist }) = mutation {
        line += &format!(" --mutate {step} --twist {}", twist.name());
    }
    line + &format!(" --workload {workload}")
}
