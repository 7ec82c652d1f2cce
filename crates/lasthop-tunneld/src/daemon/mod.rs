//! Processes of the tunnel.
//!
//! | module | contents |
//! |---|---|
//! | [`worker`] | process that handles packets |
//! | [`supervisor`] | process that the operator starts, and that restarts the worker |
//! | [`order`] | messages between the two |
//! | [`snapshot`] | statistics of a worker |
//! | [`state`] | state that the supervisor shares with its threads |
//! | [`usage`] | data volumes of paths with a cap |
//! | [`control`] | answers on the control socket |
//! | [`metrics`] | metrics for Prometheus |

pub mod control;
pub mod metrics;
pub mod order;
pub mod snapshot;
pub mod state;
pub mod supervisor;
pub mod usage;
pub mod worker;
