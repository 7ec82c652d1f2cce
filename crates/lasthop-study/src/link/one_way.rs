//! Losses of one direction in a file: a text, or a capture.

use std::path::Path;

use lasthop_fit::read::Reading;

use super::captured::captured;
use super::error::{LinkError, failed};
use super::traces::{Fitted, of_text};
use super::{Access, Given, begins_as_capture};

/// Reads the losses in a text, or those of a capture's flow with the most data.
pub(super) fn read(access: &Access<'_>, path: &Path, given: &Given) -> Result<Reading, LinkError> {
    if begins_as_capture(access, path)? {
        let captured = captured(access, path, &Given { at: given.at, ..Given::default() })?;
        return of_text(access, path, &captured.down.losses, None);
    }
    of_text(access, path, &access.text(path).map_err(failed(path))?, given.interval.map(|it| it.0))
}

/// Reads the losses of one direction in a file.
pub(super) fn one_way(access: &Access<'_>, path: &Path, given: &Given, rate: Option<f64>) -> Result<Fitted, LinkError> {
    let Reading { form, down, up, .. } = read(access, path, given)?;
    Fitted::of(access, path, (down, form), rate, up.is_some())
}
