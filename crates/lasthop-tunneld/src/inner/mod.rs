//! Packets of the inner network.
//!
//! | module | holds |
//! |---|---|
//! | [`look`] | what headers tell: flow, kind, length |
//! | [`frame`] | Ethernet frames, and the packets in them |
//! | [`packet`] | a packet as the link carries it, and as the code sees it |
//! | [`fit`] | what becomes of packets that are too big |

pub mod fit;
pub mod frame;
pub mod look;
pub mod packet;
