//! The server at a real socket.

#![allow(unreachable_pub, missing_docs)]

mod client;
mod commands;
mod connections;
mod differential;
mod expiry;
mod malformed;
mod turn;
