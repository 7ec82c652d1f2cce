//! Integration tests in one program.

mod hostile;
mod own_scripts;
