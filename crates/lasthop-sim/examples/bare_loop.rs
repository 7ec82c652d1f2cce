//! Measures the least that an event-driven simulator does for each frame: `cargo run --release -p lasthop-sim --example
//! bare_loop -- 1000000`.
//!
//! A lossy hop without endpoints: a frame enters the queue, is transmitted, is lost at random or delivered, and each
//! frame that leaves the hop lets the source send the next, so that a window of 23 frames is outstanding. The events
//! are in a binary heap, ordered by time and number. The program prints the numbers of transmissions, deliveries and
//! events as JSON; `benches/peers/speed.py` measures its processor time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::process::ExitCode;

const WINDOW: u64 = 23;
const LOSS: f64 = 0.0225;
/// Duration of the transmission of 1440 bytes at 1.5 Mbps, one-way delay, and the time from the source to the queue, in
/// nanoseconds.
const TRANSMISSION: u64 = 7_680_000;
const DELAY: u64 = 1_000_000;
const WIRED: u64 = 1_352_000;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrive { frame: u64 },
    Transmitted { frame: u64 },
    Deliver { frame: u64 },
}

#[derive(Default)]
struct Hop {
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    queue: VecDeque<u64>,
    busy: bool,
    scheduled: u64,
    next_frame: u64,
    delivered: u64,
    random: u64,
}

impl Hop {
    fn schedule(&mut self, at: u64, event: Event) {
        self.events.push(Reverse((at, self.scheduled, event)));
        self.scheduled += 1;
    }

    /// Draws a number from 0 to below 1 (splitmix64).
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn send(&mut self, now: u64, frames: u64) {
        if self.next_frame < frames {
            let frame = self.next_frame;
            self.next_frame += 1;
            self.schedule(now + WIRED, Event::Arrive { frame });
        }
    }

    fn transmit(&mut self, now: u64) {
        if let Some(frame) = self.queue.pop_front() {
            self.busy = true;
            self.schedule(now + TRANSMISSION, Event::Transmitted { frame });
        }
    }

    fn run(&mut self, frames: u64) {
        for _ in 0..WINDOW {
            self.send(0, frames);
        }
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            match event {
                Event::Arrive { frame } => {
                    self.queue.push_back(frame);
                    if !self.busy {
                        self.transmit(now);
                    }
                }
                Event::Transmitted { frame } => {
                    if self.draw() < LOSS {
                        self.send(now + 2 * DELAY, frames);
                    } else {
                        self.schedule(now + DELAY, Event::Deliver { frame });
                    }
                    self.busy = false;
                    self.transmit(now);
                }
                Event::Deliver { .. } => {
                    self.delivered += 1;
                    self.send(now + DELAY, frames);
                }
            }
        }
    }
}

fn main() -> ExitCode {
    let Some(frames) = std::env::args().nth(1).and_then(|number| number.parse().ok()) else {
        eprintln!("bare_loop: give the number of frames");
        return ExitCode::from(2);
    };
    let mut hop = Hop::default();
    hop.run(frames);
    println!(
        "{{\"transmissions\": {}, \"delivered\": {}, \"events\": {}}}",
        hop.next_frame, hop.delivered, hop.scheduled
    );
    ExitCode::SUCCESS
}
