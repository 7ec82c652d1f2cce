//! Values of expressions.

use std::collections::BTreeMap;
use std::fmt;

use super::expression::Expression;

/// A value of Python code.
#[derive(Clone, PartialEq, Debug)]
pub enum Number {
    /// A whole number.
    Int(i128),
    /// Another number.
    Float(f64),
    /// A string.
    Text(String),
}

impl Number {
    /// Returns whether the value counts as true.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
        }
    }

    fn float(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Text(_) => None,
        }
    }

    fn order(&self, other: &Self) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (a, b) => a.float()?.partial_cmp(&b.float()?),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// Reason why an expression has no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A name or function that is not known.
    Unknown(String),
    /// An operation without result.
    Arithmetic(&'static str),
}

type Value = Result<Number, Fault>;

/// Returns the value of an expression.
pub(super) fn evaluate(expression: &Expression, variables: &BTreeMap<String, Number>) -> Value {
    let of = |expression| evaluate(expression, variables);
    match expression {
        Expression::Int(value) => Ok(Number::Int(*value)),
        Expression::Float(value) => Ok(Number::Float(*value)),
        Expression::Text(text) => Ok(Number::Text(text.clone())),
        Expression::Name(name) => variables.get(name).cloned().ok_or_else(|| Fault::Unknown(name.clone())),
        Expression::Unary(sign, operand) => unary(sign, of(operand)?),
        Expression::Binary("and", left, right) => {
            let left = of(left)?;
            if left.is_true() { of(right) } else { Ok(left) }
        }
        Expression::Binary("or", left, right) => {
            let left = of(left)?;
            if left.is_true() { Ok(left) } else { of(right) }
        }
        Expression::Binary(sign, left, right) => binary(sign, &of(left)?, &of(right)?),
        Expression::Compare(operands, signs) => {
            let mut left = of(&operands[0])?;
            for (sign, operand) in signs.iter().zip(&operands[1..]) {
                let right = of(operand)?;
                if !holds(sign, &left, &right)? {
                    return Ok(Number::Int(0));
                }
                left = right;
            }
            Ok(Number::Int(1))
        }
        Expression::Call(name, arguments) => {
            let values = arguments.iter().map(of).collect::<Result<Vec<_>, _>>()?;
            call(name, values)
        }
        Expression::If(parts) => of(if of(&parts[0])?.is_true() { &parts[1] } else { &parts[2] }),
    }
}

fn unary(sign: &str, value: Number) -> Value {
    Ok(match (sign, value) {
        ("not", value) => Number::Int(i128::from(!value.is_true())),
        ("+", value) => value,
        ("-", Number::Int(value)) => Number::Int(value.wrapping_neg()),
        ("-", Number::Float(value)) => Number::Float(-value),
        ("~", Number::Int(value)) => Number::Int(!value),
        _ => return Err(Fault::Arithmetic("an operation on a string")),
    })
}

fn holds(sign: &str, left: &Number, right: &Number) -> Result<bool, Fault> {
    let order = left.order(right);
    match sign {
        "==" => Ok(order.is_some_and(std::cmp::Ordering::is_eq)),
        "!=" => Ok(!order.is_some_and(std::cmp::Ordering::is_eq)),
        _ => {
            let order = order.ok_or(Fault::Arithmetic("a comparison of a string with a number"))?;
            Ok(match sign {
                "<" => order.is_lt(),
                "<=" => order.is_le(),
                ">" => order.is_gt(),
                _ => order.is_ge(),
            })
        }
    }
}

fn binary(sign: &str, left: &Number, right: &Number) -> Value {
    if let (Number::Int(a), Number::Int(b), true) = (left, right, sign != "/") {
        return integers(sign, *a, *b);
    }
    let (Some(a), Some(b)) = (left.float(), right.float()) else {
        return Err(Fault::Arithmetic("an operation on a string"));
    };
    if b == 0.0 && matches!(sign, "/" | "//" | "%") {
        return Err(Fault::Arithmetic("a division by zero"));
    }
    Ok(Number::Float(match sign {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => (a / b).floor(),
        "%" => a - b * (a / b).floor(),
        "**" => a.powf(b),
        _ => return Err(Fault::Arithmetic("a bit operation on a fraction")),
    }))
}

fn integers(sign: &str, a: i128, b: i128) -> Value {
    const RANGE: Fault = Fault::Arithmetic("a number out of range");
    let result = match sign {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "//" | "%" if b == 0 => return Err(Fault::Arithmetic("a division by zero")),
        // Python rounds towards minus infinity.
        "//" => a.checked_div(b).map(|q| if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }),
        "%" => a.checked_rem(b).map(|r| if r != 0 && (r < 0) != (b < 0) { r + b } else { r }),
        "**" => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        "&" => Some(a & b),
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "<<" => u32::try_from(b).ok().filter(|b| *b < 64).and_then(|b| a.checked_mul(1 << b)),
        ">>" => u32::try_from(b).ok().map(|b| a >> b.min(127)),
        _ => None,
    };
    result.map(Number::Int).ok_or(RANGE)
}

fn call(name: &str, values: Vec<Number>) -> Value {
    let pick = |wanted: std::cmp::Ordering| {
        values.iter().cloned().reduce(|best, next| if next.order(&best) == Some(wanted) { next } else { best })
    };
    let result = match (name, values.as_slice()) {
        ("abs", [Number::Int(value)]) => value.checked_abs().map(Number::Int),
        ("abs", [Number::Float(value)]) => Some(Number::Float(value.abs())),
        ("int", [Number::Int(value)]) => Some(Number::Int(*value)),
        ("int", [Number::Float(value)]) => Some(Number::Int(*value as i128)),
        ("min", [_, ..]) => pick(std::cmp::Ordering::Less),
        ("max", [_, ..]) => pick(std::cmp::Ordering::Greater),
        _ => return Err(Fault::Unknown(format!("{name}()"))),
    };
    result.ok_or(Fault::Arithmetic("a number out of range"))
}
