//! Packets of the inner network.
//!
//! | module | contents |
//! |---|---|
//! | [`look`] | inspection of headers: flow, class, length |
//! | [`frame`] | Ethernet frames, and the packets in them |
//! | [`packet`] | packets as the link carries them and the code combines them |
//! | [`fit`] | packets that are too big |

pub mod fit;
pub mod frame;
pub mod look;
pub mod packet;
