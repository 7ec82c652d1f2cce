//! What can go wrong, each in one line.

use std::io;
use std::path::PathBuf;

use lasthop_report::ReportError;
use lasthop_study::balakrishnan1997::StudyError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Scenario(#[from] lasthop_scenario::Error),
    #[error(transparent)]
    Study(#[from] StudyError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("{}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("cannot write output: {0}")]
    Output(#[from] io::Error),
    #[error("cannot convert the trace: {0}")]
    Csv(#[from] csv::Error),
    #[error("--set {given}: expected KEY=VALUE, such as links.wireless.rate=\"1 Mbps\"")]
    Set { given: String },
    #[error("--out {}: expected a name that ends in .csv or .parquet", path.display())]
    SweepFile { path: PathBuf },
    #[error("{}: holds another sweep; its first line is not {expected}. Give another --out, or remove it", path.display())]
    OtherSweep { path: PathBuf, expected: String },
    #[error("stopped: {done} of {total} points are in {}; the same command goes on from there", path.display())]
    SweepStopped { done: usize, total: usize, path: PathBuf },
    #[error("stopped: {done} of {total} points are done")]
    Stopped { done: usize, total: usize },
}

impl Error {
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }

    pub fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            Self::Report(error) => error.is_broken_pipe(),
            _ => false,
        }
    }
}
