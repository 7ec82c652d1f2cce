//! Shapes of a figure, and their rendering as SVG and PNG. Charts only create shapes; all use of the drawing library is
//! here.

use std::sync::OnceLock;

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingBackend, FontStyle, RGBColor, ShapeStyle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontDesc, FontFamily, FontTransform, IntoTextStyle, TextStyle, register_font};

use crate::error::ReportError;
use crate::markup::escape;

/// Pixels per unit. Backends take whole pixels only, and print needs more of them than screens.
const PIXELS: f64 = 2.0;
/// Additional downward offset of text for the bitmap backend, in ems: it centres the whole line, the SVG backend the
/// lowercase letters.
const BITMAP_TEXT_LOWER: f64 = 0.17;
/// Ratio of the line height, which is the backends' font size, to the em.
const LINE_HEIGHT: f64 = 1.24;

/// Colour of text and axes. The page's style sheet replaces this, [`GRID`] and [`PAPER`] in dark mode.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Colour of grid lines.
pub const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
/// Colour of the background.
pub const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
/// Okabe and Ito's colours, in an order that keeps the first few far apart; without black, which is close to [`INK`].
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xE6, 0x9F, 0x00),
    RGBColor(0x00, 0x9E, 0x73),
    RGBColor(0xCC, 0x79, 0xA7),
    RGBColor(0x56, 0xB4, 0xE9),
    RGBColor(0xD5, 0x5E, 0x00),
];

/// Returns the colour of the series with this number.
pub const fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}

/// Position in units, from the upper left corner.
pub type Point = (f64, f64);

/// Horizontal alignment of a text at its anchor.
#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Centre,
    Right,
}

/// Direction of a text.
#[derive(Clone, Copy)]
pub enum Run {
    Across,
    Upwards,
}

/// Mark at a data point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Ring,
}

impl Mark {
    /// Returns the mark of the series with this number. Marks and colours repeat at different periods, so that the
    /// first thirty series all look different.
    pub const fn of_series(series: usize) -> Self {
        match series % 5 {
            0 => Self::Circle,
            1 => Self::Square,
            2 => Self::Triangle,
            3 => Self::Diamond,
            _ => Self::Ring,
        }
    }
}

/// Drawing surface: the backends differ in places.
#[derive(Clone, Copy)]
enum Surface {
    Vector,
    Bitmap,
}

impl Surface {
    const fn text_lower(self) -> f64 {
        match self {
            Self::Vector => 0.0,
            Self::Bitmap => BITMAP_TEXT_LOWER,
        }
    }
}

enum Shape {
    Path { points: Vec<Point>, colour: RGBColor, width: f64 },
    Area { points: Vec<Point>, colour: RGBColor },
    Box { upper_left: Point, lower_right: Point, colour: RGBColor },
    Disc { centre: Point, radius: f64, colour: RGBColor },
    Text { at: Point, text: String, size: f64, align: Align, run: Run },
}

/// Shapes, drawn in order.
pub struct Scene {
    width: u32,
    height: u32,
    shapes: Vec<Shape>,
}

/// Root element of an SVG drawing.
pub enum Root<'a> {
    /// Separate file.
    Document,
    /// Image in a page, with this description.
    Element { alt: &'a str },
    /// Part of a larger drawing, at this distance from its top.
    Part { top: u32 },
}

/// Separate file.
pub const DOCUMENT: Root = Root::Document;

/// Renders scenes as one SVG document, one below the other.
pub fn stack(scenes: &[Scene]) -> Result<String, ReportError> {
    let width = scenes.iter().map(|scene| scene.width).max().unwrap_or_default();
    let height: u32 = scenes.iter().map(|scene| scene.height).sum();
    let mut svg = format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\n"
    );
    let mut top = 0;
    for scene in scenes {
        svg += &scene.svg(&Root::Part { top })?;
        svg += "\n";
        top += scene.height;
    }
    Ok(svg + "</svg>\n")
}

impl Scene {
    /// Creates an empty scene of this size in units.
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    /// Adds a line through `points`.
    pub fn path(&mut self, points: Vec<Point>, colour: RGBColor, width: f64) {
        self.shapes.push(Shape::Path { points, colour, width });
    }

    /// Adds a filled rectangle.
    pub fn fill(&mut self, upper_left: Point, lower_right: Point, colour: RGBColor) {
        self.shapes.push(Shape::Box { upper_left, lower_right, colour });
    }

    /// Adds a text, centred vertically at its anchor.
    pub fn text(&mut self, at: Point, text: &str, size: f64, align: Align, run: Run) {
        self.shapes.push(Shape::Text { at, text: text.to_owned(), size, align, run });
    }

    /// Adds a mark with radius `size`.
    pub fn mark(&mut self, mark: Mark, (x, y): Point, size: f64, colour: RGBColor) {
        let area = |corners: &[Point]| Shape::Area {
            points: corners.iter().map(|(dx, dy)| (x + dx * size, y + dy * size)).collect(),
            colour,
        };
        match mark {
            Mark::Circle => self.shapes.push(Shape::Disc { centre: (x, y), radius: size, colour }),
            Mark::Ring => {
                self.shapes.push(Shape::Disc { centre: (x, y), radius: size, colour });
                self.shapes.push(Shape::Disc { centre: (x, y), radius: size * 0.5, colour: PAPER });
            }
            Mark::Square => self.shapes.push(area(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)])),
            Mark::Triangle => self.shapes.push(area(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)])),
            Mark::Diamond => self.shapes.push(area(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)])),
            Mark::Cross => {
                let (left, right, top, bottom) = (x - size, x + size, y - size, y + size);
                self.path(vec![(left, top), (right, bottom)], colour, 1.5);
                self.path(vec![(left, bottom), (right, top)], colour, 1.5);
            }
        }
    }

    /// Renders the scene as SVG.
    pub fn svg(&self, root: &Root) -> Result<String, ReportError> {
        let mut svg = String::new();
        self.draw(SVGBackend::with_string(&mut svg, self.pixels()), Surface::Vector)?;
        // The backend writes whole numbers only, so it draws enlarged; and its root element has no description.
        let start = svg.find('>').map_or(0, |end| end + 1);
        let (width, height) = (self.width, self.height);
        let (view_width, view_height) = self.pixels();
        let view = format!("viewBox=\"0 0 {view_width} {view_height}\"");
        let root = match root {
            Root::Document => {
                format!("<svg width=\"{width}\" height=\"{height}\" {view} xmlns=\"http://www.w3.org/2000/svg\">")
            }
            Root::Part { top } => format!("<svg y=\"{top}\" width=\"{width}\" height=\"{height}\" {view}>"),
            Root::Element { alt } => format!("<svg role=\"img\" aria-label=\"{}\" {view}>", escape(alt)),
        };
        Ok(root + &svg[start..])
    }

    /// Renders the scene as PNG.
    pub fn png(&self) -> Result<Vec<u8>, ReportError> {
        let (width, height) = self.pixels();
        let mut pixels = vec![0; width as usize * height as usize * 3];
        self.draw(BitMapBackend::with_buffer(&mut pixels, (width, height)), Surface::Bitmap)?;
        let mut image = Vec::new();
        let mut encoder = png::Encoder::new(&mut image, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()?;
        Ok(image)
    }

    fn pixels(&self) -> (u32, u32) {
        (self.width * PIXELS as u32, self.height * PIXELS as u32)
    }

    fn draw<B: DrawingBackend>(&self, backend: B, surface: Surface) -> Result<(), ReportError> {
        font()?;
        let area = backend.into_drawing_area();
        area.fill(&PAPER).map_err(refused)?;
        for shape in &self.shapes {
            draw_shape(&area, shape, surface).map_err(refused)?;
        }
        area.present().map_err(refused)
    }
}

fn draw_shape<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    shape: &Shape,
    surface: Surface,
) -> Result<(), plotters::drawing::DrawingAreaErrorKind<B::ErrorType>> {
    match shape {
        Shape::Path { points, colour, width } => {
            let mut points: Vec<(i32, i32)> = points.iter().map(pixel_at).collect();
            points.dedup();
            let style = ShapeStyle { color: (*colour).into(), filled: false, stroke_width: pixel(*width) as u32 };
            match surface {
                Surface::Vector => area.draw(&PathElement::new(points, style)),
                Surface::Bitmap => points.windows(2).try_for_each(|pair| draw_segment(area, pair[0], pair[1], style)),
            }
        }
        Shape::Area { points, colour } => {
            area.draw(&Polygon::new(points.iter().map(pixel_at).collect::<Vec<_>>(), *colour))
        }
        Shape::Box { upper_left, lower_right, colour } => {
            let style = ShapeStyle { color: (*colour).into(), filled: true, stroke_width: 0 };
            area.draw(&Rectangle::new([pixel_at(upper_left), pixel_at(lower_right)], style))
        }
        Shape::Disc { centre, radius, colour } => {
            let style = ShapeStyle { color: (*colour).into(), filled: true, stroke_width: 0 };
            area.draw(&Circle::new(pixel_at(centre), pixel(*radius), style))
        }
        Shape::Text { at, text, size, align, run } => {
            let lower = surface.text_lower() * size;
            let at = match run {
                Run::Across => (at.0, at.1 + lower),
                Run::Upwards => (at.0 + lower, at.1),
            };
            area.draw(&Text::new(text.as_str(), pixel_at(&at), text_style(*size, *align, *run)))
        }
    }
}

/// Draws one segment of a path, with square ends if it is horizontal or vertical. The bitmap backend's own joints are
/// too thin if a path turns within its width, as windows over time do.
fn draw_segment<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    from: (i32, i32),
    to: (i32, i32),
    style: ShapeStyle,
) -> Result<(), plotters::drawing::DrawingAreaErrorKind<B::ErrorType>> {
    if from.0 != to.0 && from.1 != to.1 {
        return area.draw(&PathElement::new(vec![from, to], style));
    }
    let before = style.stroke_width as i32 / 2;
    // The backend omits the lower and right edge.
    let after = style.stroke_width as i32 - before;
    let upper_left = (from.0.min(to.0) - before, from.1.min(to.1) - before);
    let lower_right = (from.0.max(to.0) + after, from.1.max(to.1) + after);
    area.draw(&Rectangle::new([upper_left, lower_right], style.filled()))
}

fn text_style(size: f64, align: Align, run: Run) -> TextStyle<'static> {
    let across = match align {
        Align::Left => HPos::Left,
        Align::Centre => HPos::Center,
        Align::Right => HPos::Right,
    };
    let transform = match run {
        Run::Across => FontTransform::None,
        Run::Upwards => FontTransform::Rotate270,
    };
    let style = description(size * PIXELS).transform(transform).into_text_style(&(1, 1));
    style.color(&INK).pos(Pos::new(across, VPos::Center))
}

fn description(size: f64) -> FontDesc<'static> {
    FontDesc::new(FontFamily::SansSerif, size * LINE_HEIGHT, FontStyle::Normal)
}

/// Returns the width of a text in units.
pub fn text_width(text: &str, size: f64) -> f64 {
    let known = font().ok().and_then(|()| description(size * PIXELS).box_size(text).ok());
    // Without the font nothing can be drawn either, which drawing reports.
    known.map_or(0.0, |(width, _)| f64::from(width) / PIXELS)
}

fn pixel(units: f64) -> i32 {
    (units * PIXELS).round() as i32
}

fn pixel_at(point: &Point) -> (i32, i32) {
    (pixel(point.0), pixel(point.1))
}

fn refused(error: impl std::fmt::Display) -> ReportError {
    ReportError::Figure(error.to_string())
}

/// Registers the bundled font with the drawing library, once.
fn font() -> Result<(), ReportError> {
    static REGISTERED: OnceLock<Result<(), ()>> = OnceLock::new();
    let bytes = include_bytes!("../../assets/DejaVuSans-subset.ttf");
    REGISTERED
        .get_or_init(|| register_font("sans-serif", FontStyle::Normal, bytes).map_err(|_| ()))
        .map_err(|()| ReportError::Figure("the bundled font is not readable".to_owned()))
}
