//! One connection under load until the server is gone.

use std::net::SocketAddr;

use crate::model::Model;
use crate::resp::{Client, Reply};

/// The most units on their way at one time.
const WINDOW: usize = 64;

/// Sends units until the connection breaks. An error reply is not a broken connection but a failure.
pub fn run(model: &mut Model, address: SocketAddr) -> Result<(), String> {
    // The server may be killed before it has accepted.
    let Ok(mut client) = Client::connect(address) else { return Ok(()) };
    loop {
        let room = WINDOW - (model.units.len() - model.acknowledged);
        let burst = 1 + model.random().below(room as u64);
        for _ in 0..burst {
            model.push(&mut client);
        }
        if client.send().is_err() {
            return drain(model, &mut client);
        }
        let outstanding = (model.units.len() - model.acknowledged) as u64;
        for _ in 0..1 + model.random().below(outstanding) {
            if !acknowledge(model, &mut client)? {
                return Ok(());
            }
        }
    }
}

/// After a failed send, replies may still lie in the socket: they are acknowledgements too.
fn drain(model: &mut Model, client: &mut Client) -> Result<(), String> {
    while model.acknowledged < model.units.len() && acknowledge(model, client)? {}
    Ok(())
}

/// Reads the replies of the next unit; false if the connection broke.
fn acknowledge(model: &mut Model, client: &mut Client) -> Result<bool, String> {
    let unit = model.units[model.acknowledged].clone();
    let count = unit.changes.len();
    if unit.multi {
        for expected in std::iter::once("OK").chain(std::iter::repeat_n("QUEUED", count)) {
            match client.read() {
                Ok(Reply::Simple(word)) if word == expected => {}
                Ok(other) => return Err(format!("in MULTI: {other:?} instead of {expected}")),
                Err(_) => return Ok(false),
            }
        }
    }
    match client.read() {
        Ok(Reply::Array(replies)) if unit.multi && replies.len() == count => {
            if let Some(error) = replies.iter().find(|reply| matches!(reply, Reply::Error(_))) {
                return Err(format!("EXEC: {error:?}"));
            }
        }
        Ok(Reply::Simple(_) | Reply::Integer(_)) if !unit.multi => {}
        Ok(other) => return Err(format!("{unit:?}: {other:?}")),
        Err(_) => return Ok(false),
    }
    model.acknowledged += 1;
    Ok(true)
}
