//! LATENCY: the last times that an event took as long as `latency-monitor-threshold`.

use std::collections::VecDeque;

/// Times that are kept of an event.
const KEPT_MAX: usize = 160;

/// What can take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A command.
    Command,
    /// A command that takes constant or logarithmic time.
    FastCommand,
    /// Keys that are due are removed.
    ExpireCycle,
}

impl Event {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Event; 3] = [Event::Command, Event::FastCommand, Event::ExpireCycle];

    /// Its name, as clients give it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Event::Command => "command",
            Event::FastCommand => "fast-command",
            Event::ExpireCycle => "expire-cycle",
        }
    }

    /// The event of that name.
    pub(crate) fn named(name: &[u8]) -> Option<Event> {
        Event::ALL.into_iter().find(|event| event.name().as_bytes() == name)
    }
}

/// The times of one event: second since 1970, milliseconds.
#[derive(Default)]
struct Series {
    times: VecDeque<(u64, u64)>,
    max_ms: u64,
}

/// The times of all events.
#[derive(Default)]
pub(crate) struct LatencyEvents([Series; 3]);

impl LatencyEvents {
    /// An event has taken `took_ms`; of one second the longest is kept.
    pub(crate) fn add(&mut self, event: Event, at_s: u64, took_ms: u64) {
        let series = &mut self.0[event as usize];
        series.max_ms = series.max_ms.max(took_ms);
        match series.times.back_mut() {
            Some(last) if last.0 == at_s => last.1 = last.1.max(took_ms),
            _ => series.times.push_back((at_s, took_ms)),
        }
        if series.times.len() > KEPT_MAX {
            series.times.pop_front();
        }
    }

    /// The times of an event, oldest first.
    pub(crate) fn of(&self, event: Event) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.0[event as usize].times.iter().copied()
    }

    /// Events that have times: the last one, and the longest of all.
    pub(crate) fn latest(&self) -> Vec<(Event, (u64, u64), u64)> {
        let of = |event: Event| {
            let series = &self.0[event as usize];
            Some((event, *series.times.back()?, series.max_ms))
        };
        Event::ALL.into_iter().filter_map(of).collect()
    }

    /// Forgets the times of an event; whether there were any.
    pub(crate) fn reset(&mut self, event: Event) -> bool {
        !std::mem::take(&mut self.0[event as usize]).times.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_one_second_the_longest_is_kept() {
        let mut events = LatencyEvents::default();
        for (at_s, took_ms) in [(10, 5), (10, 9), (10, 7), (11, 6)] {
            events.add(Event::Command, at_s, took_ms);
        }
        assert_eq!(events.of(Event::Command).collect::<Vec<_>>(), [(10, 9), (11, 6)]);
        assert_eq!(events.latest(), [(Event::Command, (11, 6), 9)]);
        (0..1000).for_each(|at_s| events.add(Event::ExpireCycle, at_s, 1));
        assert_eq!(events.of(Event::ExpireCycle).len(), KEPT_MAX);
        assert!(events.reset(Event::Command) && !events.reset(Event::Command));
        for (number, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(
                (event as usize, Event::named(event.name().as_bytes())),
                (number, Some(event))
            );
        }
    }
}
