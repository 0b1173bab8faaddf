//! All connections, by slot.

use crate::connection::Connection;
use crate::token::Token;

#[derive(Default)]
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

/// All connections; the one whose command is executed is taken out meanwhile.
#[derive(Default)]
pub(crate) struct Clients {
    slots: Vec<Slot>,
    free: Vec<u32>,
    count: usize,
    /// How often a command has committed what the turn had written before it: see [`Connection::begin_turn`].
    pub(crate) early_commits: u64,
}

impl Clients {
    /// How many are connected, the one taken out included.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Takes in a connection.
    pub(crate) fn insert(&mut self, mut connection: Box<Connection>) -> Token {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        self.count += 1;
        let place = &mut self.slots[slot as usize];
        let token = Token { slot, generation: place.generation };
        connection.session.token = token;
        place.connection = Some(connection);
        token
    }

    /// The connection, unless it is taken out.
    #[inline]
    pub(crate) fn get(&self, token: Token) -> Option<&Connection> {
        let slot = self.slots.get(token.slot as usize)?;
        if slot.generation != token.generation {
            return None;
        }
        slot.connection.as_deref()
    }

    /// The connection, unless it is taken out.
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Connection> {
        let slot = self.slots.get_mut(token.slot as usize)?;
        if slot.generation != token.generation {
            return None;
        }
        slot.connection.as_deref_mut()
    }

    /// Takes the connection out, to execute its commands; give it back or discard it.
    #[inline]
    pub(crate) fn take(&mut self, token: Token) -> Option<Box<Connection>> {
        let slot = self.slots.get_mut(token.slot as usize)?;
        if slot.generation != token.generation {
            return None;
        }
        slot.connection.take()
    }

    /// Gives a connection back.
    #[inline]
    pub(crate) fn give_back(&mut self, token: Token, connection: Box<Connection>) {
        if let Some(slot) = self.slots.get_mut(token.slot as usize) {
            slot.connection = Some(connection);
        }
    }

    /// The slot of a connection that was taken out and has ended.
    pub(crate) fn discard(&mut self, token: Token) {
        if let Some(slot) = self.slots.get_mut(token.slot as usize) {
            slot.generation = (slot.generation + 1) & 0x7fff_ffff;
            self.free.push(token.slot);
            self.count -= 1;
        }
    }

    /// All but the one taken out.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().filter_map(|slot| slot.connection.as_deref())
    }

    /// All but the one taken out.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Token, &mut Connection)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let token = Token { slot: index as u32, generation: slot.generation };
            Some((token, slot.connection.as_deref_mut()?))
        })
    }
}
