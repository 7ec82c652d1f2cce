//! Text inside HTML and SVG.

/// Escapes characters with a meaning in HTML and XML, inside and outside of double quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
