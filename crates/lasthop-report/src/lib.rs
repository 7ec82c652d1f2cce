//! Output of runs for people and other programs.
//!
//! | module | output |
//! |---|---|
//! | [`trace_csv`], [`trace_text`] | a recorded run, record by record: CSV in a stable format, lines for the screen |
//! | [`trace_info`] | states of connections between these lines |
//! | [`pcapng`] | a recorded run for Wireshark and tcptrace |
//! | [`diagram`] | a recorded run as a time-sequence diagram: packets between nodes |
//! | [`figures`] | bar charts, sequence and window plots, line charts, as SVG and PNG |
//! | [`charts`] | the script that draws figures on pages |
//! | [`study`] | the plain data that the next three show |
//! | [`cells_csv`], [`text_table`], [`html`] | a study as CSV, on the terminal, as one page |
//! | [`study_index`] | one page over several studies |
//! | [`rows`], `rows_parquet` | a sweep's rows as CSV and Parquet |
//! | [`columns`] | rows and traces in memory, for Apache Arrow |
//!
//! The same input gives the same bytes: the crate reads no clock, draws no random numbers and does not depend on the
//! machine.
#![forbid(unsafe_code)]

pub mod cells_csv;
pub mod charts;
pub mod columns;
mod describe;
pub mod diagram;
pub mod error;
mod fate;
mod fate_window;
pub mod figures;
mod frame;
pub mod html;
mod markup;
mod numbering;
pub mod pcapng;
mod pivot;
pub mod rows;
#[cfg(feature = "parquet")]
pub mod rows_parquet;
pub mod study;
mod study_files;
pub mod study_index;
pub mod text_table;
pub mod trace_csv;
pub mod trace_info;
pub mod trace_text;

pub use error::ReportError;
