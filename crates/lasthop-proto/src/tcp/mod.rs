//! TCP endpoints.

pub mod config;
