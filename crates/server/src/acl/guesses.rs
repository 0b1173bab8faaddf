//! Wrong passwords, by the address that they come from: an address that guesses is slowed down.
//!
//! Of IPv6 a network of 64 bits counts as one address, since one host may have all of it.
//!
//! After [`FREE`] wrong passwords from an address, each further attempt from there is looked at only after a delay, be it
//! right or wrong, so that its end discloses nothing early; it doubles with each wrong password up to [`DELAY_MS`]. At most
//! [`HELD_MAX`] attempts of an address are delayed at a time, others are refused. So an address has so many guesses a
//! second, whatever the number of its connections, and a client with the right password is let in a second late. A minute
//! without a wrong password forgets an address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Wrong passwords that cost nothing.
const FREE: u32 = 10;
/// The first delay, and the longest.
const DELAY_MS: (u64, u64) = (50, 1000);
/// Attempts of one address that are delayed at a time.
const HELD_MAX: u32 = 16;
/// An address is forgotten after so long without a wrong password.
const FORGOTTEN_MS: u64 = 60_000;
/// Addresses that are remembered: more of them are one.
const ADDRESSES_MAX: usize = 4096;

/// What an address has guessed.
#[derive(Clone, Copy, Default)]
struct Guesser {
    wrong: u32,
    last_ms: u64,
    held: u32,
}

/// What becomes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It is looked at.
    Now,
    /// It is looked at after so many milliseconds.
    After(u64),
    /// It is refused.
    Refused,
}

/// Wrong passwords, by address; `None` is the machine itself, by a Unix socket.
#[derive(Default)]
pub(crate) struct Guesses(HashMap<Option<IpAddr>, Guesser>);

/// The address that stands for all when too many are remembered.
const OTHERS: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::BROADCAST));

impl Guesses {
    /// What becomes of an attempt from there. One that is delayed is to be [released](Guesses::release).
    pub(crate) fn attempt(&mut self, from: Option<IpAddr>, now_ms: u64) -> Attempt {
        let from = network(from);
        let Some(guesser) = self.0.get_mut(&from) else { return Attempt::Now };
        if guesser.held == 0 && now_ms.saturating_sub(guesser.last_ms) > FORGOTTEN_MS {
            self.0.remove(&from);
            return Attempt::Now;
        }
        if guesser.wrong < FREE {
            return Attempt::Now;
        }
        if guesser.held >= HELD_MAX {
            return Attempt::Refused;
        }
        guesser.held += 1;
        let doublings = (guesser.wrong - FREE).min(16);
        Attempt::After((DELAY_MS.0 << doublings).min(DELAY_MS.1))
    }

    /// A delayed attempt is looked at, or its client has gone.
    pub(crate) fn release(&mut self, from: Option<IpAddr>) {
        if let Some(guesser) = self.0.get_mut(&network(from)) {
            guesser.held = guesser.held.saturating_sub(1);
        }
    }

    /// A password was wrong.
    pub(crate) fn note_wrong(&mut self, from: Option<IpAddr>, now_ms: u64) {
        let from = network(from);
        if self.0.len() >= ADDRESSES_MAX && !self.0.contains_key(&from) {
            self.0.retain(|_, one| {
                one.held > 0 || now_ms.saturating_sub(one.last_ms) <= FORGOTTEN_MS
            });
        }
        let is_known = self.0.len() < ADDRESSES_MAX || self.0.contains_key(&from);
        let guesser = self.0.entry(if is_known { from } else { OTHERS }).or_default();
        if now_ms.saturating_sub(guesser.last_ms) > FORGOTTEN_MS {
            guesser.wrong = 0;
        }
        guesser.wrong += 1;
        guesser.last_ms = now_ms;
    }
}

/// What counts as one address.
fn network(from: Option<IpAddr>) -> Option<IpAddr> {
    from.map(|address| match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (!0 << 64))),
        address => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_guesses_is_slowed_and_others_are_not() {
        let mut guesses = Guesses::default();
        let (one, other) = (Some(IpAddr::from([10, 0, 0, 1])), Some(IpAddr::from([10, 0, 0, 2])));
        for _ in 0..FREE {
            assert_eq!(guesses.attempt(one, 5), Attempt::Now);
            guesses.note_wrong(one, 5);
        }
        assert_eq!(guesses.attempt(one, 6), Attempt::After(50));
        guesses.release(one);
        guesses.note_wrong(one, 7);
        assert_eq!(guesses.attempt(one, 8), Attempt::After(100));
        for _ in 1..HELD_MAX {
            assert!(matches!(guesses.attempt(one, 8), Attempt::After(100)));
        }
        assert_eq!(guesses.attempt(one, 8), Attempt::Refused);
        assert_eq!(guesses.attempt(other, 8), Attempt::Now);
        (0..HELD_MAX).for_each(|_| guesses.release(one));
        (0..50).for_each(|_| guesses.note_wrong(one, 9));
        assert_eq!(guesses.attempt(one, 10), Attempt::After(1000));
        guesses.release(one);
        assert_eq!(guesses.attempt(one, 9 + FORGOTTEN_MS + 1), Attempt::Now);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let mut guesses = Guesses::default();
        let host = |host: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, host]));
        (0..FREE as u16).for_each(|at| guesses.note_wrong(host(at), 5));
        assert_eq!(guesses.attempt(host(1000), 6), Attempt::After(50));
        guesses.release(host(1001));
        let other = Some(IpAddr::from([0x2001, 0xdb8, 0, 8, 0, 0, 0, 1]));
        assert_eq!(guesses.attempt(other, 6), Attempt::Now);
    }

    #[test]
    fn addresses_are_remembered_up_to_a_number() {
        let mut guesses = Guesses::default();
        for at in 0..2 * ADDRESSES_MAX as u32 {
            guesses.note_wrong(Some(IpAddr::from(at.to_be_bytes())), 1);
        }
        assert!(guesses.0.len() <= ADDRESSES_MAX + 1);
        assert_eq!(guesses.attempt(Some(IpAddr::from([0, 0, 0, 1])), 1), Attempt::Now);
    }
}
