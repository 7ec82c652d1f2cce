//! Rules of Linux 6.18, each as a script that a kernel 6.18 passes.

mod accurate_ecn;
mod close;
mod ecn;
mod handshake;
mod options;
mod receive;
mod undo;
mod window;
