//! Congestion controls of the modern sender: each owns `cwnd` and `ssthresh` and decides how they change. Loss recovery
//! decides when.

mod algorithm;
mod bbr;
mod bbr3;
mod choice;
pub mod control;
mod cubic;
mod draws;
mod hystart;
pub(crate) mod max_filter;
pub(in crate::tcp) mod quantum;
mod reno;
mod rounds;
pub mod window;

pub use self::algorithm::Algorithm;
pub(in crate::tcp) use self::choice::Control;
pub use self::choice::{ALGORITHMS, ControlRule};
pub(crate) use self::cubic::cube_root;
pub use self::hystart::HystartRule;
pub use self::window::Start;
