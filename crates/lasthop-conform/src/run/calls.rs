//! Socket calls in a run.

use lasthop_proto::time::{Duration, Instant};

use super::{File, Run, Step, Stop, differs};
use crate::script::{Call, Time, Value};
use crate::stack::{Errno, Readiness, Shutdown, Socket, WriteFlags};

/// Maximum wait for a call that blocks.
const LONGEST: Duration = Duration::from_secs(86_400);

/// `O_NONBLOCK` on Linux.
const O_NONBLOCK: i64 = 0x800;

/// Calls that the runner understands.
const KNOWN: [&str; 20] = [
    "socket",
    "bind",
    "listen",
    "accept",
    "connect",
    "read",
    "recv",
    "recvfrom",
    "recvmsg",
    "write",
    "send",
    "sendto",
    "sendmsg",
    "close",
    "shutdown",
    "fcntl",
    "setsockopt",
    "getsockopt",
    "poll",
    "ioctl",
];

/// Returns whether the runner understands a call.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// A call that blocks.
pub(super) struct Pending {
    pub(super) line: u32,
    pub(super) has_failed: bool,
    call: Call,
    /// Time at which it is to return.
    end: Option<Instant>,
    /// Time of the call.
    start: Instant,
    /// Bytes written so far.
    written: u64,
    has_begun: bool,
}

/// Outcome of an attempt.
enum Outcome {
    Returns(Result<i64, Errno>),
    Blocks,
    Lacks(String),
    /// The value of an option is not what the script expects.
    Unexpected(String),
}

fn returns(result: Result<u64, Errno>) -> Outcome {
    Outcome::Returns(result.map(|value| value as i64))
}

impl Run<'_> {
    /// Returns the socket that code blocks examine: the last one that connected, listened or was accepted.
    pub(super) fn socket_under_test(&self) -> Option<Socket> {
        self.under_test.or_else(|| self.sockets.values().next_back().map(|file| file.socket))
    }

    /// Makes a call.
    pub(super) fn call(&mut self, line: u32, call: &Call, time: Time) -> Step {
        let end = call.end.map(|end| match time {
            Time::Absolute(_) | Time::AbsoluteRange(..) => Instant::ZERO + end,
            Time::Relative(_) | Time::RelativeRange(..) | Time::Any => self.clock.base() + end,
        });
        let start = self.clock.now;
        let mut pending =
            Pending { line, has_failed: false, call: call.clone(), end, start, written: 0, has_begun: false };
        let outcome = self.attempt(&mut pending);
        match outcome {
            Outcome::Blocks if end.is_some() => {
                self.pending = Some(pending);
                self.drain()
            }
            outcome => {
                self.conclude(call, outcome)?;
                self.drain()
            }
        }
    }

    /// Repeats a call that blocks. Returns whether it ended.
    pub(super) fn repeat_call(&mut self) -> Result<bool, Stop> {
        let Some(mut pending) = self.pending.take() else { return Ok(false) };
        let outcome = self.attempt(&mut pending);
        if matches!(outcome, Outcome::Blocks) {
            self.pending = Some(pending);
            return Ok(false);
        }
        let concluded = self.conclude(&pending.call, outcome).and_then(|()| {
            let Some(end) = pending.end else { return Ok(()) };
            // As in packetdrill, it derives from the time between call and return.
            let tolerance = self.plan.tolerance.of(end.since(pending.start));
            let now = self.clock.now;
            if end.since(now) <= tolerance && now.since(end) <= tolerance {
                return Ok(());
            }
            let name = &pending.call.name;
            let (end, now) = (end.as_secs_f64(), now.as_secs_f64());
            Err(differs(format!("{name}() returns at {end:.6} s"), format!("it returns at {now:.6} s")))
        });
        if concluded.is_err() {
            pending.has_failed = true;
            self.pending = Some(pending);
        }
        concluded.map(|()| true)
    }

    /// Lets time pass until the call that blocks has returned.
    pub(super) fn finish_call(&mut self) -> Step {
        let limit = self.clock.now + LONGEST;
        while self.pending.is_some() {
            if !self.advance_a_step(limit)?
                && let Some(pending) = &mut self.pending
            {
                pending.has_failed = true;
                return Err(differs(format!("{}() returns", pending.call.name), "it blocks"));
            }
        }
        Ok(())
    }

    /// Compares the outcome of a call with the expected one.
    fn conclude(&mut self, call: &Call, outcome: Outcome) -> Step {
        let expected = match (&call.result, &call.errno) {
            (result, Some(errno)) => format!("{}() = {} {errno}", call.name, text(result)),
            (result, None) => format!("{}() = {}", call.name, text(result)),
        };
        let (value, errno) = match outcome {
            Outcome::Lacks(reason) => return Err(Stop::Lacks(reason)),
            Outcome::Unexpected(got) => return self.unless_ignored(differs(expected, got)),
            Outcome::Blocks => return Err(differs(expected, "it blocks")),
            Outcome::Returns(Ok(value)) => (value, None),
            Outcome::Returns(Err(errno)) => (-1, Some(errno.name())),
        };
        let same_errno = match (errno, &call.errno) {
            (Some(got), Some(expected)) => {
                let unified = |name: &str| if name == "EWOULDBLOCK" { "EAGAIN".to_owned() } else { name.to_owned() };
                unified(got) == unified(expected)
            }
            (Some(_), None) => true,
            (None, expected) => expected.is_none(),
        };
        let same_value = match &call.result {
            Value::Any => true,
            result => result.int() == Some(value),
        };
        if same_errno && same_value {
            return Ok(());
        }
        let got = errno.map_or_else(|| value.to_string(), |errno| format!("{value} {errno}"));
        self.unless_ignored(differs(expected, got))
    }

    fn unless_ignored(&self, stop: Stop) -> Step {
        if self.plan.ignores_results { Ok(()) } else { Err(stop) }
    }

    fn attempt(&mut self, pending: &mut Pending) -> Outcome {
        let call = &pending.call.clone();
        let number = |at: usize| call.args.get(at).and_then(Value::int);
        let words = |at: usize| call.args.get(at).map(Value::words).unwrap_or_default();
        let bytes = |at: usize| number(at).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
        if call.name == "socket" {
            return self.open(call);
        }
        if call.name == "poll" {
            return self.poll(call);
        }
        let Some(fd) = number(0) else { return Outcome::Lacks(format!("arguments of {}()", call.name)) };
        let Some(file) = self.sockets.get(&fd).copied() else { return Outcome::Returns(Err(Errno::BadFile)) };
        let (now, socket) = (self.clock.now, file.socket);
        match call.name.as_str() {
            "bind" => {
                let port = call.args.get(1).and_then(port).unwrap_or(super::LOCAL_PORT);
                self.connection.local_port = port;
                Outcome::Returns(self.stack.bind(socket, port).map(|()| 0))
            }
            "listen" => {
                let local_port = self.connection.local_port;
                self.next_connection(local_port);
                Outcome::Returns(self.stack.listen(now, socket).map(|()| 0))
            }
            "accept" => self.accept(call, file),
            "connect" => self.connect(pending, file),
            "read" => self.read(file, bytes(2), &[]),
            "recv" | "recvfrom" => self.read(file, bytes(2), &words(3)),
            "recvmsg" => self.read(file, vector(call), &words(2)),
            "write" => self.write(pending, file, bytes(2), &[]),
            "send" | "sendto" => self.write(pending, file, bytes(2), &words(3)),
            "sendmsg" => self.write(pending, file, vector(call), &words(2)),
            "close" => {
                self.sockets.remove(&fd);
                Outcome::Returns(self.stack.close(now, socket).map(|()| 0))
            }
            "shutdown" => {
                let how = match words(1).first() {
                    Some(&"SHUT_RD") => Shutdown::Read,
                    Some(&"SHUT_WR") => Shutdown::Write,
                    _ => Shutdown::Both,
                };
                Outcome::Returns(self.stack.shutdown(now, socket, how).map(|()| 0))
            }
            "fcntl" => self.control(call, fd, file),
            "setsockopt" => self.set_option(call, socket),
            "getsockopt" => self.get_option(call, socket),
            "ioctl" => self.inquire(call, socket),
            name => Outcome::Lacks(format!("call {name}()")),
        }
    }

    fn open(&mut self, call: &Call) -> Outcome {
        let Some(fd) = call.result.int().filter(|fd| *fd >= 0) else {
            return Outcome::Lacks("socket() that fails".to_owned());
        };
        let is_blocking = !call.args.get(1).map(Value::words).unwrap_or_default().contains(&"SOCK_NONBLOCK");
        let socket = self.stack.open();
        self.sockets.insert(fd, File { socket, is_blocking });
        Outcome::Returns(Ok(fd))
    }

    fn accept(&mut self, call: &Call, file: File) -> Outcome {
        match self.stack.accept(self.clock.now, file.socket) {
            Err(Errno::Again) if file.is_blocking => Outcome::Blocks,
            Err(errno) => Outcome::Returns(Err(errno)),
            Ok(socket) => {
                let fd = call.result.int().unwrap_or(-1);
                self.under_test = Some(socket);
                self.sockets.insert(fd, File { socket, is_blocking: true });
                Outcome::Returns(Ok(fd))
            }
        }
    }

    fn connect(&mut self, pending: &mut Pending, file: File) -> Outcome {
        if !pending.has_begun && self.under_test != Some(file.socket) {
            let local_port = self.connection.local_port;
            self.next_connection(local_port);
            self.under_test = Some(file.socket);
        }
        let ports = (self.connection.local_port, self.connection.remote_port);
        let result = self.stack.connect(self.clock.now, file.socket, ports);
        match result {
            Err(Errno::InProgress | Errno::Already) if file.is_blocking => {
                pending.has_begun = true;
                Outcome::Blocks
            }
            Err(Errno::IsConnected) if pending.has_begun => Outcome::Returns(Ok(0)),
            result => Outcome::Returns(result.map(|()| 0)),
        }
    }

    fn read(&mut self, file: File, bytes: u64, flags: &[&str]) -> Outcome {
        let peek = flags.contains(&"MSG_PEEK");
        match self.stack.read(self.clock.now, file.socket, bytes, peek) {
            Err(Errno::Again) if file.is_blocking && !flags.contains(&"MSG_DONTWAIT") => Outcome::Blocks,
            result => returns(result),
        }
    }

    fn write(&mut self, pending: &mut Pending, file: File, bytes: u64, flags: &[&str]) -> Outcome {
        let waits = file.is_blocking && !flags.contains(&"MSG_DONTWAIT");
        let options = WriteFlags { more: flags.contains(&"MSG_MORE"), end_of_record: flags.contains(&"MSG_EOR") };
        let left = bytes - pending.written;
        match self.stack.write(self.clock.now, file.socket, left, options) {
            Ok(taken) => {
                pending.written += taken.min(left);
                if pending.written == bytes || !waits {
                    return Outcome::Returns(Ok(pending.written as i64));
                }
                Outcome::Blocks
            }
            Err(Errno::Again) if waits => Outcome::Blocks,
            Err(_) if pending.written > 0 => Outcome::Returns(Ok(pending.written as i64)),
            Err(errno) => Outcome::Returns(Err(errno)),
        }
    }

    fn control(&mut self, call: &Call, fd: i64, file: File) -> Outcome {
        let command = call.args.get(1).map(Value::words).unwrap_or_default();
        match command.first() {
            // `O_RDWR`, and the flag on FreeBSD where the script expects that.
            Some(&"F_GETFL") if file.is_blocking => Outcome::Returns(Ok(2)),
            Some(&"F_GETFL") => {
                Outcome::Returns(Ok(call.result.int().filter(|flags| *flags == 6).unwrap_or(2 | O_NONBLOCK)))
            }
            Some(&"F_SETFL") => {
                let flags = call.args.get(2).map(Value::words).unwrap_or_default();
                let is_blocking = !flags.contains(&"O_NONBLOCK");
                self.sockets.insert(fd, File { is_blocking, ..file });
                Outcome::Returns(Ok(0))
            }
            _ => Outcome::Lacks("commands of fcntl() other than F_GETFL and F_SETFL".to_owned()),
        }
    }

    fn set_option(&mut self, call: &Call, socket: Socket) -> Outcome {
        let name = option_name(call);
        let value = match call.args.get(3) {
            Some(Value::List(list)) => list.first().and_then(Value::int),
            Some(linger @ Value::Struct(_)) => {
                let field = |name| linger.field(name).and_then(Value::int);
                Some(if field("onoff") == Some(0) { -1 } else { field("linger").unwrap_or(0) })
            }
            Some(value) => value.int(),
            None => None,
        };
        let Some(value) = value else { return Outcome::Lacks(format!("value of socket option {name}")) };
        Outcome::Returns(self.stack.set_option(self.clock.now, socket, name, value).map(|()| 0))
    }

    fn get_option(&mut self, call: &Call, socket: Socket) -> Outcome {
        let name = option_name(call);
        let expected = call.args.get(3).and_then(Value::first);
        match (self.stack.option(self.clock.now, socket, name), expected) {
            (Err(errno), _) => Outcome::Returns(Err(errno)),
            (Ok(Some(got)), Some(Value::Int(expected))) if got != *expected => {
                Outcome::Unexpected(format!("{name} is {got}, not {expected}"))
            }
            (Ok(Some(got)), Some(Value::Word(word))) if is_errno(word) && errno_name(got) != Some(word) => {
                Outcome::Unexpected(format!("{name} is {got}, not {word}"))
            }
            (Ok(_), _) => Outcome::Returns(Ok(0)),
        }
    }

    /// Answers `SIOCINQ` and `SIOCOUTQ`, which the stack has as options of these names.
    fn inquire(&mut self, call: &Call, socket: Socket) -> Outcome {
        let Some(name) = call.args.get(1).map(Value::words).unwrap_or_default().first().copied() else {
            return Outcome::Lacks("arguments of ioctl()".to_owned());
        };
        let expected = call.args.get(2).and_then(Value::first).and_then(Value::int);
        match self.stack.option(self.clock.now, socket, name) {
            Ok(Some(got)) if expected.is_some_and(|expected| expected != got) => {
                Outcome::Unexpected(format!("{name} is {got}"))
            }
            Ok(Some(_)) => Outcome::Returns(Ok(0)),
            Ok(None) => Outcome::Lacks(format!("ioctl {name}")),
            Err(errno) => Outcome::Returns(Err(errno)),
        }
    }

    fn poll(&mut self, call: &Call) -> Outcome {
        let Some(Value::List(entries)) = call.args.first() else {
            return Outcome::Lacks("arguments of poll()".to_owned());
        };
        let mut ready = 0;
        for entry in entries {
            let fd = entry.field("fd").and_then(Value::int).unwrap_or(-1);
            let Some(file) = self.sockets.get(&fd) else {
                return Outcome::Lacks("poll() of a closed socket".to_owned());
            };
            let wanted = entry.field("events").map(Value::words).unwrap_or_default();
            let expected = entry.field("revents").map(Value::words).unwrap_or_default();
            let got = reported(self.stack.readiness(file.socket), &wanted);
            if !got.is_empty() {
                ready += 1;
                let sorted = |list: &[&str]| {
                    let mut list: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
                    list.sort();
                    list
                };
                if sorted(&got) != sorted(&expected) {
                    return Outcome::Unexpected(format!("events {}", got.join("|")));
                }
            }
        }
        let timeout = call.args.get(2).and_then(Value::int).unwrap_or(0);
        if ready == 0 && timeout != 0 && call.result.int() != Some(0) {
            return Outcome::Blocks;
        }
        Outcome::Returns(Ok(ready))
    }
}

fn reported(ready: Readiness, wanted: &[&str]) -> Vec<&'static str> {
    let all = [
        ("POLLIN", ready.readable, false),
        ("POLLOUT", ready.writable, false),
        ("POLLRDHUP", ready.read_closed, false),
        ("POLLHUP", ready.closed, true),
        ("POLLERR", ready.error, true),
    ];
    let is_reported = |(name, is_on, always): &(&str, bool, bool)| *is_on && (*always || wanted.contains(name));
    all.into_iter().filter(is_reported).map(|(name, ..)| name).collect()
}

fn option_name(call: &Call) -> &str {
    match call.args.get(2) {
        Some(Value::Word(name)) => name,
        _ => "",
    }
}

/// Returns the sum of the lengths of an I/O vector.
fn vector(call: &Call) -> u64 {
    let Some(Value::Struct(fields)) = call.args.get(1) else { return 0 };
    let list = fields.iter().find_map(|field| match field {
        Value::Named(key, value) if matches!(&**key, Value::Apply(name, _) if name == "msg_iov") => Some(&**value),
        _ => None,
    });
    let Some(Value::List(parts)) = list else { return 0 };
    let length = |part: &Value| match part {
        Value::Struct(fields) => fields.get(1).and_then(Value::int).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        _ => 0,
    };
    parts.iter().map(length).fold(0, u64::saturating_add)
}

/// Returns the port of an address.
fn port(address: &Value) -> Option<u16> {
    match address.field("sin_port") {
        Some(Value::Apply(name, args)) if name == "htons" => args.first()?.int().and_then(|n| u16::try_from(n).ok()),
        _ => None,
    }
}

fn is_errno(word: &str) -> bool {
    word.starts_with('E') && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
}

/// Returns the symbol of an error's number.
fn errno_name(number: i64) -> Option<&'static str> {
    use Errno::{ConnAborted, ConnRefused, ConnReset, InProgress, NotConnected, Pipe, TimedOut};
    [ConnAborted, ConnRefused, ConnReset, InProgress, NotConnected, Pipe, TimedOut]
        .into_iter()
        .find(|errno| errno.number() == number)
        .map(Errno::name)
}

fn text(value: &Value) -> String {
    match value {
        Value::Int(value) => value.to_string(),
        Value::Any => "...".to_owned(),
        other => other.words().join("|"),
    }
}
