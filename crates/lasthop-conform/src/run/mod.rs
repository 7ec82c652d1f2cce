//! Runs a script against a stack in virtual time.

mod calls;
mod clock;
mod code;
mod expect;
mod needs;

use std::collections::{BTreeMap, VecDeque};

use lasthop_proto::time::{Duration, Instant};

use self::calls::Pending;
use self::clock::{Clock, Tolerance};
use crate::script::{Action, Event, Script, SegmentSpec, Time};
use crate::shell::{self, Effect};
use crate::stack::{Segment, Socket, Stack};

/// Local port of connections, unless the script names another.
const LOCAL_PORT: u16 = 8080;

/// First remote port of connections.
const REMOTE_PORT: u16 = 20_000;

/// Maximum number of timers and segments of a run. A stack that sends without end stops there.
const MOST_STEPS: u32 = 200_000;

/// Maximum number of segments that wait for the script to expect them.
const MOST_WAITING: usize = 65_536;

/// First difference between a script and a stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Line of the script.
    pub line: u32,
    /// Time since the start of the script.
    pub at: Duration,
    /// Expectation of the script.
    pub expected: String,
    /// Behaviour of the stack.
    pub got: String,
}

/// Result of a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The stack did everything that the script expects.
    Passed,
    /// The stack did something else.
    Failed(Difference),
    /// The script needs something that the runner or the stack does not have.
    NotApplicable {
        /// Line of the script.
        line: u32,
        /// Missing feature.
        reason: String,
    },
}

/// End of a run before the end of the script.
enum Stop {
    Differs { expected: String, got: String },
    Lacks(String),
}

type Step = Result<(), Stop>;

fn differs(expected: impl Into<String>, got: impl Into<String>) -> Stop {
    Stop::Differs { expected: expected.into(), got: got.into() }
}

/// Runs `script` against `stack`. `load` returns the text of the shell scripts that it calls, by their relative path.
pub fn run(script: &Script, stack: &mut dyn Stack, load: &dyn Fn(&str) -> Option<String>) -> Verdict {
    let plan = match needs::plan(script, stack, load) {
        Ok(plan) => plan,
        Err((line, reason)) => return Verdict::NotApplicable { line, reason },
    };
    stack.start(&plan.host);
    let mut run = Run {
        stack,
        load,
        plan: &plan,
        clock: Clock::default(),
        sent: VecDeque::new(),
        sockets: BTreeMap::new(),
        connection: Connection { local_port: LOCAL_PORT, remote_port: REMOTE_PORT, ..Connection::default() },
        pending: None,
        under_test: None,
        steps: 0,
    };
    for event in &script.events {
        if let Err(stop) = run.event(event) {
            return run.verdict(event.line, stop);
        }
    }
    let last = script.events.last().map_or(1, |event| event.line);
    match run.finish() {
        Ok(()) => Verdict::Passed,
        Err(stop) => run.verdict(last, stop),
    }
}

/// Settings of a run that are known before it starts.
struct Plan {
    host: crate::stack::Host,
    tolerance: Tolerance,
    /// Length of a tick of the stack's timestamps, if the script checks them.
    timestamp_tick: Option<Duration>,
    /// True if results of socket calls are not checked (`--non_fatal=syscall`).
    ignores_results: bool,
    /// True if segments are not aggregated (`--strict_segments`).
    is_strict: bool,
}

/// Connection that the segments of the script belong to.
#[derive(Default)]
struct Connection {
    local_port: u16,
    remote_port: u16,
    /// Initial sequence number of the stack, and of the script in its place.
    iss: Option<(u32, u32)>,
    /// First timestamp of the stack, and of the script in its place.
    first_timestamp: Option<(u32, u32)>,
    /// Timestamps of the stack by those of the script.
    timestamps: BTreeMap<u32, u32>,
}

impl Connection {
    /// Returns the offset from the script's numbers to the stack's.
    fn offset(&self) -> u32 {
        self.iss.map_or(0, |(live, script)| live.wrapping_sub(script))
    }
}

/// A socket by the number that the script has for it.
#[derive(Clone, Copy)]
struct File {
    socket: Socket,
    is_blocking: bool,
}

struct Run<'a> {
    stack: &'a mut dyn Stack,
    load: &'a dyn Fn(&str) -> Option<String>,
    plan: &'a Plan,
    clock: Clock,
    /// Segments of the stack that the script has not expected yet, with their times.
    sent: VecDeque<(Instant, Segment)>,
    sockets: BTreeMap<i64, File>,
    connection: Connection,
    pending: Option<Pending>,
    /// Socket that code blocks examine.
    under_test: Option<Socket>,
    steps: u32,
}

impl Run<'_> {
    fn verdict(&self, line: u32, stop: Stop) -> Verdict {
        match stop {
            Stop::Lacks(reason) => Verdict::NotApplicable { line, reason },
            Stop::Differs { expected, got } => {
                // A blocking call fails at the line that made it.
                let at = self.clock.now.since(Instant::ZERO);
                Verdict::Failed(Difference { line: self.failing_line().unwrap_or(line), at, expected, got })
            }
        }
    }

    fn failing_line(&self) -> Option<u32> {
        self.pending.as_ref().filter(|pending| pending.has_failed).map(|pending| pending.line)
    }

    fn event(&mut self, event: &Event) -> Step {
        let is_inbound = matches!(event.action, Action::Inbound(_));
        let is_outbound = matches!(event.action, Action::Outbound(_));
        self.clock.begin(event.time, is_inbound);
        if matches!(event.action, Action::Call(_)) {
            self.finish_call()?;
            // A call that blocked may have ended later than the next was to start.
            self.clock.begin(event.time, is_inbound);
        }
        if !is_outbound {
            self.advance_to(self.clock.start())?;
        }
        match &event.action {
            Action::Inbound(spec) => self.inbound(spec),
            Action::Outbound(spec) => self.outbound(spec),
            Action::Other(kind) => Err(Stop::Lacks(format!("{kind} packets"))),
            Action::Call(call) => self.call(event.line, call, event.time),
            Action::Command(text) => self.command(text),
            Action::Code(text) => self.code(text),
        }?;
        self.clock.end(is_inbound);
        Ok(())
    }

    /// Waits for a call that blocks.
    fn finish(&mut self) -> Step {
        self.finish_call()
    }

    fn command(&mut self, text: &str) -> Step {
        for effect in shell::effects(text, self.load) {
            match effect {
                Effect::Set(name, value) => self.stack.change_setting(&name, &value),
                Effect::Drop(state) => self.stack.drop_connections(&state),
                Effect::Count(state, number) => {
                    let count = self.stack.count(&state);
                    if count != number {
                        return Err(differs(format!("{number} connections in {state}"), format!("{count}")));
                    }
                }
                Effect::Unsupported(what) => return Err(Stop::Lacks(what)),
            }
        }
        Ok(())
    }

    /// Passes a segment of the script to the stack.
    fn inbound(&mut self, spec: &SegmentSpec) -> Step {
        let (remote_port, local_port) = spec.ports.unwrap_or((self.connection.remote_port, self.connection.local_port));
        let segment = Segment::of(spec, (local_port, remote_port), self.connection.offset(), |echo| self.echo(echo));
        self.stack.handle_segment(self.clock.now, &segment);
        self.drain()
    }

    /// Returns the stack's timestamp for an echo of the script.
    fn echo(&self, script: u32) -> u32 {
        let exact = self.connection.timestamps.get(&script).copied();
        let first = self.connection.first_timestamp;
        let near = || first.map(|(live, first)| live.wrapping_add(script.wrapping_sub(first)));
        exact.or_else(near).unwrap_or(script)
    }

    /// Advances virtual time to `to`, or to the next timer before it.
    fn advance_to(&mut self, to: Instant) -> Step {
        while self.clock.now < to {
            let next = self.stack.poll_deadline().filter(|deadline| *deadline <= to);
            self.clock.now = next.unwrap_or(to).max(self.clock.now);
            self.stack.handle_timeout(self.clock.now);
            self.drain()?;
        }
        Ok(())
    }

    /// Advances to the next timer. Returns whether there was one before `limit`.
    fn advance_a_step(&mut self, limit: Instant) -> Result<bool, Stop> {
        let Some(next) = self.stack.poll_deadline().filter(|deadline| *deadline <= limit) else {
            self.clock.now = limit.max(self.clock.now);
            return Ok(false);
        };
        self.clock.now = next.max(self.clock.now);
        self.stack.handle_timeout(self.clock.now);
        self.drain()?;
        Ok(true)
    }

    /// Takes the segments that the stack sends now, and repeats a call that blocks.
    fn drain(&mut self) -> Step {
        loop {
            self.steps += 1;
            while let Some(segment) = self.stack.poll_transmit(self.clock.now) {
                self.steps += 1;
                if self.sent.len() >= MOST_WAITING || self.steps >= MOST_STEPS {
                    return Err(differs("a stack that comes to rest", "segments without end"));
                }
                self.sent.push_back((self.clock.now, segment));
            }
            if self.steps >= MOST_STEPS {
                return Err(differs("a stack that comes to rest", "timers without end"));
            }
            if !self.repeat_call()? {
                return Ok(());
            }
        }
    }

    /// Starts to direct segments to another connection.
    fn next_connection(&mut self, local_port: u16) {
        let remote_port = self.connection.remote_port.wrapping_add(1);
        self.connection = Connection { local_port, remote_port, ..Connection::default() };
    }
}

/// Returns whether `time` says that an event happens between two times.
fn is_range(time: Time) -> bool {
    matches!(time, Time::AbsoluteRange(..) | Time::RelativeRange(..))
}
