//! The socket beside a pool: its path, its peers, and frames on it.
//!
//! A frame is its length as a `u32`, little-endian, and so many bytes.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recv, recvmsg, send, sendmsg, shutdown,
};
use rustix::process::geteuid;

use crate::process::Inherited;

/// The most bytes of a frame.
pub(crate) const FRAME_MAX: usize = 256 << 10;

/// Bytes that are asked for at least: a frame with a page.
const INCOMING_MIN: usize = 8 << 10;

/// The longest path of a socket, in bytes.
const ADDRESS_MAX: usize = 107;

/// Where the owner of a pool listens.
pub(crate) fn path_beside(pool: &Path) -> PathBuf {
    let mut path = pool.as_os_str().to_owned();
    path.push(".sock");
    path.into()
}

/// Does something with the address of a path. One that is too long for an address is reached through its folder.
fn at<R>(path: &Path, work: impl FnOnce(&Path) -> io::Result<R>) -> io::Result<R> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if path.as_os_str().len() > ADDRESS_MAX => {
            let folder = File::open(folder)?;
            work(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
        }
        _ => work(path),
    }
}

pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    at(path, |address| UnixListener::bind(address))
}

pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    at(path, |address| UnixStream::connect(address))
}

/// The process at the other end, if it is the same user's.
pub(crate) fn peer(stream: &UnixStream) -> io::Result<i32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the socket is open; the system writes at most `len` bytes to a structure of three integers.
    let code = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    // A process of another namespace has no number here.
    if peer.uid != geteuid().as_raw() || peer.pid == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(peer.pid)
}

/// A connection that ends for both sides when it is dropped, and that a child of a fork does not keep.
pub(crate) struct Stream {
    /// Forgotten before it is closed.
    _inherited: Inherited,
    stream: UnixStream,
}

impl Stream {
    pub(crate) fn new(stream: UnixStream) -> Stream {
        Stream { _inherited: Inherited::new(stream.as_raw_fd()), stream }
    }
}

impl Deref for Stream {
    type Target = UnixStream;

    fn deref(&self) -> &UnixStream {
        &self.stream
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The other side may have ended it.
        let _ = shutdown(&self.stream, Shutdown::Both);
    }
}

/// An empty frame, to be filled behind its length.
pub(crate) fn begin(frame: &mut Vec<u8>) {
    frame.clear();
    frame.extend([0; 4]);
}

/// Sends a frame that [`begin`] has begun. A peer that is gone is an error, not a signal.
pub(crate) fn send_frame(stream: &UnixStream, frame: &mut [u8]) -> io::Result<()> {
    end(frame)?;
    send_all(stream, frame)
}

/// The same, with an open file, which is for the receiver from then on.
pub(crate) fn send_frame_with(
    stream: &UnixStream,
    frame: &mut [u8],
    file: &OwnedFd,
) -> io::Result<()> {
    end(frame)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let (mut with, files) = (SendAncillaryBuffer::new(&mut space), [file.as_fd()]);
    with.push(SendAncillaryMessage::ScmRights(&files));
    let sent = sendmsg(stream, &[IoSlice::new(frame)], &mut with, SendFlags::NOSIGNAL)?;
    send_all(stream, &frame[sent..])
}

/// Puts its length into a frame.
fn end(frame: &mut [u8]) -> io::Result<()> {
    let len = frame.len() - 4;
    if len > FRAME_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    frame[..4].copy_from_slice(&(len as u32).to_le_bytes());
    Ok(())
}

fn send_all(stream: &UnixStream, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match send(stream, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = &rest[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether the connection stands, and nothing has come that was not asked for.
pub(crate) fn is_quiet(stream: &UnixStream) -> bool {
    let mut byte = [0; 1];
    let found = recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(found, Err(rustix::io::Errno::AGAIN))
}

/// What has come in and was not taken: a frame, or several, come with one call of the system.
#[derive(Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    /// Where in them the next frame begins, and what has come ends.
    at: usize,
    end: usize,
}

impl Incoming {
    /// Receives a frame into a buffer, which has it alone then.
    pub(crate) fn receive(&mut self, stream: &UnixStream, to: &mut Vec<u8>) -> io::Result<()> {
        const HEAD: usize = size_of::<u32>();
        self.fill(stream, HEAD)?;
        let head = self.bytes[self.at..].first_chunk().copied().unwrap_or_default();
        let len = u32::from_le_bytes(head) as usize;
        if len > FRAME_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.fill(stream, HEAD + len)?;
        let start = self.at + HEAD;
        self.at = start + len;
        to.clear();
        to.extend_from_slice(&self.bytes[start..self.at]);
        Ok(())
    }

    /// Receives the first frame of a connection, and the file that comes with it.
    pub(crate) fn receive_first(
        &mut self,
        stream: &UnixStream,
        to: &mut Vec<u8>,
    ) -> io::Result<Option<OwnedFd>> {
        self.bytes.resize(INCOMING_MIN, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut self.bytes[self.end..])];
        let got = loop {
            match recvmsg(stream, &mut into, &mut with, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                got => break got?,
            }
        };
        self.end += got.bytes;
        let files = with.drain().filter_map(|one| match one {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let file = files.flatten().last();
        self.receive(stream, to)?;
        Ok(file)
    }

    /// Waits until so many bytes have come. An error takes nothing of what has: the same is asked for again.
    fn fill(&mut self, mut stream: &UnixStream, wanted: usize) -> io::Result<()> {
        if self.end - self.at >= wanted {
            return Ok(());
        }
        self.bytes.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        if self.bytes.len() < wanted.max(INCOMING_MIN) {
            self.bytes.resize(wanted.max(INCOMING_MIN), 0);
        }
        while self.end < wanted {
            match stream.read(&mut self.bytes[self.end..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_one_by_one_however_they_come() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut frames = Vec::new();
        for len in [0, 5, INCOMING_MIN - 8, 1, 3 * INCOMING_MIN, 2] {
            let (mut frame, mut all) = (Vec::new(), vec![len as u8; len]);
            begin(&mut frame);
            frame.append(&mut all);
            frame[..4].copy_from_slice(&(len as u32).to_le_bytes());
            frames.extend(frame);
        }
        for size in [1, 7, 64, frames.len()] {
            let (there, frames) = (there.try_clone().unwrap(), frames.clone());
            let sender = std::thread::spawn(move || {
                for piece in frames.chunks(size) {
                    std::io::Write::write_all(&mut &there, piece).unwrap();
                }
            });
            let (mut incoming, mut frame) = (Incoming::default(), Vec::new());
            for len in [0, 5, INCOMING_MIN - 8, 1, 3 * INCOMING_MIN, 2] {
                incoming.receive(&here, &mut frame).unwrap();
                assert_eq!(frame, vec![len as u8; len]);
            }
            sender.join().unwrap();
        }
        std::io::Write::write_all(&mut &there, &(FRAME_MAX as u32 + 1).to_le_bytes()).unwrap();
        let error = Incoming::default().receive(&here, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        drop(there);
        let error = Incoming::default().receive(&here, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
