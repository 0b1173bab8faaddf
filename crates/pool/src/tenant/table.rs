//! The table of tenants on media: one line for each tenant, which counts if its root is not 0.

use tembo_pmem::Region;

use super::entry::{Kind, KnownKind, NewTenant, TenantEntry, TenantFeatures, TenantId};
use crate::format::{
    LOW_TENANT, Superblock, TENANT_COUNT, TENANT_NAME_SIZE_MAX, TenantLine,
    VERSION_WITHOUT_TENANTS, seal_low, tenant_checksum, unseal_low,
};
use crate::geometry::Layout;
use crate::superblock::Checked;
use crate::{Error, Object};

/// The name of the store of a pool of version 1.
const FIRST_NAME: &str = "main";

/// The version of the format of such a store.
const FIRST_VERSION: u32 = 1;

/// The tenants of a pool. A pool of version 1 has no table: if its first root names an object, that is a store.
pub(crate) fn read(region: &Region, found: &Checked) -> Result<Vec<TenantEntry>, Error> {
    let superblock = Superblock::of(region)?;
    if found.version <= VERSION_WITHOUT_TENANTS {
        return Ok(first(superblock).into_iter().collect());
    }
    let layout = Layout::new(found.geometry);
    let frontier = layout.chunk_of(found.frontier);
    let mut entries: Vec<TenantEntry> = Vec::new();
    for (slot, line) in superblock.tenants.iter().enumerate() {
        let Some(entry) = read_line(slot, line)? else { continue };
        if layout.place(entry.root, frontier).is_err() {
            return Err(Error::DamagedTenant { slot, what: "its root cannot lie there" });
        }
        if entries.iter().any(|other| other.name == entry.name) {
            return Err(Error::DamagedTenant { slot, what: "its name is another's too" });
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// The store of a pool of version 1.
fn first(superblock: &Superblock) -> Option<TenantEntry> {
    let root = Object::from_bits(superblock.roots[0].load());
    (!root.is_none()).then(|| TenantEntry {
        id: TenantId(0),
        kind: Kind::STORE,
        name: FIRST_NAME.to_owned(),
        version: FIRST_VERSION,
        features: TenantFeatures::default(),
        root,
    })
}

fn read_line(slot: usize, line: &TenantLine) -> Result<Option<TenantEntry>, Error> {
    let root = line.root.load();
    if root == 0 {
        return Ok(None);
    }
    let damaged = |what| Error::DamagedTenant { slot, what };
    let (kind, version) = (line.kind.load(), line.version.load());
    let name = std::array::from_fn(|word| line.name[word].load());
    let checksum = tenant_checksum(slot, kind, name, version as u32, root);
    if checksum != (version >> 32) as u32 {
        return Err(damaged("its checksum"));
    }
    let features = unseal_low(LOW_TENANT + slot as u8, line.features.load());
    let features = features.ok_or(damaged("the seal of its features"))?;
    let bytes: Vec<u8> = name.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let name = std::str::from_utf8(&bytes[..end]).map_err(|_| damaged("its name is not UTF-8"))?;
    Ok(Some(TenantEntry {
        id: TenantId(slot as u8),
        kind: Kind(kind.to_le_bytes()),
        name: name.to_owned(),
        version: version as u32,
        features: TenantFeatures {
            may: features as u16,
            must: (features >> 16) as u16,
            read_only: (features >> 32) as u16,
        },
        root: Object::from_bits(root),
    }))
}

/// Checks whether a program that knows these formats of the kind can open the tenant, and write beside it.
///
/// # Errors
/// [`Error::UnknownTenant`], [`Error::NewerTenant`], [`Error::UnknownTenantFeature`].
pub(crate) fn admit(
    entry: &TenantEntry,
    known: Option<KnownKind>,
    is_to_write: bool,
) -> Result<(), Error> {
    let (name, kind) = (entry.name.clone(), entry.kind.to_string());
    let Some(known) = known else { return Err(Error::UnknownTenant { kind, name }) };
    if entry.version > known.version {
        let (found, known) = (entry.version, known.version);
        return Err(Error::NewerTenant { kind, name, found, known });
    }
    let must = entry.features.must & !known.features.must;
    if must != 0 {
        return Err(Error::UnknownTenantFeature { name, kind: "must", bits: must.into() });
    }
    let read_only = entry.features.read_only & !known.features.read_only;
    if read_only != 0 && is_to_write {
        return Err(Error::UnknownTenantFeature {
            name,
            kind: "read-only",
            bits: read_only.into(),
        });
    }
    Ok(())
}

/// The words of a tenant's line.
fn words(slot: usize, new: &NewTenant<'_>, root: Object) -> [u64; 8] {
    let mut name = [[0; 8]; TENANT_NAME_SIZE_MAX / 8];
    name.as_flattened_mut()[..new.name.len()].copy_from_slice(new.name.as_bytes());
    let name = name.map(u64::from_le_bytes);
    let (kind, root) = (u64::from_le_bytes(new.kind.0), root.to_bits());
    let checksum = tenant_checksum(slot, kind, name, new.version, root);
    let version = u64::from(checksum) << 32 | u64::from(new.version);
    let features = seal_low(LOW_TENANT + slot as u8, bits(new.features));
    [kind, name[0], name[1], name[2], name[3], version, features, root]
}

fn bits(features: TenantFeatures) -> u64 {
    let TenantFeatures { may, must, read_only } = features;
    u64::from(may) | u64::from(must) << 16 | u64::from(read_only) << 32
}

/// The place for a tenant of that name.
///
/// # Errors
/// [`Error::TenantName`], [`Error::TenantExists`], [`Error::TooManyTenants`].
pub(crate) fn place(entries: &[TenantEntry], name: &str) -> Result<TenantId, Error> {
    if !(1..=TENANT_NAME_SIZE_MAX).contains(&name.len()) || name.contains('\0') {
        return Err(Error::TenantName { size: name.len() });
    }
    if entries.iter().any(|entry| entry.name == name) {
        return Err(Error::TenantExists { name: name.to_owned() });
    }
    let is_free = |slot: &u8| !entries.iter().any(|entry| entry.id.0 == *slot);
    let free = (0..TENANT_COUNT as u8).find(is_free);
    free.map(TenantId).ok_or(Error::TooManyTenants { max: TENANT_COUNT })
}

/// Adds a tenant to the table. Its root's content has been flushed. Durable when it returns; if it is interrupted, the tenant
/// is there or not.
pub(crate) fn add(
    region: &Region,
    id: TenantId,
    new: &NewTenant<'_>,
    root: Object,
) -> Result<(), Error> {
    let line = &Superblock::of(region)?.tenants[usize::from(id.0)];
    let words = words(id.0.into(), new, root);
    // ORDER: what the root leads to, flushed by its maker, is durable before the line names the root.
    region.fence("pool.tenant.content");
    region.store(&line.kind, words[0]);
    for (word, value) in line.name.iter().zip(&words[1..5]) {
        region.store(word, *value);
    }
    region.store(&line.version, words[5]);
    region.store(&line.features, words[6]);
    // ORDER: after the rest of its line, which is whole where the root is, and after the content, as above.
    region.commit("pool.tenant.publish", &line.root, words[7]);
    // ORDER: the line is durable before the caller says that there is a tenant.
    region.flush("pool.tenant.flush", region.offset_of(&line.kind), 64);
    // ORDER: as above.
    region.fence("pool.tenant.fence");
    Ok(())
}

/// Writes the table of a pool that had none: its store, if it has one. Durable after the next fence.
pub(crate) fn write_first(region: &Region) -> Result<(), Error> {
    let superblock = Superblock::of(region)?;
    let mut table = [0; TENANT_COUNT * 8];
    if let Some(entry) = first(superblock) {
        let TenantEntry { kind, name, version, features, root, .. } = &entry;
        let (kind, version, features) = (*kind, *version, *features);
        let new = NewTenant { kind, name, version, features };
        table[..8].copy_from_slice(&words(0, &new, *root));
    }
    let at = region.offset_of(&superblock.tenants[0].kind);
    let bytes: Vec<u8> = table.iter().flat_map(|word| word.to_le_bytes()).collect();
    // ORDER: the table is durable before the label says that there is one.
    region.write("pool.upgrade.table", at, &[&bytes])?;
    Ok(())
}

/// Sets the feature bits of a tenant by one store. Durable when it returns.
pub(crate) fn set_features(
    region: &Region,
    id: TenantId,
    features: TenantFeatures,
) -> Result<(), Error> {
    let line = &Superblock::of(region)?.tenants[usize::from(id.0)];
    let _section = region.reserve(1)?;
    // ORDER: the bits are durable before what they announce is stored.
    region.commit(
        "pool.tenant.features",
        &line.features,
        seal_low(LOW_TENANT + id.0, bits(features)),
    );
    // ORDER: as above.
    region.flush("pool.tenant.features.flush", region.offset_of(&line.features), 8);
    // ORDER: as above.
    region.fence("pool.tenant.features.fence");
    Ok(())
}
