//! A study's results as files.

use crate::cells_csv::write_cells_csv;
use crate::error::ReportError;
use crate::html::index_html;
use crate::study::Study;

impl Study {
    /// Returns the files of the study by their path in a folder: `cells.csv`, `figures/figure-N.svg`, `index.html`.
    ///
    /// # Errors
    ///
    /// Returns an error if a figure or the page cannot be rendered.
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>, ReportError> {
        let mut cells = Vec::new();
        write_cells_csv(self, &mut cells)?;
        let mut files = vec![("cells.csv".to_owned(), cells)];
        for (figure, colours) in self.figures.iter().zip(self.colours()) {
            files.push((format!("figures/{}.svg", figure.id), figure.figure.render_svg_in(&colours).into_bytes()));
        }
        files.push(("index.html".to_owned(), index_html(self)?.into_bytes()));
        Ok(files)
    }
}
