//! Scenes as SVG. Colours are attributes, and also classes (`fill-1`, `line-ink`), so that a page's style sheet can
//! replace them, for example by its dark ones.

use std::fmt::Write;

use super::font::CAPITAL;
use super::scene::{Align, Colour, Point, Run, Scene, Shape};
use crate::markup::escape;

/// Root element of an SVG drawing.
pub enum Root<'a> {
    /// Separate file.
    Document,
    /// Image in a page, with this description.
    Element { alt: &'a str },
    /// Part of a larger drawing, at this distance from its top.
    Part { top: u32 },
}

/// Attributes that texts and lines inherit. The widths of the layout are those of the first font, which is wider than
/// the others.
const INHERITED: &str = "font-family=\"DejaVu Sans,Verdana,sans-serif\" stroke-linejoin=\"round\"";
const NAMESPACE: &str = "xmlns=\"http://www.w3.org/2000/svg\"";

/// Renders scenes as one SVG document, one below the other.
pub fn stack(scenes: &[Scene]) -> String {
    let width = scenes.iter().map(|scene| scene.width).max().unwrap_or_default();
    let height: u32 = scenes.iter().map(|scene| scene.height).sum();
    let mut svg = format!("<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" {NAMESPACE}>\n");
    let mut top = 0;
    for scene in scenes {
        svg += &render(scene, &Root::Part { top });
        top += scene.height;
    }
    svg + "</svg>\n"
}

/// Renders a scene.
pub fn render(scene: &Scene, root: &Root) -> String {
    let Scene { width, height, shapes } = scene;
    let view = format!("viewBox=\"0 0 {width} {height}\" {INHERITED}");
    let mut svg = match root {
        Root::Document => format!("<svg width=\"{width}\" height=\"{height}\" {view} {NAMESPACE}>\n"),
        Root::Part { top } => format!("<svg y=\"{top}\" width=\"{width}\" height=\"{height}\" {view}>\n"),
        Root::Element { alt } => format!("<svg role=\"img\" aria-label=\"{}\" {view}>\n", escape(alt)),
    };
    let paper = rgb(Colour::Paper);
    let _ = writeln!(svg, "<rect class=\"fill-paper\" fill=\"{paper}\" width=\"{width}\" height=\"{height}\"/>");
    write_shapes(&mut svg, shapes);
    svg + "</svg>\n"
}

/// Way to paint a shape.
#[derive(Clone, Copy, PartialEq)]
enum Paint {
    Fill(Colour),
    Line(Colour, f64),
}

impl Paint {
    const fn of(shape: &Shape) -> Option<Self> {
        match shape {
            Shape::Path { colour, width, .. } => Some(Self::Line(*colour, *width)),
            Shape::Area { colour, .. } | Shape::Disc { colour, .. } => Some(Self::Fill(*colour)),
            Shape::Text { .. } => Some(Self::Fill(Colour::Ink)),
            Shape::Datum { .. } => None,
        }
    }
}

/// Writes shapes; neighbours that are painted alike form a group.
fn write_shapes(svg: &mut String, shapes: &[Shape]) {
    for group in shapes.chunk_by(|one, next| Paint::of(one).is_some() && Paint::of(one) == Paint::of(next)) {
        match group.first().and_then(Paint::of) {
            Some(Paint::Fill(colour)) => {
                let _ = writeln!(svg, "<g class=\"fill-{}\" fill=\"{}\">", role(colour), rgb(colour));
            }
            Some(Paint::Line(colour, width)) => {
                let (role, rgb, width) = (role(colour), rgb(colour), number(width));
                let _ =
                    writeln!(svg, "<g class=\"line-{role}\" fill=\"none\" stroke=\"{rgb}\" stroke-width=\"{width}\">");
            }
            None => *svg += "<g>\n",
        }
        group.iter().for_each(|shape| write_shape(svg, shape));
        *svg += "</g>\n";
    }
}

fn write_shape(svg: &mut String, shape: &Shape) {
    let _ = match shape {
        Shape::Path { points, .. } => writeln!(svg, "<path d=\"{}\"/>", path(points)),
        Shape::Area { points, .. } => writeln!(svg, "<path d=\"{}Z\"/>", polygon(points)),
        Shape::Disc { centre: (x, y), radius, .. } => {
            let [x, y, radius] = [*x, *y, *radius].map(number);
            writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>")
        }
        Shape::Text { at, text, size, align, run } => write_text(svg, *at, (text, *size), *align, *run),
        Shape::Datum { words, shapes } => {
            let _ = writeln!(svg, "<title>{}</title>", escape(words));
            write_shapes(svg, shapes);
            Ok(())
        }
    };
}

fn write_text(svg: &mut String, (x, y): Point, (text, size): (&str, f64), align: Align, run: Run) -> std::fmt::Result {
    let anchor = match align {
        Align::Left => "",
        Align::Centre => " text-anchor=\"middle\"",
        Align::Right => " text-anchor=\"end\"",
    };
    let lower = size * CAPITAL / 2.0;
    let place = match run {
        Run::Across => format!("x=\"{}\" y=\"{}\"", number(x), number(y + lower)),
        Run::Upwards => {
            let (x, y) = (number(x + lower), number(y));
            format!("x=\"{x}\" y=\"{y}\" transform=\"rotate(-90 {x} {y})\"")
        }
    };
    writeln!(svg, "<text {place} font-size=\"{}\"{anchor}>{}</text>", number(size), escape(text))
}

/// Returns the commands of a line. Points are half a unit apart at least, so that a line has no more of them than an
/// image can show.
fn path(points: &[Point]) -> String {
    let mut points: Vec<Point> = points.iter().map(|&(x, y)| (halves(x), halves(y))).collect();
    points.dedup();
    let mut commands = String::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| points[before]);
        let _ = match before {
            None => write!(commands, "M{} {}", number(x), number(y)),
            Some(before) if before.1 == y => write!(commands, "H{}", number(x)),
            Some(before) if before.0 == x => write!(commands, "V{}", number(y)),
            Some(_) => write!(commands, "L{} {}", number(x), number(y)),
        };
    }
    commands
}

fn polygon(points: &[Point]) -> String {
    let point = |(index, &(x, y)): (usize, &Point)| {
        format!("{}{} {}", if index == 0 { "M" } else { "L" }, number(x), number(y))
    };
    points.iter().enumerate().map(point).collect()
}

/// Rounds to half a unit.
pub fn halves(value: f64) -> f64 {
    (value * 2.0).round() / 2.0
}

/// Writes a number with at most two decimals.
fn number(value: f64) -> String {
    // The sum has no negative zero.
    ((value * 100.0).round() / 100.0 + 0.0).to_string()
}

fn role(colour: Colour) -> String {
    match colour {
        Colour::Ink => "ink".to_owned(),
        Colour::Grid => "grid".to_owned(),
        Colour::Paper => "paper".to_owned(),
        Colour::Series(number) => (number + 1).to_string(),
    }
}

/// Returns a colour as an attribute has it.
pub fn rgb(colour: Colour) -> String {
    let [red, green, blue] = colour.rgb();
    format!("#{red:02X}{green:02X}{blue:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_equal_paints_are_grouped() {
        let mut scene = Scene::new(20, 10);
        scene.path(vec![(0.0, 0.0), (0.1, 0.0), (4.0, 0.0), (4.0, 5.26), (6.0, 7.0)], Colour::Ink, 1.5);
        scene.path(vec![(1.0, 1.0), (-0.2, 1.0)], Colour::Ink, 1.5);
        scene.datum("2 < 3".to_owned(), |scene| scene.fill((1.0, 2.0), (3.004, 4.0), Colour::Series(0)));
        let svg = render(&scene, &Root::Part { top: 7 });
        let expected = "<svg y=\"7\" width=\"20\" height=\"10\" viewBox=\"0 0 20 10\" \
            font-family=\"DejaVu Sans,Verdana,sans-serif\" stroke-linejoin=\"round\">\n\
            <rect class=\"fill-paper\" fill=\"#FFFFFF\" width=\"20\" height=\"10\"/>\n\
            <g class=\"line-ink\" fill=\"none\" stroke=\"#222222\" stroke-width=\"1.5\">\n\
            <path d=\"M0 0H4V5.5L6 7\"/>\n<path d=\"M1 1H0\"/>\n</g>\n\
            <g>\n<title>2 &lt; 3</title>\n<g class=\"fill-1\" fill=\"#0072B2\">\n\
            <path d=\"M1 2L3 2L3 4L1 4Z\"/>\n</g>\n</g>\n</svg>\n";
        assert_eq!(svg, expected);
    }
}
