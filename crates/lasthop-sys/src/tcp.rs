//! What `socket2` and `libc` lack of TCP's sockets.

/// `SIOCOUTQNSD`: how much of what waits to be acknowledged has not been sent.
pub const UNSENT: libc::c_ulong = 0x894b;
