//! The kernel of this machine, beside which a stack is tested.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the kernel runs in real time, on threads with namespaces of their own"
)]

pub mod campaign;
pub mod live;
pub mod packetdrill;
