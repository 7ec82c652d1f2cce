//! A position in the text of a script.

use super::ParseError;

/// Characters of a script that are not read yet.
pub(super) struct Cursor<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text, line: 1 }
    }

    /// Returns the line of the next token.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// Returns the text that is not read yet.
    pub(super) fn rest(&self) -> &'a str {
        self.rest
    }

    /// Skips `bytes` of text, which must end at a character's boundary, and returns them.
    pub(super) fn advance(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.line += taken.matches('\n').count() as u32;
        self.rest = rest;
        taken
    }

    /// Skips white space and comments.
    pub(super) fn skip_blank(&mut self) -> Result<(), ParseError> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.advance(blank);
            if self.rest.starts_with("//") || self.rest.starts_with('#') {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.advance(end);
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(self.error("a comment that starts with /* has no */; add it"));
                };
                self.advance(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    /// Skips blanks and returns whether `token` follows, which is then skipped.
    pub(super) fn take(&mut self, token: &str) -> Result<bool, ParseError> {
        self.skip_blank()?;
        let found = self.rest.starts_with(token);
        if found {
            self.advance(token.len());
        }
        Ok(found)
    }

    /// Skips blanks and `token`, or fails with what a line needs there.
    pub(super) fn expect(&mut self, token: &str, remedy: &str) -> Result<(), ParseError> {
        if self.take(token)? {
            Ok(())
        } else {
            Err(self.error(&format!("expected `{token}`, found {}; {remedy}", self.found())))
        }
    }

    /// Returns a word of letters, digits and underscores without skipping it; it is empty if none follows.
    pub(super) fn peek_word(&mut self) -> Result<&'a str, ParseError> {
        self.skip_blank()?;
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        Ok(&self.rest[..end])
    }

    /// Skips a word and returns it.
    pub(super) fn word(&mut self) -> Result<&'a str, ParseError> {
        let word = self.peek_word()?;
        Ok(self.advance(word.len()))
    }

    /// Skips `word` if it follows as a whole word.
    pub(super) fn take_word(&mut self, word: &str) -> Result<bool, ParseError> {
        let found = self.peek_word()? == word;
        if found {
            self.advance(word.len());
        }
        Ok(found)
    }

    /// Returns the character after blanks.
    pub(super) fn peek(&mut self) -> Result<Option<char>, ParseError> {
        self.skip_blank()?;
        Ok(self.rest.chars().next())
    }

    /// Reads a decimal number without sign.
    pub(super) fn number(&mut self, name: &str) -> Result<u64, ParseError> {
        self.skip_blank()?;
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        match self.rest[..end].parse() {
            Ok(number) => {
                self.advance(end);
                Ok(number)
            }
            Err(_) => Err(self.error(&format!("expected {name}, found {}; write a decimal number", self.found()))),
        }
    }

    /// Reads a number of at most `most`.
    pub(super) fn bounded<T: TryFrom<u64>>(&mut self, name: &str, most: u64) -> Result<T, ParseError> {
        let number = self.number(name)?;
        T::try_from(number)
            .ok()
            .filter(|_| number <= most)
            .ok_or_else(|| self.error(&format!("{name} is {number}; it may be at most {most}")))
    }

    /// Returns the next characters for a message.
    pub(super) fn found(&self) -> String {
        let line: String = self.rest.chars().take_while(|c| *c != '\n').take(24).collect();
        match line.trim_end() {
            "" if self.rest.is_empty() => "the end of the file".to_owned(),
            "" => "the end of the line".to_owned(),
            text => format!("`{text}`"),
        }
    }

    /// Returns an error at this position.
    pub(super) fn error(&self, message: &str) -> ParseError {
        ParseError { line: self.line, message: message.to_owned() }
    }
}
