//! Scenes as PNG images, drawn without hardware acceleration or vector instructions, so that every machine writes the
//! same bytes.

use tiny_skia::{Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, Transform};
use ttf_parser::OutlineBuilder;

use super::font::{self, CAPITAL, Pen, text_width};
use super::scene::{Align, Colour, Point, Run, Scene, Shape};
use super::svg::halves;
use crate::error::ReportError;

/// Pixels per unit: print needs more of them than screens.
const PIXELS: u32 = 2;

/// Renders a scene as PNG.
pub fn render(scene: &Scene) -> Result<Vec<u8>, ReportError> {
    let (width, height) = (scene.width * PIXELS, scene.height * PIXELS);
    let mut image = Pixmap::new(width, height).ok_or_else(|| ReportError::Figure("too large".to_owned()))?;
    image.fill(paint(Colour::Paper).1);
    draw_shapes(&mut image, &scene.shapes);
    let pixels: Vec<u8> = image.pixels().iter().flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect();
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(file)
}

fn draw_shapes(image: &mut Pixmap, shapes: &[Shape]) {
    for shape in shapes {
        match shape {
            Shape::Path { points, colour, width } => {
                let points: Vec<Point> = points.iter().map(|&(x, y)| (halves(x), halves(y))).collect();
                if let Some(path) = lines(&points).finish() {
                    let stroke = Stroke { width: *width as f32, line_join: LineJoin::Round, ..Stroke::default() };
                    image.stroke_path(&path, &paint(*colour).0, &stroke, scale(), None);
                }
            }
            Shape::Area { points, colour } => {
                let mut path = lines(points);
                path.close();
                fill(image, path.finish(), *colour);
            }
            Shape::Disc { centre, radius, colour } => {
                fill(image, PathBuilder::from_circle(centre.0 as f32, centre.1 as f32, *radius as f32), *colour);
            }
            Shape::Text { at, text, size, align, run } => {
                fill(image, letters(*at, text, *size, (*align, *run)), Colour::Ink);
            }
            Shape::Datum { shapes, .. } => draw_shapes(image, shapes),
        }
    }
}

fn scale() -> Transform {
    Transform::from_scale(PIXELS as f32, PIXELS as f32)
}

fn paint(colour: Colour) -> (Paint<'static>, Color) {
    let [red, green, blue] = colour.rgb();
    let mut paint = Paint::default();
    paint.set_color_rgba8(red, green, blue, u8::MAX);
    (paint, Color::from_rgba8(red, green, blue, u8::MAX))
}

/// Fills a path, unless it has no extent.
fn fill(image: &mut Pixmap, path: Option<Path>, colour: Colour) {
    if let Some(path) = path {
        image.fill_path(&path, &paint(colour).0, FillRule::Winding, scale(), None);
    }
}

fn lines(points: &[Point]) -> PathBuilder {
    let mut path = PathBuilder::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        if index == 0 { path.move_to(x as f32, y as f32) } else { path.line_to(x as f32, y as f32) }
    }
    path
}

/// Returns the outline of a text.
fn letters((x, y): Point, text: &str, size: f64, (align, run): (Align, Run)) -> Option<Path> {
    let before = match align {
        Align::Left => 0.0,
        Align::Centre => text_width(text, size) / 2.0,
        Align::Right => text_width(text, size),
    };
    let mut writer = Writer { path: PathBuilder::new(), start: 0.0, unit: 0.0 };
    font::outline(text, &mut writer);
    // Outlines point upwards, from the left end of the baseline.
    let (left, lower, size) = (before as f32, (size * CAPITAL / 2.0) as f32, size as f32);
    let upright = Transform::from_scale(size, -size).post_translate(-left, lower);
    let turned = match run {
        Run::Across => upright,
        Run::Upwards => upright.post_rotate(-90.0),
    };
    writer.path.finish()?.transform(turned.post_translate(x as f32, y as f32))
}

/// Builder of the outline of a text, in ems.
struct Writer {
    path: PathBuilder,
    start: f32,
    unit: f32,
}

impl Writer {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.start + x * self.unit, y * self.unit)
    }
}

impl Pen for Writer {
    fn start_glyph(&mut self, start: f64, unit: f64) {
        (self.start, self.unit) = (start as f32, unit as f32);
    }
}

impl OutlineBuilder for Writer {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
