//! Several descriptors as one to wait on.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::epoll;

/// Returns a descriptor that is readable if one of `descriptors` is; `None` for a single one.
///
/// # Errors
///
/// Returns an error if a system call fails.
pub fn any_of<'d>(descriptors: impl ExactSizeIterator<Item = BorrowedFd<'d>>) -> io::Result<Option<OwnedFd>> {
    if descriptors.len() < 2 {
        return Ok(None);
    }
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for descriptor in descriptors {
        epoll::add(&epoll, descriptor, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
    }
    Ok(Some(epoll))
}
