//! Objects of many values, of which the number is fixed when they are made.

use std::marker::PhantomData;

use crate::persist::{Object, Persist};
use crate::shape::{Shape, hash, mix};
use crate::types::{TypeInfo, mark};

/// An object of cells, each of which is empty or holds a `T`; which, its owner knows. What [`PVec`](crate::PVec) and its like are made of.
pub struct Slice<T>(PhantomData<fn(T) -> T>);

impl<'h, T: Persist<'h>> Object<'h> for Slice<T> {
    const OBJECT: u64 = mix(hash(0, "Slice"), T::NAME);
    const MARK: u64 = mark(mix(Self::OBJECT, 0), mix(hash(0, "Slice"), T::LAYOUT), 1);

    fn object_name() -> String {
        format!("Slice<{}>", T::name())
    }

    fn info() -> TypeInfo {
        TypeInfo {
            name_hash: Self::OBJECT,
            version: 0,
            layout: mix(hash(0, "Slice"), T::LAYOUT),
            words: 1,
            name: Self::object_name,
            shape: || Shape::Slice(Box::new(T::shape())),
        }
    }
}

/// An object of bytes, of which the number is fixed when it is made.
pub struct Bytes(());

impl Object<'_> for Bytes {
    const OBJECT: u64 = hash(0, "Bytes");
    const MARK: u64 = mark(mix(Self::OBJECT, 0), 0, 1);

    fn object_name() -> String {
        "Bytes".to_owned()
    }

    fn info() -> TypeInfo {
        let name = Self::object_name;
        TypeInfo {
            name_hash: Self::OBJECT,
            version: 0,
            layout: 0,
            words: 1,
            name,
            shape: || Shape::Bytes,
        }
    }
}
