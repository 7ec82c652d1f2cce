//! A sweep as a folder of Parquet files, each with the rows of some consecutive points.
//!
//! The sweep alone determines the points in each file, so the folder does not depend on the machines or the order of
//! computation. A file appears when it is complete, so existing files need not be computed again.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::thread;

use lasthop_report::ReportError;
use lasthop_report::rows::Rows;
use lasthop_report::rows_parquet::write_rows_parquet;

use crate::measures::Samples;
use crate::replicate::Progress;
use crate::sweep::{Sweep, SweepError};

/// File that identifies the folder's sweep. Readers of Parquet folders skip names that begin with an underscore.
const MANIFEST: &str = "_sweep.toml";

/// Minimum number of runs per part: their loss is acceptable.
const LEAST_RUNS: usize = 128;

/// Maximum number of files in a folder.
const MOST_PARTS: usize = 4096;

/// Maximum number of parts that wait to be written.
const PARTS_WAITING: usize = 8;

/// Error of a folder for a sweep.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// The folder contains another sweep.
    #[error("{}: holds another sweep ({difference}); give another folder, or remove this one", folder.display())]
    Other {
        /// Path of the folder.
        folder: PathBuf,
        /// First line that differs.
        difference: String,
    },
    /// The folder contains other files.
    #[error("{}: is not empty, and holds no sweep; give another folder", folder.display())]
    Foreign {
        /// Path of the folder.
        folder: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: io::Error,
    },
    /// A part could not be created.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A point could not be run.
    #[error(transparent)]
    Sweep(#[from] SweepError),
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> PartsError {
    let path = path.to_owned();
    move |error| PartsError::File { path, error }
}

/// A folder that contains a sweep, complete or in part.
#[derive(Clone, Debug)]
pub struct Parts {
    folder: PathBuf,
    points: usize,
    points_per_part: usize,
}

impl Parts {
    /// Opens the folder of `sweep`, or creates it.
    ///
    /// # Errors
    ///
    /// Returns an error if it contains another sweep or other files, or cannot be read or written.
    pub fn open(folder: impl Into<PathBuf>, sweep: &Sweep) -> Result<Self, PartsError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let path = folder.join(MANIFEST);
        let wanted = manifest(sweep);
        match fs::read_to_string(&path) {
            Ok(found) if found == wanted => {}
            Ok(found) => {
                let difference = difference(&found, &wanted);
                return Err(PartsError::Other { folder, difference });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Names with a dot may be left from a killed process.
                let mut files = fs::read_dir(&folder).map_err(at(&folder))?.flatten();
                if files.any(|file| !file.file_name().to_string_lossy().starts_with('.')) {
                    return Err(PartsError::Foreign { folder });
                }
                replace(&path, |file| file.write_all(wanted.as_bytes()).map_err(at(&path)))?;
            }
            Err(error) => return Err(PartsError::File { path, error }),
        }
        let points = sweep.points().len();
        let for_runs = LEAST_RUNS.div_ceil(sweep.runs().max(1) as usize);
        Ok(Self { folder, points, points_per_part: for_runs.max(points.div_ceil(MOST_PARTS)) })
    }

    /// Returns the number of parts.
    pub fn count(&self) -> usize {
        self.points.div_ceil(self.points_per_part)
    }

    /// Returns the points of a part.
    pub fn points(&self, part: usize) -> Range<usize> {
        let first = part * self.points_per_part;
        first..(first + self.points_per_part).min(self.points)
    }

    /// Returns the part that contains a point.
    pub const fn part_of(&self, point: usize) -> usize {
        point / self.points_per_part
    }

    /// Returns the file of a part.
    pub fn path(&self, part: usize) -> PathBuf {
        self.folder.join(format!("part-{part:05}.parquet"))
    }

    /// Returns the parts that are missing.
    pub fn missing(&self) -> Vec<usize> {
        (0..self.count()).filter(|&part| !self.path(part).exists()).collect()
    }

    /// Computes the missing parts on `jobs` threads (0: one per core), until `progress` stops it.
    ///
    /// # Errors
    ///
    /// Returns an error if a part cannot be written; earlier parts have been written.
    pub fn fill(&self, sweep: &Sweep, jobs: usize, progress: &dyn Progress) -> Result<(), PartsError> {
        let points: Vec<usize> = self.missing().into_iter().flat_map(|part| self.points(part)).collect();
        // Writing a part to the disk takes as long as many runs: the threads that run do not wait for it.
        let (whole, parts) = sync_channel::<(usize, Vec<Samples>)>(PARTS_WAITING);
        thread::scope(|scope| {
            let write = move || parts.iter().try_for_each(|(part, samples)| self.write(part, sweep, &samples));
            let writer = scope.spawn(write);
            let mut all = Vec::new();
            let outcome = sweep.run_points(&points, jobs, progress, |point, samples| {
                all.push(samples);
                let part = self.part_of(point);
                if point + 1 == self.points(part).end {
                    // The writer has ended if a part could not be written.
                    whole.send((part, std::mem::take(&mut all))).map_err(|_| Stop::Unwritten)?;
                }
                Ok(())
            });
            drop(whole);
            writer.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            match outcome {
                Ok(_) | Err(Stop::Unwritten) => Ok(()),
                Err(Stop::Sweep(error)) => Err(error.into()),
            }
        })
    }

    /// Writes a part from the results of the runs of each of its points.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be written.
    pub fn write(&self, part: usize, sweep: &Sweep, samples: &[Samples]) -> Result<(), PartsError> {
        let mut rows = Rows::new(sweep.columns().to_vec());
        for (point, samples) in self.points(part).zip(samples) {
            rows.push(sweep.row(point, samples))?;
        }
        replace(&self.path(part), |file| Ok(write_rows_parquet(&rows, file)?))
    }
}

/// Reason why runs ended before the last.
enum Stop {
    /// The writer has ended, and has the error.
    Unwritten,
    Sweep(SweepError),
}

impl From<SweepError> for Stop {
    fn from(error: SweepError) -> Self {
        Self::Sweep(error)
    }
}

/// Returns everything that the rows depend on.
fn manifest(sweep: &Sweep) -> String {
    let mut text = String::from("# A sweep by lasthop. Everything that its rows depend on:\n");
    let _ = writeln!(text, "build = {:?}", lasthop_identity::BUILD);
    let _ = writeln!(text, "runs = {}\nseed = {}", sweep.runs(), sweep.seed());
    let mut schemes: Vec<&str> = Vec::new();
    for point in sweep.points() {
        if schemes.contains(&point.scheme.name) {
            break;
        }
        schemes.push(point.scheme.name);
    }
    let _ = writeln!(text, "schemes = {schemes:?}");
    for axis in sweep.axes() {
        let _ = writeln!(text, "vary.{:?} = {:?}", axis.key, axis.values);
    }
    text.push_str("\n# The scenario:\n");
    for line in sweep.scenario().to_toml().lines() {
        let _ = writeln!(text, "#   {line}");
    }
    text
}

/// Returns the first line that differs between two manifests.
fn difference(found: &str, wanted: &str) -> String {
    let mut lines = wanted.lines();
    for found in found.lines() {
        let wanted = lines.next().unwrap_or("nothing");
        if found != wanted {
            let plain = |line: &str| line.trim_start_matches(['#', ' ']).to_owned();
            return format!("`{}` there, `{}` here", plain(found), plain(wanted));
        }
    }
    format!("`{}` here only", lines.next().unwrap_or_default())
}

/// Writes a temporary file, and renames it when it is complete.
fn replace(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<(), PartsError>) -> Result<(), PartsError> {
    // The name contains the process, since another one may compute the same part. Readers skip names with a dot.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut file = BufWriter::new(File::create(&beside).map_err(at(&beside))?);
    let written = write(&mut file).and_then(|()| {
        let file = file.into_inner().map_err(|error| at(&beside)(error.into_error()))?;
        // The name must not survive a crash of the machine without the contents.
        file.sync_all().map_err(at(&beside))
    });
    match written {
        Ok(()) => fs::rename(&beside, path).map_err(at(path)),
        Err(error) => {
            // The first error is reported; a leftover file does no harm.
            let _ = fs::remove_file(&beside);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::scheme::Scheme;
    use lasthop_scenario::Scenario;

    use super::*;
    use crate::replicate::Silent;

    fn sweep(seed: u64, values: usize) -> Sweep {
        let small = [("flows.bulk.size", "10 KiB")];
        let scenario = Scenario::builtin("wavelan-lan").unwrap().with_overrides(&small).unwrap();
        let values = (0..values).map(|value| (500 + value).to_string()).collect::<Vec<_>>().join(",");
        let axes = vec![format!("tcp.mss={values}").parse().unwrap()];
        Sweep::new(&scenario, axes, &[Scheme::by_name("E2E").unwrap()], seed, 2).unwrap()
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("lasthop-parts-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn compute(parts: &Parts, sweep: &Sweep, wanted: &[usize]) {
        for &part in wanted {
            let points: Vec<usize> = parts.points(part).collect();
            let mut all = Vec::new();
            let done = sweep.run_points(&points, 2, &Silent, |_, samples| {
                all.push(samples);
                Ok::<(), SweepError>(())
            });
            assert_eq!(done.unwrap(), points.len());
            parts.write(part, sweep, &all).unwrap();
        }
    }

    #[test]
    fn parts_are_the_same_in_whatever_order_they_come() {
        let (sweep, here, there) = (sweep(1, 150), folder("here"), folder("there"));
        let first = Parts::open(&here, &sweep).unwrap();
        assert_eq!((first.count(), first.points(0), first.points(2)), (3, 0..64, 128..150));
        first.fill(&sweep, 2, &Silent).unwrap();
        let second = Parts::open(&there, &sweep).unwrap();
        compute(&second, &sweep, &[2, 0]);
        assert_eq!(Parts::open(&there, &sweep).unwrap().missing(), [1]);
        compute(&second, &sweep, &[1]);
        assert!(second.missing().is_empty());
        let names: Vec<_> = fs::read_dir(&here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 4);
        for name in names {
            assert_eq!(fs::read(here.join(&name)).unwrap(), fs::read(there.join(&name)).unwrap());
        }
        fs::remove_dir_all(here).unwrap();
        fs::remove_dir_all(there).unwrap();
    }

    #[test]
    fn a_part_that_cannot_be_written_ends_it() {
        let (sweep, folder) = (sweep(1, 150), folder("unwritten"));
        let parts = Parts::open(&folder, &sweep).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(parts.fill(&sweep, 2, &Silent), Err(PartsError::File { .. })));
    }

    #[test]
    fn another_sweep_or_a_foreign_folder_is_refused() {
        let folder = folder("refused");
        Parts::open(&folder, &sweep(1, 2)).unwrap();
        let error = Parts::open(&folder, &sweep(2, 2)).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "holds another sweep (`seed = 1` there, `seed = 2` here); give another folder, or remove this one"
            ),
            "{error}"
        );
        let error = Parts::open(&folder, &sweep(1, 3)).unwrap_err().to_string();
        assert!(error.contains("`vary.\"tcp.mss\" = [\"500\", \"501\"]` there"), "{error}");
        // Files from another build of the same version may contain other numbers.
        let manifest = fs::read_to_string(folder.join(MANIFEST)).unwrap();
        let other = manifest.replace(lasthop_identity::SOURCES, "0123456789abcdef");
        assert_ne!(other, manifest);
        fs::write(folder.join(MANIFEST), other).unwrap();
        let error = Parts::open(&folder, &sweep(1, 2)).unwrap_err().to_string();
        assert!(error.contains("(sources 0123456789abcdef)\"` there, `build = "), "{error}");
        fs::remove_file(folder.join(MANIFEST)).unwrap();
        fs::write(folder.join("thesis.tex"), "").unwrap();
        let error = Parts::open(&folder, &sweep(1, 2)).unwrap_err().to_string();
        assert!(error.ends_with("is not empty, and holds no sweep; give another folder"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
