//! Congestion controls of the modern sender: each owns `cwnd` and `ssthresh` and decides how they change. Loss recovery
//! decides when.
//!
//! To add a congestion control, declare its module, and name its [`Algorithm`] in [`ALGORITHMS`].

mod algorithm;
mod bbr;
mod bbr3;
mod choice;
pub mod control;
mod cubic;
mod draws;
mod hystart;
pub(crate) mod max_filter;
mod prague;
pub(in crate::tcp) mod quantum;
mod reno;
mod rounds;
pub mod window;

pub use self::algorithm::Algorithm;
pub(in crate::tcp) use self::choice::Control;
pub use self::choice::ControlRule;
pub(crate) use self::cubic::cube_root;
pub use self::hystart::HystartRule;
pub use self::window::Start;

/// All congestion controls. Scenarios, the lab, the documentation and the property tests know each by its line here.
pub const ALGORITHMS: &[&Algorithm] =
    &[&reno::RENO, &cubic::CUBIC, &cubic::CUBIC_RFC9438, &bbr::BBR, &bbr3::BBR3, &bbr3::BBR3_GOOGLE, &prague::PRAGUE];
