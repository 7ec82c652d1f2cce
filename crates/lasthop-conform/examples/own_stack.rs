//! A stack of one's own under test: a receiver that accepts one connection and acknowledges data in order at once.
//!
//! `cargo run -p lasthop-conform --example own_stack` runs two scripts: one that the receiver passes, and one that it
//! fails, because it does not keep data out of order.

use std::collections::VecDeque;

use lasthop_conform::script::TcpOption;
use lasthop_conform::stack::{Errno, Host, Need, Segment, Shutdown, Socket, Stack, WriteFlags};
use lasthop_conform::suite::run_text;
use lasthop_proto::packet::Flags;
use lasthop_proto::time::Instant;

/// Initial sequence number. The runner relates it to the numbers of the script.
const ISS: u32 = 1_000_000;

/// Number of the socket that listens, and of the connection.
const SOCKETS: [Socket; 2] = [Socket(0), Socket(1)];

#[derive(Default)]
struct Receiver {
    is_established: bool,
    is_accepted: bool,
    has_ended: bool,
    next: u32,
    unread: u64,
    out: VecDeque<Segment>,
}

impl Receiver {
    fn answer(&mut self, to: &Segment, flags: Flags, seq: u32, options: Vec<TcpOption>) {
        self.out.push_back(Segment {
            local_port: to.local_port,
            remote_port: to.remote_port,
            flags: flags.0,
            seq,
            ack: self.next,
            window: 65_535,
            options,
            ..Segment::default()
        });
    }
}

impl Stack for Receiver {
    fn name(&self) -> String {
        "receiver".to_owned()
    }

    fn lacks(&self, need: &Need<'_>) -> Option<String> {
        match need {
            Need::Info(field) => Some(format!("tcp_info field {field}")),
            _ => None,
        }
    }

    fn start(&mut self, _host: &Host) {
        *self = Self::default();
    }

    fn open(&mut self) -> Socket {
        SOCKETS[0]
    }

    fn listen(&mut self, _now: Instant, _socket: Socket) -> Result<(), Errno> {
        Ok(())
    }

    fn accept(&mut self, _now: Instant, _socket: Socket) -> Result<Socket, Errno> {
        if !self.is_established || std::mem::replace(&mut self.is_accepted, true) {
            return Err(Errno::Again);
        }
        Ok(SOCKETS[1])
    }

    fn connect(&mut self, _now: Instant, _socket: Socket, _ports: (u16, u16)) -> Result<(), Errno> {
        Err(Errno::NotSupported)
    }

    fn write(&mut self, _now: Instant, _socket: Socket, _bytes: u64, _flags: WriteFlags) -> Result<u64, Errno> {
        Err(Errno::NotSupported)
    }

    fn read(&mut self, _now: Instant, _socket: Socket, bytes: u64, peek: bool) -> Result<u64, Errno> {
        let taken = self.unread.min(bytes);
        if !peek {
            self.unread -= taken;
        }
        if taken == 0 && !self.has_ended { Err(Errno::Again) } else { Ok(taken) }
    }

    fn shutdown(&mut self, _now: Instant, _socket: Socket, _how: Shutdown) -> Result<(), Errno> {
        Err(Errno::NotSupported)
    }

    fn close(&mut self, _now: Instant, _socket: Socket) -> Result<(), Errno> {
        Ok(())
    }

    fn handle_segment(&mut self, _now: Instant, segment: &Segment) {
        let flags = Flags(segment.flags);
        if flags.has(Flags::SYN) {
            self.next = segment.seq + 1;
            self.answer(segment, Flags::SYN.with(Flags::ACK), ISS, vec![TcpOption::Mss(1460)]);
            return;
        }
        self.is_established = true;
        if segment.seq == self.next {
            self.next += segment.len;
            self.unread += u64::from(segment.len);
            if flags.has(Flags::FIN) {
                self.next += 1;
                self.has_ended = true;
            }
        }
        if segment.len > 0 || flags.has(Flags::FIN) {
            self.answer(segment, Flags::ACK, ISS + 1, Vec::new());
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, _now: Instant) -> Option<Segment> {
        self.out.pop_front()
    }

    fn poll_deadline(&self) -> Option<Instant> {
        None
    }
}

const OPENING: &str = "
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
   +0 < S 0:0(0) win 60000 <mss 1000>
   +0 > S. 0:0(0) ack 1 <mss 1460>
  +.1 < . 1:1(0) ack 1 win 60000
   +0 accept(3, ..., ...) = 4
";

const IN_ORDER: &str = "
   +0 < P. 1:1001(1000) ack 1 win 60000
   +0 > . 1:1(0) ack 1001
   +0 read(4, ..., 4096) = 1000
  +.1 < F. 1001:1001(0) ack 1 win 60000
   +0 > . 1:1(0) ack 1002
   +0 read(4, ..., 4096) = 0
";

const OUT_OF_ORDER: &str = "
   +0 < . 1001:2001(1000) ack 1 win 60000
   +0 > . 1:1(0) ack 1
   +0 < . 1:1001(1000) ack 1 win 60000
   +0 > . 1:1(0) ack 2001
";

fn main() {
    for script in [IN_ORDER, OUT_OF_ORDER] {
        let text = format!("{OPENING}{script}");
        println!("{:?}", run_text(&text, &mut Receiver::default(), &|_| None));
    }
}
