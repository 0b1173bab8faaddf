//! When a resource of the modelled machine is busy.

use std::collections::BTreeMap;

/// A resource that serves one request at a time. Requests may come out of the order of their times: each gets the first gap
/// that is long enough.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    /// Busy spans, by their begin: none touches another.
    spans: BTreeMap<u64, u64>,
}

impl Calendar {
    /// Takes `len_ns` at `from_ns` or later; when it ends.
    pub(crate) fn reserve(&mut self, from_ns: u64, len_ns: u64) -> u64 {
        if len_ns == 0 {
            return from_ns;
        }
        let before = self.spans.range(..=from_ns).next_back().map(|(_, end)| *end);
        let mut start = from_ns.max(before.unwrap_or(0));
        for (begin, end) in self.spans.range(start..) {
            if start + len_ns <= *begin {
                break;
            }
            start = *end;
        }
        let mut span = (start, start + len_ns);
        if let Some((&begin, &end)) = self.spans.range(..=start).next_back()
            && end == start
        {
            span.0 = begin;
        }
        if let Some(end) = self.spans.remove(&span.1) {
            span.1 = end;
        }
        self.spans.insert(span.0, span.1);
        start + len_ns
    }

    /// No request comes that begins before that time.
    pub(crate) fn forget_before(&mut self, time_ns: u64) {
        while let Some(first) = self.spans.first_entry()
            && *first.get() < time_ns
        {
            first.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_the_first_gap_that_is_long_enough() {
        let mut calendar = Calendar::default();
        assert_eq!(calendar.reserve(100, 50), 150);
        assert_eq!(calendar.reserve(120, 10), 160);
        assert_eq!(calendar.reserve(0, 60), 60);
        assert_eq!(calendar.reserve(10, 40), 100);
        assert_eq!(calendar.reserve(0, 1), 161);
        assert_eq!(calendar.spans.len(), 1);
        calendar.forget_before(200);
        assert_eq!(calendar.reserve(200, 5), 205);
    }
}
