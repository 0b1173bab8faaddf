//! What was found or done, or the error, as the reply to a request.

use std::time::Duration;

use fuser::{
    Errno, FileAttr, Generation, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyWrite,
    ReplyXattr,
};

use crate::replies::{TTL, nothing};
use crate::served::Shown;

pub(crate) fn entry_reply(found: Result<Option<(Shown, Duration)>, Errno>, reply: ReplyEntry) {
    match found {
        Ok(Some(((attributes, generation), ttl))) => reply.entry(&ttl, &attributes, generation),
        // An inode of the number 0 is none.
        Ok(None) => reply.entry(&TTL, &nothing(), Generation(0)),
        Err(error) => reply.error(error),
    }
}

/// Answers that an inode was made, or got a name.
pub(crate) fn made(made: Result<Shown, Errno>, reply: ReplyEntry) {
    entry_reply(made.map(|shown| Some((shown, TTL))), reply);
}

pub(crate) fn attributes_reply(attributes: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match attributes {
        Ok(attributes) => reply.attr(&TTL, &attributes),
        Err(error) => reply.error(error),
    }
}

pub(crate) fn data_reply(data: Result<Vec<u8>, Errno>, reply: ReplyData) {
    match data {
        Ok(data) => reply.data(&data),
        Err(error) => reply.error(error),
    }
}

pub(crate) fn done(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

pub(crate) fn written(len: Result<u32, Errno>, reply: ReplyWrite) {
    match len {
        Ok(len) => reply.written(len),
        Err(error) => reply.error(error),
    }
}

pub(crate) fn extended_reply(value: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(error),
    }
}
