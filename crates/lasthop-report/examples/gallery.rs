//! Writes one example of every output of the crate into a folder:
//! `cargo run -p lasthop-report --example gallery -- DIR`.

#[path = "../tests/sample/mod.rs"]
mod sample;
#[path = "../tests/sample/study.rs"]
mod study;

use std::fs::{self, File};
use std::path::PathBuf;

use lasthop_report::{cells_csv, html, pcapng, text_table, trace_csv, trace_text};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("say where to")?);
    fs::create_dir_all(&folder)?;

    let trace = sample::trace();
    trace_csv::write_trace_csv(&trace, File::create(folder.join("trace.csv"))?)?;
    trace_text::write_trace_text(&trace, File::create(folder.join("trace.txt"))?)?;
    pcapng::write_pcapng(&trace, File::create(folder.join("trace.pcapng"))?)?;
    pcapng::write_pcapng_at(&trace, 0, File::create(folder.join("source.pcapng"))?)?;

    let study = study::study();
    let mut figures = vec![("small".to_owned(), study::small_bar_chart())];
    figures.extend(study.figures.iter().map(|named| (named.id.clone(), named.figure.clone())));
    for (id, figure) in figures {
        fs::write(folder.join(format!("{id}.svg")), figure.render_svg())?;
        fs::write(folder.join(format!("{id}.png")), figure.render_png()?)?;
    }
    cells_csv::write_cells_csv(&study, File::create(folder.join("cells.csv"))?)?;
    fs::write(folder.join("index.html"), html::index_html(&study)?)?;

    for table in &study.tables {
        println!("{}", text_table::text_table(table, None));
    }
    println!("{}", text_table::text_claims(&study.claims));
    println!("{}", text_table::text_summaries(&study.summaries()));
    Ok(())
}
