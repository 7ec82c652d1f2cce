//! Terms of paths in messages between supervisor and worker, and in recordings, by their names.

use lasthop_proto::link::hybrid::{Copies, Terms, Tier};
use lasthop_settings::values::Choice;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Error as _, Serializer};

/// Formats terms as two words: tier and copies.
pub fn words_of(Terms { tier, copies }: Terms) -> Option<String> {
    Some(format!("{} {}", tier.name()?, copies.name()?))
}

/// Parses the output of [`words_of`].
pub fn terms_of(words: &str) -> Option<Terms> {
    let (tier, copies) = words.split_once(' ')?;
    Some(Terms { tier: Tier::named(tier)?, copies: Copies::named(copies)? })
}

/// Serialises terms as a text.
///
/// # Errors
///
/// Returns the serialiser's error.
pub fn serialize<S: Serializer>(terms: &Terms, to: S) -> Result<S::Ok, S::Error> {
    let words = words_of(*terms).ok_or_else(|| S::Error::custom("terms without a name"))?;
    to.serialize_str(&words)
}

/// Deserialises terms.
///
/// # Errors
///
/// Returns an error if the text does not name terms.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Terms, D::Error> {
    let words = <std::borrow::Cow<'de, str>>::deserialize(from)?;
    terms_of(&words).ok_or_else(|| D::Error::custom("expected a tier and copies"))
}
