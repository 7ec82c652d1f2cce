//! Both ends of a two-ended link over channels of all kinds.

mod golden;
mod link;
mod properties;
mod replay;
