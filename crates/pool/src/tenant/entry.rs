//! The entries of the table of tenants.

use crate::Object;

/// The kind of structure that a tenant is: up to eight bytes of ASCII.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub(crate) [u8; 8]);

impl Kind {
    /// A store of `tembo-kv`.
    pub const STORE: Kind = Kind::new("store");

    /// The kind of that name: its first eight bytes.
    pub const fn new(name: &str) -> Kind {
        let (name, mut bytes) = (name.as_bytes(), [0; 8]);
        let mut at = 0;
        while at < name.len() && at < bytes.len() {
            bytes[at] = name[at];
            at += 1;
        }
        Kind(bytes)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        self.0[..end].escape_ascii().fmt(f)
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kind({self})")
    }
}

/// The place of a tenant in its pool. It does not change while the pool lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(pub(crate) u8);

/// Feature bits of a tenant's format, 16 of each set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantFeatures {
    /// May be ignored when unknown.
    pub may: u16,
    /// Forbid opening the tenant, and writing the pool, when unknown.
    pub must: u16,
    /// Forbid writing the pool when unknown.
    pub read_only: u16,
}

/// A kind with the formats of it that a program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownKind {
    /// The kind.
    pub kind: Kind,
    /// The newest version of its format that can be opened.
    pub version: u32,
    /// The feature bits that are known.
    pub features: TenantFeatures,
}

/// A tenant as the superblock names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantEntry {
    /// Its place.
    pub id: TenantId,
    /// Its kind.
    pub kind: Kind,
    /// 1 to 32 bytes, different from those of the pool's other tenants.
    pub name: String,
    /// The version of its format.
    pub version: u32,
    /// The feature bits of its format.
    pub features: TenantFeatures,
    /// Its root object.
    pub root: Object,
}

/// A tenant to be added to a pool.
#[derive(Clone, Copy, Debug)]
pub struct NewTenant<'n> {
    /// Its kind.
    pub kind: Kind,
    /// 1 to 32 bytes, different from those of the pool's other tenants.
    pub name: &'n str,
    /// The version of its format.
    pub version: u32,
    /// The feature bits of its format.
    pub features: TenantFeatures,
}
