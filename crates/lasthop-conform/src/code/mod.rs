//! Blocks of Python: the assertions, assignments and prints that scripts use.
//!
//! A statement is `assert condition, message`, `name = expression` or `print(...)`. Expressions have numbers, strings,
//! names, calls of `abs`, `min`, `max` and `int`, arithmetic, bit operations, comparisons (also chained), `and`,
//! `or`, `not` and conditional expressions.

mod evaluate;
mod expression;
mod tokens;

use std::collections::BTreeMap;

pub use self::evaluate::Number;
use self::evaluate::{Fault, evaluate};
use self::expression::Expression;

/// Maximum number of statements of a block.
const MOST_STATEMENTS: usize = 1000;

/// A parsed block.
#[derive(Clone, PartialEq, Debug)]
pub struct Code {
    statements: Vec<Statement>,
}

#[derive(Clone, PartialEq, Debug)]
struct Statement {
    /// Line within the block, from 0.
    line: u32,
    text: String,
    kind: Kind,
}

#[derive(Clone, PartialEq, Debug)]
enum Kind {
    Assert(Expression, Option<Expression>),
    Assign(String, Expression),
    Print,
}

/// Outcome of a block that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unmet {
    /// Line within the block, from 0.
    pub line: u32,
    /// Statement and values.
    pub message: String,
    /// True if the block requires something that is not supported; false if an assertion failed.
    pub is_unsupported: bool,
}

impl Code {
    /// Parses a block.
    ///
    /// # Errors
    ///
    /// Returns the first statement that is not supported.
    pub fn parse(text: &str) -> Result<Self, Unmet> {
        let mut statements = Vec::new();
        for (line, text) in split(text) {
            let unsupported = |message: String| Unmet { line, message, is_unsupported: true };
            let kind = statement(&text).map_err(unsupported)?;
            if statements.len() == MOST_STATEMENTS {
                return Err(unsupported(format!("more than {MOST_STATEMENTS} statements")));
            }
            statements.push(Statement { line, text, kind });
        }
        Ok(Self { statements })
    }

    /// Returns the names that the block reads and does not assign itself.
    pub fn names(&self) -> Vec<&str> {
        let mut assigned = Vec::new();
        let mut names = Vec::new();
        for statement in &self.statements {
            let mut note = |expression| {
                for name in Expression::names(expression) {
                    if !assigned.contains(&name) && !names.contains(&name) {
                        names.push(name);
                    }
                }
            };
            match &statement.kind {
                Kind::Assert(condition, _) => note(condition),
                Kind::Assign(name, value) => {
                    note(value);
                    assigned.push(name);
                }
                Kind::Print => {}
            }
        }
        names
    }

    /// Runs the block with `variables`, to which it adds those that it assigns.
    ///
    /// # Errors
    ///
    /// Returns the first assertion that fails.
    pub fn run(&self, variables: &mut BTreeMap<String, Number>) -> Result<(), Unmet> {
        for statement in &self.statements {
            let unmet = |message, is_unsupported| Unmet { line: statement.line, message, is_unsupported };
            let value = |expression, variables: &BTreeMap<String, Number>| {
                evaluate(expression, variables).map_err(|fault| match fault {
                    Fault::Unknown(name) => unmet(format!("unknown name `{name}`"), true),
                    Fault::Arithmetic(what) => unmet(format!("{what} in `{}`", statement.text), false),
                })
            };
            match &statement.kind {
                Kind::Assert(condition, _) => {
                    if !value(condition, variables)?.is_true() {
                        return Err(unmet(failed(&statement.text, condition, variables), false));
                    }
                }
                Kind::Assign(name, expression) => {
                    let result = value(expression, variables)?;
                    variables.insert(name.clone(), result);
                }
                Kind::Print => {}
            }
        }
        Ok(())
    }
}

/// Returns the description of a failed assertion: its text, and the values of its names.
fn failed(text: &str, condition: &Expression, variables: &BTreeMap<String, Number>) -> String {
    let mut names = condition.names();
    names.dedup();
    let values: Vec<String> = names
        .iter()
        .filter(|name| name.starts_with(char::is_lowercase))
        .filter_map(|name| Some(format!("{name} is {}", variables.get(*name)?)))
        .collect();
    if values.is_empty() { format!("`{text}` fails") } else { format!("`{text}` fails: {}", values.join(", ")) }
}

/// Splits a block into statements with their lines: at line ends outside parentheses, and at semicolons.
fn split(text: &str) -> Vec<(u32, String)> {
    let (mut statements, mut current) = (Vec::new(), String::new());
    let (mut line, mut start, mut depth, mut quote) = (0, 0, 0_u32, None);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if quote == Some(c) {
            quote = None;
        } else if quote.is_none() {
            match c {
                '"' | '\'' => quote = Some(c),
                '(' | '[' => depth += 1,
                ')' | ']' => depth = depth.saturating_sub(1),
                '#' => {
                    while characters.next_if(|c| *c != '\n').is_some() {}
                    continue;
                }
                '\\' if characters.peek() == Some(&'\n') => {
                    characters.next();
                    line += 1;
                    current.push(' ');
                    continue;
                }
                _ => {}
            }
        }
        let ends = quote.is_none() && (c == ';' || c == '\n' && depth == 0);
        if c == '\n' {
            line += 1;
        }
        if ends {
            statements.push((start, std::mem::take(&mut current)));
            start = line;
        } else {
            if current.is_empty() && !c.is_whitespace() {
                start = line;
            }
            if !(current.is_empty() && c.is_whitespace()) {
                current.push(if c == '\n' { ' ' } else { c });
            }
        }
    }
    statements.push((start, current));
    statements.retain(|(_, text)| !text.trim().is_empty());
    statements.into_iter().map(|(line, text)| (line, text.trim().to_owned())).collect()
}

fn statement(text: &str) -> Result<Kind, String> {
    let tokens = tokens::tokens(text)?;
    if let Some(rest) = text.strip_prefix("assert") {
        if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return Err(format!("Python statement `{text}`"));
        }
        let (condition, message) = expression::with_message(&tokens[1..])?;
        return Ok(Kind::Assert(condition, message));
    }
    if text.starts_with("print") {
        return Ok(Kind::Print);
    }
    match expression::assignment(&tokens)? {
        Some((name, value)) => Ok(Kind::Assign(name, value)),
        None => Err(format!("Python statement `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, known: &[(&str, i64)]) -> Result<(), Unmet> {
        let mut variables =
            known.iter().map(|(name, value)| ((*name).to_owned(), Number::Int(i128::from(*value)))).collect();
        Code::parse(text)?.run(&mut variables)
    }

    #[test]
    fn assertions_hold_or_fail_as_in_python() {
        let known = [("tcpi_snd_cwnd", 10), ("tcpi_lost", 0), ("tcpi_rwnd_limited", 100_500)];
        for text in [
            "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd",
            "assert 98000 <= tcpi_rwnd_limited <= 110000, tcpi_rwnd_limited",
            "assert tcpi_snd_cwnd * 2 - 5 == 15 and not tcpi_lost",
            "assert (tcpi_snd_cwnd & 8) != 0 or False, 'no'",
            "x = tcpi_snd_cwnd / 4; assert x == 2.5; assert x // 1 == 2",
            "assert abs(3 - tcpi_snd_cwnd) == max(7, 1) if tcpi_lost == 0 else False",
            "assert -7 // 2 == -4 and -7 % 3 == 2 and 2 ** 10 == 1024 and 1 << 4 == 0x10",
            "print(tcpi_snd_cwnd)\nassert (tcpi_snd_cwnd ==\n   10)\n# assert False",
            "assert tcpi_lost == 0; \\\n assert tcpi_snd_cwnd == 10",
        ] {
            assert_eq!(run(text, &known), Ok(()), "{text}");
        }
        let unmet = run("\nassert tcpi_lost == 0\nassert tcpi_snd_cwnd == 9, tcpi_snd_cwnd", &known).unwrap_err();
        assert_eq!((unmet.line, unmet.is_unsupported), (2, false));
        assert_eq!(unmet.message, "`assert tcpi_snd_cwnd == 9, tcpi_snd_cwnd` fails: tcpi_snd_cwnd is 10");
    }

    #[test]
    fn unsupported_code_is_named_and_never_panics() {
        for text in ["import os", "for x in y: pass", "assert tcpi_other == 1", "assert (1", "assert 1 +", "f(2)"] {
            assert!(run(text, &[]).unwrap_err().is_unsupported, "{text}");
        }
        for text in ["assert 1 / 0", "assert 1 << 9999", "assert 2 ** 9999 > 1", "assert 1 % 0"] {
            assert!(!run(text, &[]).unwrap_err().is_unsupported, "{text}");
        }
        let nested = format!("assert {}1{}", "(".repeat(5000), ")".repeat(5000));
        assert!(run(&nested, &[]).unwrap_err().is_unsupported);
    }

    #[test]
    fn names_are_those_that_the_block_does_not_assign() {
        let code = Code::parse("x = tcpi_rtt + 1; assert x > tcpi_rttvar, tcpi_lost").unwrap();
        assert_eq!(code.names(), ["tcpi_rtt", "tcpi_rttvar"]);
    }
}
