//! The mechanisms of `lasthop-proto` on real packets, on Linux.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | the kernel's monotonic clock as the mechanisms' time |

pub mod clock;
