//! Leads a case through a stack in virtual time.

use lasthop_proto::packet::Flags;
use lasthop_proto::time::{Duration, Instant};

use super::case::{Case, Kind, Observed, Opens, Step, Stimulus};
use crate::script::{EcnSpec, OptionsSpec, SegmentSpec, TcpOption};
use crate::stack::{Errno, Host, Segment, Shutdown, Socket, Stack, WriteFlags};

/// Timestamp that a script has in place of the stack's first.
pub(crate) const FIRST_TIMESTAMP: u32 = 100;

/// Local and remote port of cases.
const PORTS: (u16, u16) = (8080, 20_001);

/// Minimum time between stimuli.
const APART: Duration = Duration::from_micros(20);

/// Maximum number of segments of a case.
const MOST_SENT: usize = 10_000;

/// Relation of a stack's numbers to those of a script.
#[derive(Clone, Copy, Default, Debug)]
pub struct Numbers {
    iss: Option<u32>,
    first_timestamp: Option<u32>,
    /// Latest timestamps of the stack, in the script's numbers.
    recent: [u32; 8],
}

impl Numbers {
    /// Returns a segment of the stack in the numbers of the script.
    pub fn to_script(&mut self, segment: &Segment) -> SegmentSpec {
        let flags = Flags(segment.flags);
        if flags.has(Flags::SYN) {
            // A stack that has dropped a connection opens the next one with another number.
            self.iss = Some(segment.seq);
        }
        // A reset of a segment without acknowledgment has the number 0 of no connection (RFC 9293 §3.10.7.1).
        let is_absolute = segment.seq == 0 && flags.has(Flags::RST);
        let mut options = segment.options.clone();
        for option in &mut options {
            if let TcpOption::Timestamps(val, _) = option {
                let first = *self.first_timestamp.get_or_insert(*val);
                *val = FIRST_TIMESTAMP.wrapping_add(val.wrapping_sub(first));
                if self.recent[0] != *val {
                    self.recent.rotate_right(1);
                    self.recent[0] = *val;
                }
            }
        }
        options.sort();
        SegmentSpec {
            ecn: Some(EcnSpec::Is(segment.ecn)),
            flags: segment.flags,
            seq: if is_absolute { 0 } else { segment.seq.wrapping_sub(self.iss.unwrap_or(0)) },
            len: segment.len,
            ack: flags.has(Flags::ACK).then_some(segment.ack),
            window: Some(segment.window),
            options: OptionsSpec::List(options),
            ..SegmentSpec::default()
        }
    }

    /// Returns the timestamp that the stack has sent in place of `echo`: the clock of one stack may tick between two
    /// segments for which that of the other does not.
    fn sent_near(&self, echo: u32) -> u32 {
        let near = |sent: &u32| (sent.wrapping_sub(echo) as i32).unsigned_abs();
        self.recent.iter().copied().min_by_key(near).filter(|sent| *sent != 0 && near(sent) <= 1).unwrap_or(echo)
    }

    /// Returns a segment of the script in the numbers of the stack.
    pub fn to_stack(&self, spec: &SegmentSpec, ports: (u16, u16)) -> Segment {
        let echo = |echo: u32| match self.first_timestamp {
            Some(first) if echo != 0 => first.wrapping_add(self.sent_near(echo).wrapping_sub(FIRST_TIMESTAMP)),
            _ => echo,
        };
        Segment::of(spec, ports, self.iss.unwrap_or(0), echo)
    }
}

/// A case in progress on a stack.
pub struct Player<'a> {
    stack: &'a mut dyn Stack,
    now: Instant,
    numbers: Numbers,
    /// Socket that listens or connects.
    first: Socket,
    opens: Opens,
    connection: Option<Socket>,
    sent: Vec<Observed>,
    /// Number of steps applied.
    steps: usize,
    /// Time of the next step, without the pause after steps at the same time.
    due: Instant,
}

impl<'a> Player<'a> {
    /// Starts a case: the stack listens or connects.
    pub fn new(stack: &'a mut dyn Stack, kind: Kind, opens: Opens) -> Self {
        let settings = kind.settings().iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        stack.start(&Host { settings: settings.collect(), ..Host::default() });
        let first = stack.open();
        let now = Instant::ZERO;
        match opens {
            Opens::Script => {
                let _ = stack.bind(first, PORTS.0);
                let _ = stack.listen(now, first);
            }
            Opens::Stack => {
                let _ = stack.connect(now, first, PORTS);
            }
        }
        let connection = (opens == Opens::Stack).then_some(first);
        let numbers = Numbers::default();
        let mut player = Self { stack, now, numbers, first, opens, connection, sent: Vec::new(), steps: 0, due: now };
        player.drain();
        player
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Duration {
        self.now.since(Instant::ZERO)
    }

    /// Returns the segments sent so far.
    pub fn sent(&self) -> &[Observed] {
        &self.sent
    }

    /// Lets time pass, then applies the stimulus of a step.
    ///
    /// Stimuli at the same time are apart: no kernel handles two of them within a microsecond, and a segment that is
    /// sent at exactly the time of an older one would pass for older.
    pub fn step(&mut self, step: &Step) {
        self.due += step.after;
        let at = if self.steps > 0 { self.due.max(self.now + APART) } else { self.due };
        self.advance(at.since(self.now));
        self.steps += 1;
        match &step.what {
            Stimulus::Segment(spec) => {
                let segment = self.numbers.to_stack(spec, PORTS);
                self.stack.handle_segment(self.now, &segment);
            }
            what => {
                if let Some(socket) = self.socket() {
                    self.call(socket, what);
                }
            }
        }
        self.drain();
    }

    /// Returns the socket of the connection, which is accepted as soon as it is needed.
    fn socket(&mut self) -> Option<Socket> {
        if self.connection.is_none() && self.opens == Opens::Script {
            self.connection = self.stack.accept(self.now, self.first).ok();
        }
        self.connection
    }

    fn call(&mut self, socket: Socket, what: &Stimulus) {
        let now = self.now;
        // What fails does so on both stacks, or the segments differ.
        let _: Result<(), Errno> = match what {
            Stimulus::Segment(_) => Ok(()),
            Stimulus::Write(bytes) => self.stack.write(now, socket, *bytes, WriteFlags::default()).map(|_| ()),
            Stimulus::Read(bytes) => self.stack.read(now, socket, *bytes, false).map(|_| ()),
            Stimulus::Shutdown => self.stack.shutdown(now, socket, Shutdown::Write),
            Stimulus::Close => self.stack.close(now, socket),
            Stimulus::SetOption(name, value) => self.stack.set_option(now, socket, name, *value),
        };
    }

    /// Lets time pass.
    pub fn advance(&mut self, span: Duration) {
        let to = self.now + span;
        while self.now < to && self.sent.len() < MOST_SENT {
            let next = self.stack.poll_deadline().filter(|deadline| *deadline <= to);
            self.now = next.unwrap_or(to).max(self.now);
            self.stack.handle_timeout(self.now);
            self.drain();
        }
    }

    fn drain(&mut self) {
        while self.sent.len() < MOST_SENT
            && let Some(segment) = self.stack.poll_transmit(self.now)
        {
            let segment = self.numbers.to_script(&segment);
            self.sent.push(Observed { at: self.now.since(Instant::ZERO), steps: self.steps, segment });
        }
    }
}

/// Returns the segments that a stack sends in a case.
pub fn observe(case: &Case, stack: &mut dyn Stack) -> Vec<Observed> {
    let mut player = Player::new(stack, case.kind, case.opens);
    for step in &case.steps {
        player.step(step);
    }
    player.advance(Case::TAIL);
    player.sent
}
