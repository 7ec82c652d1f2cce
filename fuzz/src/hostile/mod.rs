//! A gateway among strangers: what it does, held against a model of both ends.
//!
//! A sender behind the wire, a receiver behind the lossy hop, and strangers on either side who know addresses and ports. A
//! script of bytes says who sends what, what is lost, damaged, doubled or late. The ends are models of what RFC 9293
//! §3.10.7.4, RFC 5961 and RFC 7323 accept. After each packet:
//!
//! * each byte that the gateway sends towards the receiver on its own is the byte that the sender sent with this number;
//! * no acknowledgment that it sends or revises goes beyond what the receiver acknowledged, no window beyond what it granted;
//! * no timestamp that it sends is later than the sender's;
//! * a second gateway, which never sees what the ends refuse, answers everything else alike, at the same times;
//! * damaged packets pass, and change nothing.
//!
//! At the end losses cease and the sender sends again what is not acknowledged: all of it must arrive.
//!
//! A forged packet that its receiver would take is its sender's success, not the gateway's failure: both gateways see it, and its
//! bytes are excused. What a receiver would take is judged by what the gateway can know of it, which is what has passed the
//! gateway: an acknowledgment under way may have moved the window meanwhile. So a packet is refused, in the sense of the rules
//! above, when it would be in every state from the one last shown to the gateway up to the present one. Where a stranger breaks a
//! connection that no gateway could have saved (a reset with the exact number, bytes beyond the sender's), the script ends. Where an
//! end takes what no true end could have sent, gateway and twin are compared no longer, and the rest still holds, but for a stranger's bytes
//! under numbers that the receiver has passed: it refuses them from whomever they come.
//!
//! | module | holds |
//! |---|---|
//! | [`ends`] | the models of sender and receiver |
//! | [`middle`] | the gateway's engine, fed with bytes; the mechanism by itself |
//! | [`script`] | scripts as bytes |
//! | [`shrink`] | makes those that show a fault shorter |
//! | [`world`] | what happens, and what must hold |

pub mod ends;
pub mod middle;
pub mod script;
pub mod shrink;
pub mod world;
