//! A request of HTTP, as far as it matters here: method and path.

/// Longest request.
const SIZE_MAX: usize = 8 << 10;

/// What a client has sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// The empty line is still to come.
    Incomplete,
    /// A resource.
    Get {
        /// Its path, without a query.
        path: &'a str,
        /// Only the head of the response is asked for.
        is_head: bool,
    },
    /// Another method.
    OtherMethod,
    /// It is no request of HTTP/1.
    Malformed,
    /// It is longer than a request may be.
    Long,
}

/// Reads a request. What its header says makes no difference, and a body is not read: each connection has one request.
pub(super) fn parse(input: &[u8]) -> Request<'_> {
    let end = input.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let is_whole = end.is_some_and(|end| end <= SIZE_MAX);
    if !is_whole {
        // What begins otherwise is no request, however long it gets.
        let is_text = input.iter().take(3).all(u8::is_ascii_uppercase);
        return match input.len() > SIZE_MAX {
            _ if !is_text => Request::Malformed,
            true => Request::Long,
            false => Request::Incomplete,
        };
    }
    let line = input.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let words: Option<Vec<&str>> =
        std::str::from_utf8(line).ok().map(|line| line.split(' ').collect());
    match words.as_deref() {
        Some(&[method, target, "HTTP/1.0" | "HTTP/1.1"]) if target.starts_with('/') => {
            let path = target.split('?').next().unwrap_or_default();
            match method {
                "GET" => Request::Get { path, is_head: false },
                "HEAD" => Request::Get { path, is_head: true },
                _ => Request::OtherMethod,
            }
        }
        _ => Request::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_other_bytes_differ() {
        let metrics = |is_head| Request::Get { path: "/metrics", is_head };
        for (bytes, expected) in [
            (&b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"[..], metrics(false)),
            (b"HEAD /metrics?a=b HTTP/1.0\r\n\r\n", metrics(true)),
            (b"POST /metrics HTTP/1.1\r\n\r\n", Request::OtherMethod),
            (b"GET /metrics HTTP/1.1\r\nHost: a\r\n", Request::Incomplete),
            (b"", Request::Incomplete),
            (b"GE", Request::Incomplete),
            (b"GET / HTTP/1.1\r\n", Request::Incomplete),
            (b"GET metrics HTTP/1.1\r\n\r\n", Request::Malformed),
            (b"GET  /metrics HTTP/1.1\r\n\r\n", Request::Malformed),
            (b"GET /metrics HTTP/2\r\n\r\n", Request::Malformed),
            (b"GET /\xff HTTP/1.1\r\n\r\n", Request::Malformed),
            (b"*1\r\n$4\r\nPING\r\n", Request::Malformed),
            (b"\x16\x03\x01\x02", Request::Malformed),
        ] {
            assert_eq!(parse(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
        let long = [b"GET /".as_slice(), &vec![b'a'; SIZE_MAX]].concat();
        assert_eq!(parse(&long), Request::Long);
        let long = [&long[..], b" HTTP/1.1\r\n\r\n"].concat();
        assert_eq!(parse(&long), Request::Long);
    }
}
