//! Extended attributes. Two of them are access control lists.

use std::borrow::Cow;

use crate::Error;
use crate::access::{Reads, Writes};
use crate::access_list::{self, ListKind};
use crate::bounds::{ATTRIBUTE_NAME_LEN_MAX, ATTRIBUTE_SIZE_MAX};
use crate::records::{Changing, Records};

/// Whether an attribute may, or has to, be there before it is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Either.
    #[default]
    Any,
    /// It may not.
    Create,
    /// It has to.
    Replace,
}

fn check_name(inode: u64, name: &[u8]) -> Result<(), Error> {
    if name.len() > ATTRIBUTE_NAME_LEN_MAX {
        return Err(Error::NameTooLong { len: name.len(), max: ATTRIBUTE_NAME_LEN_MAX });
    }
    if name.is_empty() || name.contains(&0) {
        return Err(Error::Invalid { inode, what: "no name of an attribute" });
    }
    Ok(())
}

fn missing(inode: u64, name: &[u8]) -> Error {
    Error::NoSuchAttribute { inode, name: name.to_vec() }
}

pub(crate) fn get<A: Reads>(
    records: &mut Records<A>,
    inode: u64,
    name: &[u8],
) -> Result<Vec<u8>, Error> {
    check_name(inode, name)?;
    records.inode(inode)?;
    records.attribute(inode, name)?.ok_or_else(|| missing(inode, name))
}

pub(crate) fn set<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    number: u64,
    (name, value): (&[u8], &[u8]),
    condition: Condition,
) -> Result<(), Error> {
    check_name(number, name)?;
    if value.len() > ATTRIBUTE_SIZE_MAX {
        return Err(Error::AttributeTooLong { size: value.len(), max: ATTRIBUTE_SIZE_MAX });
    }
    let mut inode = records.inode(number)?;
    let is_there = records.attribute(number, name)?.is_some();
    match condition {
        Condition::Create if is_there => {
            return Err(Error::AttributeExists { inode: number, name: name.to_vec() });
        }
        Condition::Replace if !is_there => return Err(missing(number, name)),
        _ => {}
    }
    let kept = match ListKind::of(name) {
        None => Some(Cow::Borrowed(value)),
        Some(kind) => access_list::apply(&mut inode, kind, value)?.map(Cow::Owned),
    };
    changing.is_broken = true;
    let others = inode.attributes.saturating_sub(u32::from(is_there));
    inode.attributes = others + u32::from(kept.is_some());
    inode.changed = changing.now;
    match kept {
        Some(value) => records.put_attribute(number, name, &value)?,
        None if is_there => records.remove_attribute(number, name)?,
        None => {}
    }
    records.put_inode(&inode)?;
    changing.is_broken = false;
    Ok(())
}

pub(crate) fn remove<A: Writes>(
    records: &mut Records<A>,
    changing: &mut Changing<'_>,
    number: u64,
    name: &[u8],
) -> Result<(), Error> {
    check_name(number, name)?;
    let mut inode = records.inode(number)?;
    if records.attribute(number, name)?.is_none() {
        return Err(missing(number, name));
    }
    changing.is_broken = true;
    inode.attributes = inode.attributes.saturating_sub(1);
    inode.changed = changing.now;
    records.remove_attribute(number, name)?;
    records.put_inode(&inode)?;
    changing.is_broken = false;
    Ok(())
}
