//! One connection under load until the server is gone.

use std::net::SocketAddr;

use crate::model::Model;
use crate::resp::{Client, Reply};

/// The most units on their way at one time.
const WINDOW: usize = 24;

/// Sends units until the connection breaks. An error reply is not a broken connection but a failure.
pub fn run(model: &mut Model, address: SocketAddr) -> Result<(), String> {
    // The server may be killed before it has accepted.
    let Ok(mut client) = Client::connect(address) else { return Ok(()) };
    loop {
        let room = WINDOW - (model.units.len() - model.acknowledged);
        for _ in 0..1 + model.random.below(room as u64) {
            model.push(&mut client);
        }
        let is_sent = client.send().is_ok();
        let outstanding = (model.units.len() - model.acknowledged) as u64;
        // After a failed send replies may still lie in the socket: they are acknowledgements too.
        let count = if is_sent { 1 + model.random.below(outstanding) } else { outstanding };
        for _ in 0..count {
            if !acknowledge(model, &mut client)? {
                return Ok(());
            }
        }
        if !is_sent {
            return Ok(());
        }
    }
}

/// Reads the replies of the next unit; false if the connection broke.
fn acknowledge(model: &mut Model, client: &mut Client) -> Result<bool, String> {
    let unit = &model.units[model.acknowledged];
    for _ in 0..unit.replies {
        let Ok(reply) = client.read() else { return Ok(false) };
        if let Some(error) = error_in(&reply) {
            return Err(format!("{:?} was refused: {error}", unit.changes));
        }
    }
    model.acknowledged += 1;
    Ok(true)
}

fn error_in(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Error(error) => Some(error),
        Reply::Array(parts) => parts.iter().find_map(error_in),
        _ => None,
    }
}
