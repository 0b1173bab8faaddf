//! The handles of the store through which a file system is read and changed, as one.

use std::ops::Bound;

use tembo_kv::{Direction, Error, Exclusive, Keyspace, Snapshot, Store, Transaction, Value};

/// Gets the value under a key, or that there is none.
pub(crate) type With<'w> = dyn FnMut(Option<Value<'_>>) + 'w;

/// Gets keys and values, until it returns false.
pub(crate) type Visit<'v> = dyn FnMut(&[u8], Value<'_>) -> bool + 'v;

/// From here to there.
pub(crate) type Bounds<'b> = (Bound<&'b [u8]>, Bound<&'b [u8]>);

/// A handle that reads: a snapshot, a transaction, an exclusive writer.
pub trait Reads {
    /// Calls `with` once, with the value under the key.
    #[doc(hidden)]
    fn get_at(&mut self, space: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error>;

    /// Visits a range of keys.
    #[doc(hidden)]
    fn visit(
        &mut self,
        space: Keyspace,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error>;
}

/// A handle that writes too.
pub trait Writes: Reads {
    /// Puts a value.
    #[doc(hidden)]
    fn set(&mut self, space: Keyspace, key: &[u8], value: &[u8]) -> Result<(), Error>;

    /// Puts values, each under its key.
    #[doc(hidden)]
    fn set_all(&mut self, space: Keyspace, puts: &[(&[u8], &[u8])]) -> Result<(), Error> {
        puts.iter().try_for_each(|(key, value)| self.set(space, key, value))
    }

    /// Removes a key.
    #[doc(hidden)]
    fn unset(&mut self, space: Keyspace, key: &[u8]) -> Result<(), Error>;

    /// Removes a range of keys, whatever their number.
    #[doc(hidden)]
    fn unset_range(&mut self, space: Keyspace, bounds: Bounds<'_>) -> Result<(), Error>;
}

impl Reads for &Snapshot {
    fn get_at(&mut self, space: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        with(self.get(space, key)?);
        Ok(())
    }

    fn visit(
        &mut self,
        space: Keyspace,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        self.range_with::<[u8]>(space, bounds, direction, visit)
    }
}

/// What is visible in a store at each call: two calls may see different versions.
pub(crate) struct Latest<'s>(pub(crate) &'s Store);

impl Reads for Latest<'_> {
    fn get_at(&mut self, space: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        self.0.get_with(space, key, with)
    }

    fn visit(
        &mut self,
        space: Keyspace,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        self.0.snapshot()?.range_with::<[u8]>(space, bounds, direction, visit)
    }
}

impl Reads for Snapshot {
    fn get_at(&mut self, space: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        (&*self).get_at(space, key, with)
    }

    fn visit(
        &mut self,
        space: Keyspace,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        (&*self).visit(space, bounds, direction, visit)
    }
}

impl<R: Reads + ?Sized> Reads for &mut R {
    fn get_at(&mut self, space: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        (**self).get_at(space, key, with)
    }

    fn visit(
        &mut self,
        space: Keyspace,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        (**self).visit(space, bounds, direction, visit)
    }
}

impl<W: Writes + ?Sized> Writes for &mut W {
    fn set(&mut self, space: Keyspace, key: &[u8], value: &[u8]) -> Result<(), Error> {
        (**self).set(space, key, value)
    }

    fn set_all(&mut self, space: Keyspace, puts: &[(&[u8], &[u8])]) -> Result<(), Error> {
        (**self).set_all(space, puts)
    }

    fn unset(&mut self, space: Keyspace, key: &[u8]) -> Result<(), Error> {
        (**self).unset(space, key)
    }

    fn unset_range(&mut self, space: Keyspace, bounds: Bounds<'_>) -> Result<(), Error> {
        (**self).unset_range(space, bounds)
    }
}

impl Reads for Exclusive {
    fn get_at(&mut self, space: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        with(self.get(space, key)?);
        Ok(())
    }

    fn visit(
        &mut self,
        space: Keyspace,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        self.range_with::<[u8]>(space, bounds, direction, visit)
    }
}

impl Writes for Exclusive {
    fn set(&mut self, space: Keyspace, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.put(space, key, value).map(drop)
    }

    fn set_all(&mut self, space: Keyspace, puts: &[(&[u8], &[u8])]) -> Result<(), Error> {
        self.put_all(space, puts)
    }

    fn unset(&mut self, space: Keyspace, key: &[u8]) -> Result<(), Error> {
        self.remove(space, key).map(drop)
    }

    fn unset_range(&mut self, space: Keyspace, bounds: Bounds<'_>) -> Result<(), Error> {
        self.remove_range::<[u8]>(space, bounds)
    }
}

impl Reads for Transaction {
    fn get_at(&mut self, space: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        let value = self.get(space, key)?;
        with(value.as_deref().map(Value::from));
        Ok(())
    }

    fn visit(
        &mut self,
        space: Keyspace,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        self.range_with::<[u8]>(space, bounds, direction, visit)
    }
}

impl Writes for Transaction {
    fn set(&mut self, space: Keyspace, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.put(space, key, value)
    }

    fn unset(&mut self, space: Keyspace, key: &[u8]) -> Result<(), Error> {
        self.remove(space, key)
    }

    fn unset_range(&mut self, space: Keyspace, bounds: Bounds<'_>) -> Result<(), Error> {
        self.remove_range::<[u8]>(space, bounds)
    }
}
