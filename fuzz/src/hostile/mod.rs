//! A gateway under attack, checked against a model of both ends.
//!
//! A sender behind the wire, a receiver behind the lossy hop, and attackers on either side who know addresses and ports
//! but see no packets. A script of bytes determines who sends which packet, and which packets are lost, damaged,
//! duplicated or late. The ends are models of the rules in RFC 9293 §3.10.7.4, RFC 5961 and RFC 7323. After each
//! packet:
//!
//! * each byte that the gateway itself sends to the receiver is the byte that the sender sent with this number;
//! * no acknowledgment that it sends or revises exceeds that of the receiver, and no window exceeds the receiver's;
//! * no timestamp that it sends is later than the sender's;
//! * a second gateway, which never sees the packets that the ends refuse, responds to all other packets in the same
//!   way, at the same times;
//! * damaged packets pass, and change nothing.
//!
//! At the end there are no more losses, and the sender retransmits all outstanding data, which must arrive.
//!
//! If the receiver of a forged packet would accept it, the gateway is not at fault: both gateways see the packet, and
//! its bytes are excused. The gateway can only know this from packets that have passed it, while an acknowledgment in
//! flight may already have moved the window. By the rules above, a packet is therefore refused if the receiver would
//! refuse it in every state from the one last shown to the gateway to the present one. If an attacker breaks a
//! connection that no gateway could have saved (a reset with the exact number, bytes beyond the sender's), the script
//! ends. If an end accepts a packet that no true end could have sent, gateway and twin are no longer compared. The
//! other rules still apply, except to an attacker's bytes below the receiver's next number, which it refuses from any
//! sender.
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
