//! What Prometheus asks for over HTTP: one request for each connection.
//!
//! The names are those of redis_exporter where it has one, so that its dashboards show a Tembo server; `tembo_` begins those that
//! Redis has nothing for. A request reads counters that are there anyway, and waits for nothing.

mod exposition;
mod family;
mod request;

use crate::clients::Clients;
use crate::command::Table;
use crate::connection::Connection;
use crate::dataset::Dataset;
use crate::metrics::request::{Request, parse};
use crate::shared::Shared;

/// Text format 0.0.4 of Prometheus.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What metrics are taken from.
type Sources<'a, 's> = (&'a mut Dataset<'s>, &'a Shared, &'a Clients, &'a Table);

/// Answers the request that a client has sent, if it is whole; then the connection ends.
pub(crate) fn answer(connection: &mut Connection, sources: Sources<'_, '_>) {
    let Connection { session, reply, input, start, .. } = connection;
    if session.closing {
        return;
    }
    let (status, more, body, is_head) = match parse(&input[*start..]) {
        Request::Incomplete => return,
        Request::Get { path: "/metrics", is_head } => ("200 OK", "", family::all(sources), is_head),
        Request::Get { is_head, .. } => {
            ("404 Not Found", "", "Metrics are at /metrics.\n".to_owned(), is_head)
        }
        Request::OtherMethod => {
            ("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "Only GET.\n".to_owned(), false)
        }
        Request::Malformed => ("400 Bad Request", "", "No request of HTTP.\n".to_owned(), false),
        Request::Long => {
            ("431 Request Header Fields Too Large", "", "Too long.\n".to_owned(), false)
        }
    };
    *start = input.len();
    session.last_command = Some("metrics");
    session.closing = true;
    let size = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {size}\r\n{more}Connection: close\r\n\r\n"
    );
    reply.raw(head.as_bytes());
    if !is_head {
        reply.raw(body.as_bytes());
    }
}
