//! Parameters of a request, and the files that come with it.

use lasthop_study::link::NamedFile;

use crate::plan::LONGEST_QUERY;
use crate::refusal::Refusal;

/// Maximum number of files in a request.
const MOST_FILES: usize = 8;

/// Parameters that have not been taken yet.
pub struct Words(Vec<(String, String)>);

impl Words {
    /// Parses the parameters of a query.
    pub fn read(query: &str) -> Result<Self, Refusal> {
        if query.len() > LONGEST_QUERY {
            return Err(Refusal::of("link", format!("is longer than {LONGEST_QUERY} bytes")));
        }
        let pairs = form_urlencoded::parse(query.as_bytes());
        Ok(Self(pairs.map(|(key, value)| (key.into_owned(), value.trim().to_owned())).collect()))
    }

    /// Takes all values of `key`, without empty ones.
    pub fn all(&mut self, key: &str) -> Vec<String> {
        self.0
            .extract_if(.., |(known, _)| known.as_str() == key)
            .map(|(_, value)| value)
            .filter(|it| !it.is_empty())
            .collect()
    }

    /// Takes the last value of `key`.
    pub fn take(&mut self, key: &str) -> Option<String> {
        self.all(key).pop()
    }

    /// Takes a whole number between `least` and `most`.
    pub fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
        &mut self,
        key: &str,
        [least, most]: [T; 2],
    ) -> Result<Option<T>, Refusal> {
        let Some(text) = self.take(key) else { return Ok(None) };
        let range = least..=most;
        let number = text.parse().ok().filter(|number| range.contains(number));
        let expected = || format!("cannot be \"{text}\"; give {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| Refusal::of(key, expected()))
    }

    /// Takes the values of `key`, given once with commas or several times, and looks them up by name.
    pub fn list<T>(&mut self, key: &str, by_name: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Refusal> {
        let given = self.all(key);
        let names = given.iter().flat_map(|names| names.split(',')).map(str::trim).filter(|name| !name.is_empty());
        let one = |name: &str| by_name(name).map_err(|expected| Refusal::of(key, format!("\"{name}\": {expected}")));
        names.map(one).collect()
    }

    /// Returns an error if a parameter was not taken.
    pub fn finish(self) -> Result<(), Refusal> {
        match self.0.first() {
            Some((key, _)) => Err(Refusal::of(key, "is unknown")),
            None => Ok(()),
        }
    }

    /// Splits `body` into files, which are concatenated; `file=NAME:BYTES` describes each. Names have no folder.
    pub fn files<'b>(&mut self, body: &'b [u8]) -> Result<Vec<NamedFile<'b>>, Refusal> {
        let given = self.all("file");
        if given.is_empty() || given.len() > MOST_FILES {
            return Err(Refusal::of("file", format!("{} files; give 1 to {MOST_FILES}", given.len())));
        }
        let mut rest = body;
        let mut files: Vec<NamedFile<'b>> = Vec::new();
        for text in given {
            let wrong = |why: &str| Refusal::of("file", format!("{text}: {why}"));
            let (name, size) = text.rsplit_once(':').ok_or_else(|| wrong("expected NAME:BYTES"))?;
            let size: usize = size.parse().map_err(|_| wrong("expected NAME:BYTES"))?;
            let plain = !name.is_empty() && name != ".." && name != "." && !name.contains(['/', '\\']);
            if !plain || name.chars().any(char::is_control) {
                return Err(wrong("expected the name of a file, without a folder"));
            }
            if files.iter().any(|file| file.name == name) {
                return Err(wrong("given twice"));
            }
            let (bytes, behind) = rest.split_at_checked(size).ok_or_else(|| wrong("the body ends early"))?;
            files.push(NamedFile { name: name.to_owned(), bytes });
            rest = behind;
        }
        match rest.len() {
            0 => Ok(files),
            more => Err(Refusal::of("file", format!("{more} surplus bytes in the body"))),
        }
    }
}
