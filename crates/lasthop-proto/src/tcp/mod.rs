//! TCP endpoints: a [`Connection`] is one end, as a [`Node`](crate::node::Node).
//!
//! [`config`] contains every detail as a key; [`recovery`] decides what to resend and when; [`congestion`] owns the
//! window.

mod ack;
mod classic;
pub mod config;
pub mod congestion;
mod connection;
pub mod delivery_rate;
pub mod flight;
pub mod min_rtt;
mod modern;
pub mod pacer;
pub mod prr;
mod receiver;
pub mod recovery;
pub mod rtt;
mod scoreboard;
mod send_buffer;
mod sender;
mod stream;

pub use self::connection::{Connection, Setup, State};
pub use self::rtt::TickPhase;
