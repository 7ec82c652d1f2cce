//! Shapes of a figure, without a format: charts create them, and [`super::svg`] and [`super::raster`] write them.

/// Colour by its role, which a page may show in other tones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    /// Text and axes.
    Ink,
    /// Grid lines.
    Grid,
    /// Background.
    Paper,
    /// One of the six colours of series, from 0.
    Series(usize),
}

/// Okabe and Ito's colours, in an order that keeps the first few far apart; without black, which is close to
/// [`Colour::Ink`].
const SERIES: [[u8; 3]; 6] = [
    [0x00, 0x72, 0xB2],
    [0xE6, 0x9F, 0x00],
    [0x00, 0x9E, 0x73],
    [0xCC, 0x79, 0xA7],
    [0x56, 0xB4, 0xE9],
    [0xD5, 0x5E, 0x00],
];

impl Colour {
    /// Returns the colour in print.
    pub const fn rgb(self) -> [u8; 3] {
        match self {
            Self::Ink => [0x22; 3],
            Self::Grid => [0xDD; 3],
            Self::Paper => [0xFF; 3],
            Self::Series(number) => SERIES[number % SERIES.len()],
        }
    }
}

/// Returns the colour of the series with this number.
pub const fn colour(series: usize) -> Colour {
    Colour::Series(series % SERIES.len())
}

/// Position in units, from the upper left corner.
pub type Point = (f64, f64);

/// Horizontal alignment of a text at its anchor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    Left,
    Centre,
    Right,
}

/// Direction of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    Across,
    Upwards,
}

/// Mark at a data point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// A shape of a scene.
pub enum Shape {
    /// Line through points.
    Path { points: Vec<Point>, colour: Colour, width: f64 },
    /// Filled polygon.
    Area { points: Vec<Point>, colour: Colour },
    /// Filled circle.
    Disc { centre: Point, radius: f64, colour: Colour },
    /// Text, centred vertically at its anchor.
    Text { at: Point, text: String, size: f64, align: Align, run: Run },
    /// Shapes of one datum, and the numbers that they show.
    Datum { words: String, shapes: Vec<Self> },
}

/// Shapes, drawn in order.
pub struct Scene {
    /// Width in units.
    pub width: u32,
    /// Height in units.
    pub height: u32,
    /// Shapes from the lowest to the uppermost.
    pub shapes: Vec<Shape>,
}

impl Scene {
    /// Creates an empty scene of this size in units.
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    /// Adds a line through `points`.
    pub fn path(&mut self, points: Vec<Point>, colour: Colour, width: f64) {
        self.shapes.push(Shape::Path { points, colour, width });
    }

    /// Adds a filled rectangle.
    pub fn fill(&mut self, (left, top): Point, (right, bottom): Point, colour: Colour) {
        let points = vec![(left, top), (right, top), (right, bottom), (left, bottom)];
        self.shapes.push(Shape::Area { points, colour });
    }

    /// Adds a text, centred vertically at its anchor.
    pub fn text(&mut self, at: Point, text: &str, size: f64, align: Align, run: Run) {
        self.shapes.push(Shape::Text { at, text: text.to_owned(), size, align, run });
    }

    /// Makes the shapes that `draw` adds those of one datum, which `words` describe.
    pub fn datum(&mut self, words: String, draw: impl FnOnce(&mut Self)) {
        let start = self.shapes.len();
        draw(self);
        let shapes = self.shapes.split_off(start);
        self.shapes.push(Shape::Datum { words, shapes });
    }

    /// Adds a mark with radius `size`.
    pub fn mark(&mut self, mark: Mark, (x, y): Point, size: f64, colour: Colour) {
        let area = |corners: &[Point]| Shape::Area {
            points: corners.iter().map(|(dx, dy)| (x + dx * size, y + dy * size)).collect(),
            colour,
        };
        match mark {
            Mark::Circle => self.shapes.push(Shape::Disc { centre: (x, y), radius: size, colour }),
            Mark::Ring => {
                self.shapes.push(Shape::Disc { centre: (x, y), radius: size, colour });
                self.shapes.push(Shape::Disc { centre: (x, y), radius: size * 0.5, colour: Colour::Paper });
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
}
