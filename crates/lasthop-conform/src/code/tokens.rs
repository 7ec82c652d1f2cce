//! Tokens of a statement.

/// A token.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Token {
    Int(i128),
    Float(f64),
    Text(String),
    Name(String),
    Sign(&'static str),
}

/// Operators and brackets, longer ones first.
const SIGNS: [&str; 27] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "(", ")", "[", "]", ",", "+", "-", "*", "/", "%", "&", "|", "^",
    "~", "<", ">", "=", ":", ".",
];

/// Splits a statement into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let (mut rest, mut tokens) = (text.trim_start(), Vec::new());
    while let Some(first) = rest.chars().next() {
        let taken = if first.is_ascii_digit() || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()) {
            let (token, taken) = number(rest)?;
            tokens.push(token);
            taken
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(Token::Name(rest[..end].to_owned()));
            end
        } else if first == '"' || first == '\'' {
            let Some(end) = rest[1..].find(first) else { return Err("a string without closing quote".to_owned()) };
            tokens.push(Token::Text(rest[1..=end].to_owned()));
            end + 2
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            sign.len()
        } else {
            return Err(format!("`{first}` in Python code"));
        };
        rest = rest[taken..].trim_start();
    }
    Ok(tokens)
}

fn number(text: &str) -> Result<(Token, usize), String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_').unwrap_or(text.len());
    let digits = text[..end].replace('_', "");
    let token = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        i128::from_str_radix(hex, 16).ok().map(Token::Int)
    } else if digits.contains(['.', 'e', 'E']) {
        digits.parse().ok().filter(|value: &f64| value.is_finite()).map(Token::Float)
    } else {
        digits.parse().ok().map(Token::Int)
    };
    token.map(|token| (token, end)).ok_or_else(|| format!("`{digits}`, which is no number"))
}
