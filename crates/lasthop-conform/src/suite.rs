//! Files and folders of scripts.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::parse::{MOST_BYTES, ParseError, parse};
use crate::run::{Verdict, run};
use crate::stack::Stack;

/// Maximum depth of folders.
const MOST_DEPTH: u8 = 16;

/// Result of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The file is a script, with this result.
    Ran(Verdict),
    /// The file is no valid script.
    Invalid(ParseError),
}

/// Number of files by result.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Scripts that passed.
    pub passed: usize,
    /// Scripts that failed.
    pub failed: usize,
    /// Scripts that are not applicable.
    pub not_applicable: usize,
    /// Files that are no valid scripts.
    pub invalid: usize,
}

impl Counts {
    /// Counts a result.
    pub fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Ran(Verdict::Passed) => self.passed += 1,
            Outcome::Ran(Verdict::Failed(_)) => self.failed += 1,
            Outcome::Ran(Verdict::NotApplicable { .. }) => self.not_applicable += 1,
            Outcome::Invalid(_) => self.invalid += 1,
        }
    }

    /// Returns the number of files.
    pub fn total(&self) -> usize {
        self.passed + self.failed + self.not_applicable + self.invalid
    }
}

/// Returns the scripts (`*.pkt`) at `path`: the file itself, or all files in the folder and below, sorted.
///
/// # Errors
///
/// Returns the path that cannot be read, with the reason.
pub fn scripts(path: &Path) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let mut found = Vec::new();
    collect(path, MOST_DEPTH, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(path: &Path, depth: u8, found: &mut Vec<PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error| (path.to_owned(), error);
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        if is_folder && depth > 0 || path.extension().is_some_and(|extension| extension == "pkt") {
            collect(&path, depth.saturating_sub(1), found)?;
        }
    }
    Ok(())
}

/// Runs the script in a file. Shell scripts that it calls are read relative to its folder.
///
/// # Errors
///
/// Returns the reason why the file cannot be read.
pub fn run_file(path: &Path, stack: &mut dyn Stack) -> io::Result<Outcome> {
    if fs::metadata(path)?.len() > MOST_BYTES as u64 {
        let message = format!("the file is larger than {MOST_BYTES} bytes; split it");
        return Ok(Outcome::Invalid(ParseError { line: 1, message }));
    }
    let bytes = fs::read(path)?;
    let Ok(text) = String::from_utf8(bytes) else {
        let message = "the file is not UTF-8; convert it".to_owned();
        return Ok(Outcome::Invalid(ParseError { line: 1, message }));
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    Ok(run_text(&text, stack, &|name| fs::read_to_string(folder.join(name)).ok()))
}

/// Runs the script in a text. `load` returns the text of shell scripts that it calls.
pub fn run_text(text: &str, stack: &mut dyn Stack, load: &dyn Fn(&str) -> Option<String>) -> Outcome {
    match parse(text) {
        Ok(script) => Outcome::Ran(run(&script, stack, load)),
        Err(error) => Outcome::Invalid(error),
    }
}

/// Returns the counts by folder, relative to the longest folder that all paths share.
pub fn by_folder<'a>(outcomes: impl Iterator<Item = (&'a Path, &'a Outcome)> + Clone) -> BTreeMap<PathBuf, Counts> {
    let root = shared(outcomes.clone().map(|(path, _)| path));
    let mut folders = BTreeMap::<PathBuf, Counts>::new();
    for (path, outcome) in outcomes {
        let folder = path.parent().unwrap_or(path);
        let name = folder.strip_prefix(&root).unwrap_or(folder);
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        folders.entry(name.to_owned()).or_default().add(outcome);
    }
    folders
}

/// Returns the longest folder that contains all paths.
pub fn shared<'a>(mut paths: impl Iterator<Item = &'a Path>) -> PathBuf {
    let mut root = paths.next().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
    for path in paths {
        while !path.starts_with(&root) && root.pop() {}
    }
    root
}
