//! The tunnel's processes.
//!
//! | module | holds |
//! |---|---|
//! | [`worker`] | the process that handles packets |
//! | [`supervisor`] | the process that an operator starts, and that keeps a worker alive |
//! | [`order`] | what the two say to each other |
//! | [`snapshot`] | what a worker has done |
//! | [`control`] | what is answered on the control socket |
//! | [`metrics`] | the figures for Prometheus |

pub mod control;
pub mod metrics;
pub mod order;
pub mod snapshot;
pub mod supervisor;
pub mod worker;
