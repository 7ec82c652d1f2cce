//! Other configuration files, read as scenarios are and with the same messages.
//!
//! ```
//! use lasthop_proto::time::Duration;
//! use lasthop_settings::key::Key;
//! use lasthop_settings::reading::{Positive, parse};
//!
//! const IDLE: Key<Positive<Duration>> = Key::new("idle", || Positive(Duration::from_secs(600)));
//! let idle = |text| {
//!     parse("daemon.toml", text, |root| {
//!         root.allow(&[IDLE.name()])?;
//!         root.value(IDLE).map(|Positive(span)| span)
//!     })
//! };
//! assert_eq!(idle("idle = '30 s'")?, Duration::from_secs(30));
//! let error = idle("idle = 30").unwrap_err().to_string();
//! assert!(error.starts_with("daemon.toml:1: idle: cannot be 30 (the unit is missing)"), "{error}");
//! # Ok::<(), lasthop_settings::Error>(())
//! ```

use std::cell::RefCell;
use std::path::Path;

use crate::document;
use crate::error::{Error, Place, Problem, Spot};
use crate::files::read_limited;
use crate::reader::Context;

pub use crate::daemon::{AbsolutePath, Address, Group, LogLevel};
pub use crate::document::{Data, Item, Table, quote};
pub use crate::reader::{Reader, Value};
pub use crate::sides::{of_gateway as split, to_gateway as split_text};
pub use crate::snoop::{of_gateway as snoop, to_gateway as snoop_text};
pub use crate::units::ByteSize;
pub use crate::values::{Choice, List, Off, Or, Positive, Text, Whole, Word};

/// Parses a text with `read`; `name` identifies it in messages.
///
/// # Errors
///
/// Returns an error if it is not TOML, or if `read` fails.
pub fn parse<T>(name: &str, text: &str, read: impl FnOnce(&Reader<'_>) -> Result<T, Error>) -> Result<T, Error> {
    let root = document::parse(name, text)?;
    let context = Context { file: name.to_owned(), ledger: RefCell::default(), modern: None };
    read(&Reader::root(&context, &root))
}

/// Reads the regular file at `path`, of at most `limit` bytes, with `read`. Returns the result, and the text, for which
/// [`parse`] returns the same.
///
/// # Errors
///
/// Returns an error if the file cannot be read or is larger, or if [`parse`] fails.
pub fn load<T>(
    path: &Path,
    limit: u64,
    read: impl FnOnce(&Reader<'_>) -> Result<T, Error>,
) -> Result<(T, String), Error> {
    let file = path.display().to_string();
    let fail = |problem| Error::new(Place { file: file.clone(), spot: Spot::Whole }, None, problem);
    let bytes = read_limited(path, limit).map_err(|error| fail(Problem::Read(error)))?;
    let not_text = |_| Problem::Syntax { message: "it is not UTF-8 text".to_owned(), line: None, hint: None };
    let text = String::from_utf8(bytes).map_err(|error| fail(not_text(error)))?;
    Ok((parse(&file, &text, read)?, text))
}
