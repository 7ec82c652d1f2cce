//! Declaration of a modern congestion control.

use alloc::boxed::Box;

use super::control::CongestionControl;
use super::hystart::HystartRule;
use super::window::Start;

/// Declaration of a congestion control. The file that implements the congestion control contains the declaration as a
/// `static`.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Value of the scenario key `tcp.congestion`.
    pub name: &'static str,
    /// Name in messages.
    pub title: &'static str,
    /// Explanation of the name in the table of keys, which lists all names; empty if the name says it all.
    pub about: &'static str,
    /// Name of the algorithm of which it is a variant; its own name if it is not a variant. Schemes are named after
    /// this algorithm.
    pub family: &'static str,
    /// Name of the congestion control, or of its counterpart, in the kernel; `None` if no kernel release has one. Each
    /// congestion control declares this explicitly, so that a kernel never silently runs another in its place.
    pub kernel_name: Option<&'static str>,
    /// True if the congestion control paces segments, and sets the window in recovery and after idle periods itself.
    pub paces: bool,
    /// True if the congestion control is scalable (RFC 9331 §4.3): its packets carry ECT(1), and it evaluates the number
    /// of marked segments ([`AckSample::marked`](super::control::AckSample::marked)).
    pub scalable: bool,
    /// Default rule for leaving slow start early; `None` if it has no such rule to choose.
    pub hystart: Option<HystartRule>,
    /// Creates the initial state of the congestion control, which may ignore the rule for leaving slow start if
    /// [`Self::hystart`] is `None`.
    pub build: fn(&Start, HystartRule) -> Box<dyn CongestionControl>,
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Algorithm {}
