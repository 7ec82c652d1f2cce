//! Arithmetic of values: `+ - * /`, parentheses, `sqrt ln abs min max`, and comparisons `< > <= >=`.

/// Evaluates an expression; `look` returns the value of a name.
///
/// # Errors
///
/// Returns an error with the place of the first word that does not fit.
pub fn number(text: &str, look: &dyn Fn(&str) -> f64) -> Result<f64, String> {
    let mut parser = Parser { words: words(text)?, at: 0, look };
    let value = parser.sum()?;
    parser.end().map(|()| value)
}

/// Evaluates a comparison of two expressions.
///
/// # Errors
///
/// Returns an error if it is no comparison.
pub fn claim(text: &str, look: &dyn Fn(&str) -> f64) -> Result<bool, String> {
    let mut parser = Parser { words: words(text)?, at: 0, look };
    let left = parser.sum()?;
    let sign = parser.next().ok_or("expected a comparison")?.to_owned();
    let right = parser.sum()?;
    parser.end()?;
    match &*sign {
        "<" => Ok(left < right),
        ">" => Ok(left > right),
        "<=" => Ok(left <= right),
        ">=" => Ok(left >= right),
        other => Err(format!("expected a comparison, found {other}")),
    }
}

/// Returns the names in an expression.
pub fn names(text: &str) -> Vec<String> {
    let is_name = |word: &String| word.starts_with(|c: char| c.is_ascii_alphabetic());
    words(text).unwrap_or_default().into_iter().filter(is_name).collect()
}

fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            c if c.is_ascii_alphanumeric() => {
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(rest.len())
            }
            '<' | '>' if rest[1..].starts_with('=') => 2,
            '+' | '-' | '*' | '/' | '(' | ')' | '<' | '>' | ',' => 1,
            other => return Err(format!("{text}: unexpected {other}")),
        };
        words.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

struct Parser<'a> {
    words: Vec<String>,
    at: usize,
    look: &'a dyn Fn(&str) -> f64,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn next(&mut self) -> Option<&str> {
        self.at += 1;
        self.words.get(self.at - 1).map(String::as_str)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        self.at += usize::from(is);
        is
    }

    fn end(&self) -> Result<(), String> {
        self.peek().map_or(Ok(()), |word| Err(format!("unexpected {word}")))
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        loop {
            if self.takes("+") {
                value += self.product()?;
            } else if self.takes("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.factor()?;
        loop {
            if self.takes("*") {
                value *= self.factor()?;
            } else if self.takes("/") {
                value /= self.factor()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn factor(&mut self) -> Result<f64, String> {
        if self.takes("(") {
            let value = self.sum()?;
            return if self.takes(")") { Ok(value) } else { Err("expected )".to_owned()) };
        }
        let word = self.next().ok_or("expected a value")?.to_owned();
        if self.takes("(") {
            return self.call(&word);
        }
        match word.parse() {
            Ok(value) => Ok(value),
            Err(_) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => Ok((self.look)(&word)),
            Err(_) => Err(format!("unexpected {word}")),
        }
    }

    fn call(&mut self, function: &str) -> Result<f64, String> {
        let mut given = vec![self.sum()?];
        while self.takes(",") {
            given.push(self.sum()?);
        }
        if !self.takes(")") {
            return Err("expected )".to_owned());
        }
        match (function, &given[..]) {
            ("sqrt", [x]) => Ok(x.sqrt()),
            ("ln", [x]) => Ok(x.ln()),
            ("abs", [x]) => Ok(x.abs()),
            ("min", [x, y]) => Ok(x.min(*y)),
            ("max", [x, y]) => Ok(x.max(*y)),
            _ => Err(format!("there is no function {function} of {} values", given.len())),
        }
    }
}

#[test]
fn expressions_have_the_usual_precedence() {
    let look = |name: &str| if name == "a_1" { 4.0 } else { f64::NAN };
    for (text, value) in [("1 + 2 * 3", 7.0), ("(1 + 2) * 3", 9.0), ("10 - 2 - 3", 5.0), ("sqrt(a_1) / 8", 0.25)] {
        assert_eq!(number(text, &look).as_ref(), Ok(&value), "{text}");
    }
    assert_eq!((claim("a_1 >= 4", &look), claim("max(1, 2) < 2", &look)), (Ok(true), Ok(false)));
    for text in ["", "1 +", "(1", "1 2", "sqrt(1, 2)", "1 ^ 2"] {
        assert!(number(text, &look).is_err(), "{text}");
    }
    assert!(claim("1 + 2", &look).is_err());
}
