//! What a TCP-aware hop does (RFC 3135's term: performance-enhancing proxy).

pub mod snoop;
pub mod split;
