//! The classic sender: windows in bytes, in the manner of BSD, with the loss recoveries of the 1990s and RFC 6675.

pub mod control;
