//! Files that keep the cells of an unfinished study.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use lasthop_identity::Fingerprint;
use lasthop_study::measures::Samples;
use lasthop_study::reproduce::Plan;

use crate::error::Error;

/// File that receives cells as they finish: a line that identifies the study, then one line per cell.
pub struct Journal {
    pub path: PathBuf,
    head: String,
    /// Values of the cells in the journal.
    pub done: Vec<Vec<f64>>,
}

/// Runs that a journal keeps.
pub struct Kept<'a> {
    pub plan: &'a Plan,
    /// Indexes of the cells, in the order of the lines.
    pub cells: &'a [usize],
    pub seed: u64,
    /// Number of runs per cell.
    pub runs: u32,
    /// Command of the runs: `reproduce`, or `reproduce --lab`.
    pub command: &'static str,
}

impl Journal {
    /// Reads the journal. Ignores one of another study, other options or other sources of lasthop.
    pub fn open(path: &Path, kept: &Kept<'_>) -> Result<Self, Error> {
        let Kept { plan, seed, runs, command, .. } = *kept;
        let mut all = Fingerprint::new().number(seed).number(runs.into());
        for (name, unit) in plan.measures() {
            all = all.text(name).text(unit);
        }
        for cell in kept.cells.iter().map(|at| &plan.cells()[*at]) {
            all = all.text(&cell.name).text(cell.scheme.name).text(cell.scenario.to_toml());
        }
        let head = format!("# lasthop {command} {}, seed {seed}, runs {runs}: {:016x}", plan.study(), all.finish());
        let text = if path.exists() { fs::read_to_string(path).map_err(Error::file(path))? } else { String::new() };
        let mut lines = text.split_inclusive('\n');
        let ours = lines.next().is_some_and(|line| line.trim_end() == head);
        let wanted = plan.measures().len() * runs as usize;
        let cell = |line: &str| {
            // The last line is incomplete if the process was killed.
            let values = line.strip_suffix('\n')?.split(' ').map(|value| value.parse().ok());
            values.collect::<Option<Vec<f64>>>().filter(|values| values.len() == wanted)
        };
        let done = if ours { lines.map_while(cell).take(kept.cells.len()).collect() } else { Vec::new() };
        Ok(Self { path: path.to_owned(), head, done })
    }

    /// Opens the file for writing, with its valid contents.
    pub fn file(&self) -> Result<File, Error> {
        let write = || {
            let mut file = File::create(&self.path)?;
            writeln!(file, "{}", self.head)?;
            self.done.iter().try_for_each(|values| line(&mut file, values))?;
            Ok(file)
        };
        write().map_err(Error::file(&self.path))
    }

    /// Adds a cell to the file that [`file`](Self::file) returned.
    pub fn add(&self, file: &mut File, cell: &Samples) -> Result<(), Error> {
        line(file, cell.values()).map_err(Error::file(&self.path))
    }

    pub fn remove(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(Error::file(&self.path))
    }
}

fn line(file: &mut File, values: &[f64]) -> std::io::Result<()> {
    let values: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    writeln!(file, "{}", values.join(" "))
}
