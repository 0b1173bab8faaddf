//! Writing and checking a superblock.

use tembo_pmem::{LINE, Region};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::format::{
    FEATURES_MUST, FEATURES_READ_ONLY, Label, MAGIC, SUPERBLOCK, SUPERBLOCK_SIZE, Sealed,
    Superblock, VERSION, seal, unseal,
};
use crate::geometry::Layout;
use crate::{Error, Geometry};

/// The unit of sealed sizes, in bits of an offset: 4 KiB.
const PAGE_SHIFT: u32 = 12;

/// What a superblock says, checked.
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
}

/// The superblock of a region, unchecked.
pub(crate) fn of(region: &Region) -> Result<&Superblock, Error> {
    Ok(region.get::<Superblock>(SUPERBLOCK)?)
}

/// The sealed word for an offset in bytes.
pub(crate) fn seal_offset(field: Sealed, offset: u64) -> u64 {
    seal(field, (offset >> PAGE_SHIFT) as u32)
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
    let zeroes = [0; SUPERBLOCK_SIZE as usize - 64 - 24];
    // ORDER: the words and zeroes are durable before the label that makes them a superblock.
    region.write("pool.format.words", SUPERBLOCK + 64, &[sealed.as_bytes(), &zeroes])?;
    // ORDER: as above.
    region.fence("pool.format.words.fence");
    let superblock = of(region)?;
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
pub(crate) fn check(region: &Region) -> Result<Checked, Error> {
    let superblock = of(region)?;
    let mut line = [0; 64];
    for (bytes, word) in line.chunks_exact_mut(8).zip(&superblock.label) {
        bytes.copy_from_slice(&word.load().to_le_bytes());
    }
    let geometry = check_label(&line)?;
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
    Ok(Checked { geometry, generation: generation.into(), size, frontier })
}

/// Takes a pool over: raises its generation and adopts a region that an interrupted growth left
/// larger than the pool. Durable when it returns.
pub(crate) fn adopt(region: &Region) -> Result<Checked, Error> {
    let found = check(region)?;
    let layout = Layout::new(found.geometry);
    let next = u32::try_from(found.generation + 1).map_err(|_| Error::GenerationsExhausted)?;
    let size = layout.start(layout.chunks_in(region.size()));
    let _section = region.reserve(1)?;
    let superblock = of(region)?;
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

fn check_label(line: &[u8; 64]) -> Result<Geometry, Error> {
    let found = read_word(&line[..8]);
    let Ok(label) = Label::read_from_bytes(line) else {
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
    for (kind, bits) in [
        ("must", label.features_must.get() & !FEATURES_MUST),
        ("read-only", label.features_read_only.get() & !FEATURES_READ_ONLY),
    ] {
        if bits != 0 {
            return Err(Error::UnknownFeature { kind, bits });
        }
    }
    let (chunk_size, node_size) = (label.chunk_size.get(), label.node_size.get());
    let geometry = Geometry { chunk_size, node_size };
    geometry.check()?;
    Ok(geometry)
}

fn unsealed(sealed: Sealed, field: &'static str, word: u64) -> Result<u32, Error> {
    unseal(sealed, word).ok_or(Error::Damaged { field, word })
}

fn read_word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
