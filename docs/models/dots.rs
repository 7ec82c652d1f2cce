//! Dots: pairs of numbers without an order.

use serde::Serialize;

use super::Chart;
use super::axis::{Axis, Scale};
use super::numbers::Table;
use super::plot::{self, HEIGHT, Sample, WIDTH, number, number_words};
use super::scene::{Group, Mark, Scene};
use super::sequence::dot_colour;

/// Plot of dots.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct DotPlot {
    /// Title of the plot.
    pub title: String,
    /// Label of the x axis, with its unit.
    pub x_label: String,
    /// Label of the y axis, with its unit. The axis starts at 0.
    pub y_label: String,
    /// Name and dots of each series.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

impl Chart for DotPlot {
    fn scene(&self, colours: &[usize]) -> Scene {
        let colour = |index: usize| dot_colour(colours.get(index).copied().unwrap_or(index));
        let names = self.series.iter().enumerate();
        let legend: Vec<_> = names
            .map(|(index, (name, _))| (name.clone(), Sample::Mark(Mark::of_series(index), 4.0, colour(index))))
            .collect();
        let dots = || self.series.iter().flat_map(|(_, dots)| dots);
        let x_axis = Axis::around(dots().map(|dot| dot.0), Scale::Linear);
        let y_axis = Axis::round(0.0, dots().map(|dot| dot.1).fold(0.0, f64::max), 7);

        let mut scene = Scene::new(WIDTH, HEIGHT);
        plot::head(&mut scene, &self.title, &legend);
        let head = plot::head_height(&legend);
        let frame = plot::axes(&mut scene, head, (&x_axis, &self.x_label), (&y_axis, &self.y_label));
        for (index, (name, dots)) in self.series.iter().enumerate() {
            for (x, y) in dots {
                let words = format!("{name}, {}: {}", number(*x), number_words(*y, None, None));
                scene.group(Group::Datum(words), |scene| {
                    let at = (frame.x(&x_axis, *x), frame.y(&y_axis, *y));
                    scene.mark(Mark::of_series(index), at, 4.0, colour(index));
                });
            }
        }
        scene
    }

    fn table(&self) -> Table {
        let dots = self.series.iter().flat_map(|(name, dots)| dots.iter().map(move |dot| (name, dot)));
        let rows = dots.map(|(name, (x, y))| vec![name.clone(), number(*x), number(*y)]);
        (vec!["series".to_owned(), self.x_label.clone(), self.y_label.clone()], rows.collect())
    }

    fn series_names(&self) -> Vec<&String> {
        self.series.iter().map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figure;

    #[test]
    fn each_dot_is_drawn_and_listed() {
        let [title, x_label, y_label] = ["dots", "size (KB)", "time (s)"].map(str::to_owned);
        let series = vec![("E2E".to_owned(), vec![(10.0, 1.5), (20.0, 2.5)])];
        let figure = Figure::Dots(DotPlot { title, x_label, y_label, series });
        let drawn = figure.render_svg();
        assert!(drawn.contains("E2E, 10: 1.5") && drawn.contains("E2E, 20: 2.5"), "{drawn}");
        assert_eq!(figure.numbers().rows[1], ["E2E", "20", "2.5"]);
    }
}
