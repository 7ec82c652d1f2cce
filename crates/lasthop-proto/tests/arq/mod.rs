//! Tests of the link protocols of `link::arq`: sequences derived from the rules, random channels, garbage.

mod frames;
mod golden;
mod link;
mod properties;
mod variants;
