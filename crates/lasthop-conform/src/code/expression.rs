//! Expressions of Python by precedence.

use super::tokens::Token;

/// Maximum depth of an expression.
const MOST_DEPTH: u8 = 40;

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Expression {
    Int(i128),
    Float(f64),
    Text(String),
    Name(String),
    Unary(&'static str, Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// Operands and the comparisons between them.
    Compare(Vec<Expression>, Vec<&'static str>),
    Call(String, Vec<Expression>),
    /// Condition, value if it holds, value otherwise.
    If(Box<[Expression; 3]>),
}

impl Expression {
    /// Returns the names that the expression reads, in order.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.collect(&mut names);
        names
    }

    fn collect<'a>(&'a self, names: &mut Vec<&'a str>) {
        match self {
            Self::Name(name) => names.push(name),
            Self::Unary(_, of) => of.collect(names),
            Self::Binary(_, left, right) => {
                left.collect(names);
                right.collect(names);
            }
            Self::Compare(parts, _) | Self::Call(_, parts) => parts.iter().for_each(|part| part.collect(names)),
            Self::If(parts) => parts.iter().for_each(|part| part.collect(names)),
            Self::Int(_) | Self::Float(_) | Self::Text(_) => {}
        }
    }
}

/// Parses the condition of an assertion and its message.
pub(super) fn with_message(tokens: &[Token]) -> Result<(Expression, Option<Expression>), String> {
    let mut parser = Parser { tokens, depth: 0 };
    let condition = parser.ternary()?;
    let message = if parser.take(",") { Some(parser.ternary()?) } else { None };
    // The message may be a tuple.
    while parser.take(",") {
        parser.ternary()?;
    }
    parser.end()?;
    Ok((condition, message))
}

/// Parses `name = expression`; `None` if the statement is of another kind.
pub(super) fn assignment(tokens: &[Token]) -> Result<Option<(String, Expression)>, String> {
    let [Token::Name(name), Token::Sign("="), rest @ ..] = tokens else { return Ok(None) };
    let mut parser = Parser { tokens: rest, depth: 0 };
    let value = parser.ternary()?;
    parser.end()?;
    Ok(Some((name.clone(), value)))
}

struct Parser<'a> {
    tokens: &'a [Token],
    depth: u8,
}

/// Binary operators from the weakest to the strongest, below comparisons.
const LEVELS: [&[&str]; 6] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"], &["*", "//", "/", "%"]];

const COMPARISONS: [&str; 6] = ["<=", ">=", "==", "!=", "<", ">"];

impl Parser<'_> {
    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.tokens.first(), Some(Token::Sign(next)) if *next == sign)
            || matches!(self.tokens.first(), Some(Token::Name(next)) if next == sign);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn take_one(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        signs.iter().copied().find(|sign| self.take(sign))
    }

    fn end(&self) -> Result<(), String> {
        match self.tokens.first() {
            None => Ok(()),
            Some(token) => Err(format!("Python code at {token:?}")),
        }
    }

    fn ternary(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err("an expression that is nested too deeply".to_owned());
        }
        let value = self.or()?;
        let result = if self.take("if") {
            let condition = self.or()?;
            if !self.take("else") {
                return Err("an `if` without `else`".to_owned());
            }
            Expression::If(Box::new([condition, value, self.ternary()?]))
        } else {
            value
        };
        self.depth -= 1;
        Ok(result)
    }

    fn or(&mut self) -> Result<Expression, String> {
        let mut left = self.and()?;
        while self.take("or") {
            left = Expression::Binary("or", Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, String> {
        let mut left = self.not()?;
        while self.take("and") {
            left = Expression::Binary("and", Box::new(left), Box::new(self.not()?));
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expression, String> {
        if self.take("not") {
            let mut negations = 1;
            while self.take("not") {
                negations += 1;
            }
            let of = Expression::Unary("not", Box::new(self.comparison()?));
            return Ok(if negations % 2 == 1 { of } else { Expression::Unary("not", Box::new(of)) });
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expression, String> {
        let first = self.binary(0)?;
        let (mut operands, mut signs) = (vec![first], Vec::new());
        while let Some(sign) = self.take_one(&COMPARISONS) {
            signs.push(sign);
            operands.push(self.binary(0)?);
        }
        Ok(if signs.is_empty() { operands.swap_remove(0) } else { Expression::Compare(operands, signs) })
    }

    fn binary(&mut self, level: usize) -> Result<Expression, String> {
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(sign) = self.take_one(signs) {
            left = Expression::Binary(sign, Box::new(left), Box::new(self.binary(level + 1)?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, String> {
        if let Some(sign) = self.take_one(&["-", "+", "~"]) {
            self.depth += 1;
            if self.depth > MOST_DEPTH {
                return Err("an expression that is nested too deeply".to_owned());
            }
            let of = self.unary()?;
            self.depth -= 1;
            return Ok(Expression::Unary(sign, Box::new(of)));
        }
        let base = self.atom()?;
        if self.take("**") {
            return Ok(Expression::Binary("**", Box::new(base), Box::new(self.atom()?)));
        }
        Ok(base)
    }

    fn atom(&mut self) -> Result<Expression, String> {
        let Some((first, rest)) = self.tokens.split_first() else {
            return Err("an expression that ends early".to_owned());
        };
        self.tokens = rest;
        match first {
            Token::Int(value) => Ok(Expression::Int(*value)),
            Token::Float(value) => Ok(Expression::Float(*value)),
            Token::Text(text) => Ok(Expression::Text(text.clone())),
            Token::Name(name) if name == "True" => Ok(Expression::Int(1)),
            Token::Name(name) if name == "False" => Ok(Expression::Int(0)),
            Token::Name(name) if self.take("(") => {
                let mut arguments = Vec::new();
                while !self.take(")") {
                    arguments.push(self.ternary()?);
                    if !self.take(",") && !matches!(self.tokens.first(), Some(Token::Sign(")"))) {
                        return Err(format!("a call of `{name}` without closing parenthesis"));
                    }
                }
                Ok(Expression::Call(name.clone(), arguments))
            }
            Token::Name(name) => Ok(Expression::Name(name.clone())),
            Token::Sign("(") => {
                let inner = self.ternary()?;
                if self.take(")") { Ok(inner) } else { Err("a parenthesis that is not closed".to_owned()) }
            }
            Token::Sign(sign) => Err(format!("`{sign}` in Python code")),
        }
    }
}
