//! Errors while a report is written.

use thiserror::Error;

/// Reason for which a report could not be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Io(#[from] std::io::Error),
    /// A CSV file could not be written.
    #[error("cannot write CSV: {0}")]
    Csv(#[from] csv::Error),
    /// A capture could not be made.
    #[error("cannot write the capture: {0}")]
    Capture(pcap_file::PcapError),
    /// A trace names a capture point that it does not define.
    #[error("the trace has no capture point number {0}")]
    NoSuchPoint(usize),
    /// A trace holds a packet of a flow that it does not define.
    #[error("the trace has no flow number {0}")]
    NoSuchFlow(u32),
    /// A packet does not fit into an IPv4 datagram.
    #[error("a packet of {0} bytes does not fit into an IPv4 datagram")]
    PacketTooLong(u64),
    /// The options of a segment do not fit into a TCP header.
    #[error(
        "{0} bytes of options do not fit into a TCP header, which has space for 40; use fewer of the experimental options"
    )]
    OptionsTooLong(u16),
    /// A figure could not be drawn.
    #[error("cannot draw the figure: {0}")]
    Figure(String),
    /// A PNG image could not be encoded.
    #[error("cannot encode PNG: {0}")]
    Png(#[from] png::EncodingError),
    /// A page could not be filled in.
    #[error("cannot fill in the page: {0}")]
    Page(#[from] minijinja::Error),
    /// The columns of a row differ from the expected ones.
    #[error("row {row}: {problem}")]
    Row {
        /// Number of the row, from 0.
        row: usize,
        /// Problem with the row.
        problem: String,
    },
    /// The text of a column exceeds the maximum size in memory.
    #[error("the text of one column exceeds 2 GiB; reduce the number of rows")]
    ColumnTooLong,
    /// A Parquet file could not be written.
    #[cfg(feature = "parquet")]
    #[error("cannot write Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

impl From<pcap_file::PcapError> for ReportError {
    /// Separates errors of the system, which the library reports as errors in reading.
    fn from(error: pcap_file::PcapError) -> Self {
        match error {
            pcap_file::PcapError::IoError(error) => Self::Io(error),
            other => Self::Capture(other),
        }
    }
}

impl ReportError {
    /// Returns whether the reader of the output has closed it.
    pub fn is_broken_pipe(&self) -> bool {
        let error = match self {
            Self::Io(error) => Some(error),
            Self::Csv(error) => match error.kind() {
                csv::ErrorKind::Io(error) => Some(error),
                _ => None,
            },
            _ => None,
        };
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}
