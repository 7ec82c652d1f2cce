//! Syntax tree of a script.

use lasthop_proto::packet::Ecn;
use lasthop_proto::time::Duration;

/// A parsed script.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Script {
    /// Options in front of the events: `--name=value`.
    pub flags: Vec<Flag>,
    /// Shell command in front of the events, which sets up the host.
    pub setup: Option<Command>,
    /// Events, in order.
    pub events: Vec<Event>,
    /// Shell command after the events.
    pub cleanup: Option<Command>,
}

/// An option in front of the events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flag {
    /// Line of the option.
    pub line: u32,
    /// Name without dashes.
    pub name: String,
    /// Value after `=`, empty if there is none.
    pub value: String,
}

/// A shell command between backquotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// Line of the command.
    pub line: u32,
    /// Text between the backquotes.
    pub text: String,
}

/// Something that happens at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Line of the event.
    pub line: u32,
    /// Time of the event.
    pub time: Time,
    /// Kind and contents of the event.
    pub action: Action,
}

/// Time of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    /// Time since the start of the script.
    Absolute(Duration),
    /// Time since the previous event.
    Relative(Duration),
    /// Any time (`*`).
    Any,
    /// Between two times since the start of the script.
    AbsoluteRange(Duration, Duration),
    /// Between two times since the previous event.
    RelativeRange(Duration, Duration),
}

/// Kind and contents of an event.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// A segment that the script sends to the stack (`<`).
    Inbound(SegmentSpec),
    /// A segment that the script expects from the stack (`>`).
    Outbound(SegmentSpec),
    /// A packet of another kind: its protocol.
    Other(String),
    /// A socket call.
    Call(Call),
    /// A shell command.
    Command(String),
    /// A block of Python.
    Code(String),
}

/// ECN field of a packet in a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnSpec {
    /// One codepoint.
    Is(Ecn),
    /// Either ECT(0) or ECT(1).
    Capable,
}

/// A segment of a script. Numbers are relative to the initial sequence numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SegmentSpec {
    /// ECN field, if the script mentions it.
    pub ecn: Option<EcnSpec>,
    /// Source and destination port, if the script mentions them.
    pub ports: Option<(u16, u16)>,
    /// Flags as the nine low bits of the header's field.
    pub flags: u16,
    /// Counter of marked packets that the flags contain (`.5`); it replaces AE, CWR and ECE.
    pub ace: Option<u8>,
    /// First sequence number.
    pub seq: u32,
    /// Bytes of payload.
    pub len: u32,
    /// Acknowledgment number.
    pub ack: Option<u32>,
    /// Window field.
    pub window: Option<u16>,
    /// Urgent pointer.
    pub urgent: Option<u16>,
    /// Options.
    pub options: OptionsSpec,
}

/// Options of a segment in a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionsSpec {
    /// Any (`<...>`).
    Any,
    /// These, in order, without padding.
    List(Vec<TcpOption>),
}

impl Default for OptionsSpec {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

/// A TCP option. Padding (`nop`, `eol`) is not kept.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TcpOption {
    /// Maximum segment size.
    Mss(u16),
    /// Window scale.
    WindowScale(u8),
    /// SACK permitted.
    SackPermitted,
    /// SACK blocks: left and right edge.
    Sack(Vec<(u32, u32)>),
    /// Timestamps: value and echo.
    Timestamps(u32, u32),
    /// Counters of accurate ECN, in the order and number of the option: field and value.
    AccEcn(Vec<(AccEcnField, u32)>),
    /// Fast Open, with the bytes of the cookie as hexadecimal digits. The flag is set for the experimental kind.
    FastOpen(String, bool),
    /// MD5 signature.
    Md5,
}

/// A counter of the accurate ECN option.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AccEcnField {
    /// Bytes with ECT(0).
    E0,
    /// Bytes with CE.
    Ce,
    /// Bytes with ECT(1).
    E1,
}

/// A socket call with its expected result.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// Name of the call.
    pub name: String,
    /// Arguments.
    pub args: Vec<Value>,
    /// Time at which a call that blocks returns.
    pub end: Option<Duration>,
    /// Expected result.
    pub result: Value,
    /// Expected error, such as `EINPROGRESS`.
    pub errno: Option<String>,
}

/// An argument of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Anything (`...`).
    Any,
    /// A number.
    Int(i64),
    /// A symbol.
    Word(String),
    /// A string.
    Text(String),
    /// Alternatives or flags that `|` connects.
    Or(Vec<Value>),
    /// A list in brackets.
    List(Vec<Value>),
    /// A structure in braces.
    Struct(Vec<Value>),
    /// A named value: a field of a structure.
    Named(Box<Value>, Box<Value>),
    /// A function with arguments, such as `htons(80)`.
    Apply(String, Vec<Value>),
}

impl Value {
    /// Returns the number, if it is one.
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns the symbols of the value: itself, or the parts that `|` connects.
    pub fn words(&self) -> Vec<&str> {
        match self {
            Self::Word(word) => vec![word],
            Self::Or(parts) => parts.iter().flat_map(Self::words).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the value of a field of a structure.
    pub fn field(&self, name: &str) -> Option<&Self> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().find_map(|field| match field {
            Self::Named(key, value) if key.words() == [name] => Some(&**value),
            _ => None,
        })
    }

    /// Returns the first element of a list.
    pub fn first(&self) -> Option<&Self> {
        match self {
            Self::List(elements) => elements.first(),
            _ => None,
        }
    }
}
