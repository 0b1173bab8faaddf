//! Writing and checking a superblock.

use tembo_pmem::{LINE, Region};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::format::{
    FEATURES_MUST, FEATURES_READ_ONLY, LOW_LOG, Label, MAGIC, SUPERBLOCK, SUPERBLOCK_SIZE, Sealed,
    Superblock, VERSION, VERSION_WITHOUT_TENANTS, seal, seal_low, unseal, unseal_low,
};
use crate::geometry::Layout;
use crate::{Error, Geometry, Object};

/// The unit of sealed sizes, in bits of an offset: 4 KiB.
const PAGE_SHIFT: u32 = 12;

/// The content of a superblock that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The sizes fixed at creation.
    pub geometry: Geometry,
    /// How often the pool has been opened; 0 when it is new.
    pub generation: u64,
    /// The pool's size, in bytes. The region may be larger: an interrupted growth.
    pub size: u64,
    /// Below this offset, in bytes, space may have been handed out; above it none was.
    pub frontier: u64,
    /// The version of the format.
    pub version: u32,
    /// The feature bits in force.
    pub features: Features,
    /// The object of the pool's log, if it was ever used.
    pub(crate) log: Object,
}

/// The feature bits of a pool: those of its creation, and from version 2 on those that were set since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// May be ignored when unknown.
    pub may: u64,
    /// Forbid opening when unknown.
    pub must: u64,
    /// Forbid writing when unknown.
    pub read_only: u64,
}

/// One of the sets of feature bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureSet {
    /// May be ignored when unknown.
    May,
    /// Forbids opening when unknown.
    Must,
    /// Forbids writing when unknown.
    ReadOnly,
}

/// The purpose of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// To read: nothing is stored on media.
    Read,
    /// To write: anything may be stored.
    Write,
}

/// The sealed word for an offset in bytes.
pub(crate) fn seal_offset(field: Sealed, offset: u64) -> u64 {
    seal(field, (offset >> PAGE_SHIFT) as u32)
}

impl Access {
    pub(crate) fn of(is_read_only: bool) -> Access {
        if is_read_only { Access::Read } else { Access::Write }
    }
}

/// Writes an empty pool into a region. Durable when it returns; interrupted, the region is not
/// a pool, because the first word comes last.
pub(crate) fn format(region: &Region, geometry: Geometry) -> Result<(), Error> {
    geometry.check()?;
    let layout = Layout::new(geometry);
    let chunks = layout.chunks_in(region.size());
    if chunks <= layout.first() {
        let Geometry { chunk_size, node_size } = geometry;
        return Err(Error::BadGeometry { chunk_size, node_size, reason: "no chunk in the region" });
    }
    let sealed = [
        seal(Sealed::Generation, 0),
        seal_offset(Sealed::Size, layout.start(chunks)),
        seal_offset(Sealed::Frontier, layout.start(layout.first())),
    ];
    let _section = region.reserve(SUPERBLOCK_SIZE / LINE + 1)?;
    let added = added_words(Features::default());
    let zeroes = [0; SUPERBLOCK_SIZE as usize - 64 - 24 - 32];
    // ORDER: the words and zeroes are durable before the label that makes them a superblock.
    region.write(
        "pool.format.words",
        SUPERBLOCK + 64,
        &[sealed.as_bytes(), added.as_bytes(), &zeroes],
    )?;
    // ORDER: as above.
    region.fence("pool.format.words.fence");
    let superblock = Superblock::of(region)?;
    let label = label(geometry);
    for (word, bytes) in superblock.label.iter().zip(label.as_bytes().chunks_exact(8)).skip(1) {
        region.store(word, read_word(bytes));
    }
    // ORDER: after all else: the last store of its line, which is whole where the magic is.
    region.commit("pool.format.magic", &superblock.label[0], MAGIC);
    // ORDER: the label is durable before the caller says that there is a pool.
    region.flush("pool.format.label", SUPERBLOCK, 64);
    // ORDER: as above.
    region.fence("pool.format.fence");
    Ok(())
}

/// Reads a superblock without changing anything.
pub(crate) fn check(region: &Region, access: Access) -> Result<Checked, Error> {
    let superblock = Superblock::of(region)?;
    let label = read_label(superblock)?;
    let (version, (features, log)) = (label.version.get(), added(superblock, &label)?);
    refuse_unknown(features, access)?;
    let (chunk_size, node_size) = (label.chunk_size.get(), label.node_size.get());
    let geometry = Geometry { chunk_size, node_size };
    geometry.check()?;
    let layout = Layout::new(geometry);
    let generation = unsealed(Sealed::Generation, "generation", superblock.generation.load())?;
    let size_word = superblock.size.load();
    let size = u64::from(unsealed(Sealed::Size, "size", size_word)?) << PAGE_SHIFT;
    let frontier_word = superblock.frontier.load();
    let frontier = u64::from(unsealed(Sealed::Frontier, "frontier", frontier_word)?) << PAGE_SHIFT;
    if size > region.size() {
        return Err(Error::Truncated { recorded: size, actual: region.size() });
    }
    let is_chunk = |offset: u64| offset.is_multiple_of(layout.chunk_size());
    if !is_chunk(size) || size <= layout.start(layout.first()) {
        return Err(Error::Damaged { field: "size", word: size_word });
    }
    if !is_chunk(frontier) || frontier > size || frontier < layout.start(layout.first()) {
        return Err(Error::Damaged { field: "frontier", word: frontier_word });
    }
    if !log.is_none() && layout.place(log, layout.chunk_of(frontier)).is_err() {
        return Err(Error::Damaged { field: "log", word: superblock.log.load() });
    }
    let generation = generation.into();
    Ok(Checked { geometry, generation, size, frontier, version, features, log })
}

/// Takes a pool over: raises its generation and adopts a region that an interrupted growth left
/// larger than the pool. Durable when it returns.
pub(crate) fn adopt(region: &Region, found: Checked) -> Result<Checked, Error> {
    let layout = Layout::new(found.geometry);
    let next = u32::try_from(found.generation + 1).map_err(|_| Error::GenerationsExhausted)?;
    let size = layout.start(layout.chunks_in(region.size()));
    let _section = region.reserve(1)?;
    let superblock = Superblock::of(region)?;
    if size != found.size {
        // ORDER: the region's own size is durable before the pool's; pmem saw to that.
        region.commit("pool.adopt.size", &superblock.size, seal_offset(Sealed::Size, size));
    }
    // ORDER: the generation is durable before anything that is stored under it.
    region.commit("pool.adopt.generation", &superblock.generation, seal(Sealed::Generation, next));
    // ORDER: as above.
    region.flush("pool.adopt.flush", SUPERBLOCK + 64, 24);
    // ORDER: as above.
    region.fence("pool.adopt.fence");
    region.sync()?;
    Ok(Checked { generation: next.into(), size, ..found })
}

fn label(geometry: Geometry) -> Label {
    let mut label = Label {
        magic: U64::new(MAGIC),
        version: U32::new(VERSION),
        checksum: U32::ZERO,
        features_may: U64::ZERO,
        features_must: U64::ZERO,
        features_read_only: U64::ZERO,
        chunk_size: U32::new(geometry.chunk_size),
        node_size: U32::new(geometry.node_size),
        reserved: [0; 16],
    };
    label.checksum = U32::new(label.computed());
    label
}

/// The label, if it is whole and of a known version.
fn read_label(superblock: &Superblock) -> Result<Label, Error> {
    let mut line = [0; 64];
    for (bytes, word) in line.chunks_exact_mut(8).zip(&superblock.label) {
        bytes.copy_from_slice(&word.load().to_le_bytes());
    }
    let found = read_word(&line[..8]);
    let Ok(label) = Label::read_from_bytes(&line) else {
        return Err(Error::NotAPool { found });
    };
    if found != MAGIC {
        return Err(Error::NotAPool { found });
    }
    let (stored, computed) = (label.checksum.get(), label.computed());
    if stored != computed {
        return Err(Error::Checksum { stored, computed });
    }
    let version = label.version.get();
    if version > VERSION {
        return Err(Error::NewerVersion { found: version, known: VERSION });
    }
    Ok(label)
}

/// The feature bits in force and the log's object. In version 1 only the label has feature bits.
fn added(superblock: &Superblock, label: &Label) -> Result<(Features, Object), Error> {
    let features = Features {
        may: label.features_may.get(),
        must: label.features_must.get(),
        read_only: label.features_read_only.get(),
    };
    if label.version.get() <= VERSION_WITHOUT_TENANTS {
        return Ok((features, Object::NONE));
    }
    let may = unsealed(Sealed::May, "features (may)", superblock.features_may.load())?;
    let must = unsealed(Sealed::Must, "features (must)", superblock.features_must.load())?;
    let read_only = superblock.features_read_only.load();
    let read_only = unsealed(Sealed::ReadOnly, "features (read-only)", read_only)?;
    let word = superblock.log.load();
    let log = unseal_low(LOW_LOG, word).ok_or(Error::Damaged { field: "log", word })?;
    let features = Features {
        may: features.may | u64::from(may),
        must: features.must | u64::from(must),
        read_only: features.read_only | u64::from(read_only),
    };
    Ok((features, Object::from_bits(log)))
}

fn refuse_unknown(features: Features, access: Access) -> Result<(), Error> {
    let must = features.must & !FEATURES_MUST;
    if must != 0 {
        return Err(Error::UnknownFeature { kind: "must", bits: must });
    }
    let read_only = features.read_only & !FEATURES_READ_ONLY;
    if read_only != 0 && access == Access::Write {
        return Err(Error::UnknownFeature { kind: "read-only", bits: read_only });
    }
    Ok(())
}

/// The words that version 2 has added to the first line behind the label.
fn added_words(features: Features) -> [u64; 4] {
    [
        seal(Sealed::May, features.may as u32),
        seal(Sealed::Must, features.must as u32),
        seal(Sealed::ReadOnly, features.read_only as u32),
        seal_low(LOW_LOG, 0),
    ]
}

/// Raises a pool of version 1 to version 2: `table` puts into it what the table of tenants is to hold, and
/// flushes it. The version and the checksum of the label share a word, whose store makes all of
/// it true. Durable with the caller's next fence; lost before that, what the caller has stored is lost with it, because
/// version 1 does not read it.
pub(crate) fn upgrade(
    region: &Region,
    table: impl FnOnce() -> Result<(), Error>,
) -> Result<(), Error> {
    let superblock = Superblock::of(region)?;
    let mut label = read_label(superblock)?;
    if label.version.get() > VERSION_WITHOUT_TENANTS {
        return Ok(());
    }
    let features = added(superblock, &label)?.0;
    let _section = region.reserve(SUPERBLOCK_SIZE / LINE + 2)?;
    let words = added_words(features);
    let fields = [
        &superblock.features_may,
        &superblock.features_must,
        &superblock.features_read_only,
        &superblock.log,
    ];
    for (field, word) in fields.into_iter().zip(words) {
        region.store(field, word);
    }
    // ORDER: what version 2 reads is durable before the label says version 2.
    region.flush("pool.upgrade.words", region.offset_of(&superblock.features_may), 32);
    table()?;
    // ORDER: as above.
    region.fence("pool.upgrade.words.fence");
    label.version = U32::new(VERSION);
    label.checksum = U32::new(label.computed());
    // ORDER: after all that version 2 reads.
    let second = read_word(&label.as_bytes()[8..16]);
    region.commit("pool.upgrade.version", &superblock.label[1], second);
    // ORDER: the version is durable before the caller says that there is what only version 2 reads.
    region.flush("pool.upgrade.flush", SUPERBLOCK, 64);
    Ok(())
}

/// Sets all 32 bits of a mutable feature word by one store; those of the creation stay. Durable when it returns.
pub(crate) fn set_features(region: &Region, set: FeatureSet, bits: u32) -> Result<(), Error> {
    let superblock = Superblock::of(region)?;
    let (word, sealed) = match set {
        FeatureSet::May => (&superblock.features_may, Sealed::May),
        FeatureSet::Must => (&superblock.features_must, Sealed::Must),
        FeatureSet::ReadOnly => (&superblock.features_read_only, Sealed::ReadOnly),
    };
    let _section = region.reserve(1)?;
    // ORDER: the bits are durable before what they announce is stored.
    region.commit("pool.features.set", word, seal(sealed, bits));
    // ORDER: as above.
    region.flush("pool.features.flush", region.offset_of(word), 8);
    // ORDER: as above.
    region.fence("pool.features.fence");
    Ok(())
}

fn unsealed(sealed: Sealed, field: &'static str, word: u64) -> Result<u32, Error> {
    unseal(sealed, word).ok_or(Error::Damaged { field, word })
}

fn read_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
