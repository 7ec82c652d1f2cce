//! Text inside HTML and SVG.

/// `text` with what means something to HTML and XML replaced, inside and outside of double quotes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
