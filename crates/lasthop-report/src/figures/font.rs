//! The bundled font: widths of texts for the layout, and outlines for images.

use std::sync::OnceLock;

use ttf_parser::{Face, GlyphId};

pub use ttf_parser::OutlineBuilder;

/// Height of a capital letter in ems, of which half lies above and half below the middle of a line.
pub const CAPITAL: f64 = 0.72;

/// Returns the face, which is part of the program.
fn face() -> &'static Face<'static> {
    static FACE: OnceLock<Face<'static>> = OnceLock::new();
    let bytes = include_bytes!("../../assets/DejaVuSans-subset.ttf");
    FACE.get_or_init(|| Face::parse(bytes, 0).expect("the bundled font is readable"))
}

/// Returns the glyphs of a text, each with its distance from the start in ems.
fn glyphs(text: &str) -> impl Iterator<Item = (f64, GlyphId)> {
    let (face, mut at) = (face(), 0.0);
    text.chars().map(move |letter| {
        let glyph = face.glyph_index(letter).unwrap_or_default();
        let start = at;
        at += advance(face, glyph);
        (start, glyph)
    })
}

fn advance(face: &Face, glyph: GlyphId) -> f64 {
    f64::from(face.glyph_hor_advance(glyph).unwrap_or_default()) / f64::from(face.units_per_em())
}

/// Returns the width of a text.
pub fn text_width(text: &str, size: f64) -> f64 {
    glyphs(text).last().map_or(0.0, |(start, glyph)| (start + advance(face(), glyph)) * size)
}

/// Passes the outlines of a text to `builder`, which receives the start of each glyph first. Lengths are in ems, upwards
/// from the baseline.
pub fn outline(text: &str, builder: &mut impl Pen) {
    for (start, glyph) in glyphs(text) {
        builder.start_glyph(start, 1.0 / f64::from(face().units_per_em()));
        face().outline_glyph(glyph, builder);
    }
}

/// Receiver of outlines.
pub trait Pen: OutlineBuilder {
    /// Starts a glyph, whose outline is in units of `unit` ems from `start`.
    fn start_glyph(&mut self, start: f64, unit: f64);
}

#[cfg(test)]
mod tests {
    use super::text_width;

    /// DejaVu Sans has 2048 units per em: `m` takes 1995, and a space 651.
    #[test]
    fn widths_are_those_of_the_font() {
        assert_eq!(text_width("", 14.0), 0.0);
        let width = text_width("m m", 10.0);
        assert!((width - 10.0 * f64::from(1995 + 651 + 1995) / 2048.0).abs() < 1e-9, "{width}");
    }
}
