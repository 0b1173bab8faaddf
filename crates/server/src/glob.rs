//! Glob patterns as KEYS, SCAN and CONFIG GET take them: `*`, `?`, `[a-z]`, `[^a]`, `\x`.

/// Whether the whole of `text` matches `pattern`. Takes at most |pattern| × |text| steps.
pub(crate) fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut at, mut seen) = (0, 0);
    // Where to take up again when what follows the last star does not match: the star may eat one more.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if at < pattern.len() && pattern[at] == b'*' {
            at += 1;
            star = Some((at, seen));
            continue;
        }
        if seen == text.len() {
            return at == pattern.len();
        }
        if at < pattern.len()
            && let Some(next) = match_one(pattern, at, text[seen], ignore_case)
        {
            at = next;
            seen += 1;
            continue;
        }
        match star {
            Some((after, from)) => {
                at = after;
                seen = from + 1;
                star = Some((after, from + 1));
            }
            None => return false,
        }
    }
}

/// Matches one byte against the element at `at`; the position behind the element if it matches.
fn match_one(pattern: &[u8], at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    match pattern[at] {
        b'?' => Some(at + 1),
        b'[' => match_class(pattern, at + 1, byte, ignore_case),
        b'\\' if at + 1 < pattern.len() => (fold(pattern[at + 1]) == fold(byte)).then_some(at + 2),
        literal => (fold(literal) == fold(byte)).then_some(at + 1),
    }
}

/// Matches one byte against the class whose first byte is at `at`.
fn match_class(pattern: &[u8], mut at: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    while at < pattern.len() && pattern[at] != b']' {
        if pattern[at] == b'\\' && at + 1 < pattern.len() {
            at += 1;
            found |= fold(pattern[at]) == fold(byte);
        } else if at + 2 < pattern.len() && pattern[at + 1] == b'-' {
            let (low, high) = (fold(pattern[at]), fold(pattern[at + 2]));
            found |= (low.min(high)..=low.max(high)).contains(&fold(byte));
            at += 2;
        } else {
            found |= fold(pattern[at]) == fold(byte);
        }
        at += 1;
    }
    // A class that is never closed ends with the pattern.
    (found != negated).then_some((at + 1).min(pattern.len()))
}

/// The bytes every match begins with.
pub(crate) fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    &pattern[..pattern.iter().position(special).unwrap_or(pattern.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a[", "a[", false),
            ("", "", true),
            ("", "a", false),
            ("*a*b*", "xxaxxbxx", true),
            ("**", "", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes(), false),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(matches(b"MAX*", b"maxclients", true));
    }

    #[test]
    fn a_hostile_pattern_ends_soon() {
        let pattern = b"a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b".as_slice();
        assert!(!matches(pattern, &[b'a'; 10_000], false));
    }

    #[test]
    fn prefixes() {
        assert_eq!(literal_prefix(b"user:*"), b"user:");
        assert_eq!(literal_prefix(b"plain"), b"plain");
        assert_eq!(literal_prefix(b"[ab]"), b"");
    }
}
