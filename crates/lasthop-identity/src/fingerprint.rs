//! Fingerprints that are the same on any machine and with any version of the compiler.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// Number that identifies a computation by its inputs, in order, and by [`SOURCES`](crate::SOURCES).
#[derive(Clone, Debug)]
pub struct Fingerprint(SipHasher24);

impl Fingerprint {
    /// Creates a fingerprint that begins with the identity of this build.
    pub fn new() -> Self {
        Self::of(crate::SOURCES)
    }

    fn of(sources: &str) -> Self {
        Self(SipHasher24::new()).text(sources)
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        // The length distinguishes "ab", "c" from "a", "bc".
        let mut with_length = self.number(text.len() as u64);
        with_length.0.write(text.as_bytes());
        with_length
    }

    /// Adds several texts, and their number.
    #[must_use]
    pub fn texts<T: AsRef<str>>(self, texts: impl ExactSizeIterator<Item = T>) -> Self {
        let counted = self.number(texts.len() as u64);
        texts.fold(counted, Self::text)
    }

    /// Adds a number.
    #[must_use]
    pub fn number(mut self, number: u64) -> Self {
        self.0.write(&number.to_le_bytes());
        self
    }

    /// Returns the fingerprint.
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::Fingerprint;

    /// The value is fixed: a fingerprint that one release writes is read by another.
    #[test]
    fn a_fingerprint_is_stable() {
        let of = |sources| Fingerprint::of(sources).text("rate = 1").number(7).texts(["a", "b"].iter()).finish();
        assert_eq!(format!("{:016x}", of("0123456789abcdef")), "04c187cab0324223");
        assert_ne!(of("0123456789abcdef"), of("0123456789abcdee"));
    }

    #[test]
    fn what_stands_where_matters() {
        let of = |parts: &[&str]| Fingerprint::of("").texts(parts.iter()).finish();
        let all = [of(&["ab", "c"]), of(&["a", "bc"]), of(&["c", "ab"]), of(&["ab", "c", ""]), of(&["abc"])];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }
}
