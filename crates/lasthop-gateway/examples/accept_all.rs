//! Minimal program for a netfilter queue: receives packets in the gateway's batches, examines none, and accepts all. It
//! is the baseline of the gateway's speed. `accept_all QUEUE` runs until a signal ends it.

use std::error::Error;
use std::time::Duration;

use lasthop_sys::nfqueue::message::{Message, Verdicts};
use lasthop_sys::nfqueue::{Buffer, Queue, Received};
use lasthop_sys::poll::wait;
use rustix::event::{PollFd, PollFlags};

fn main() -> Result<(), Box<dyn Error>> {
    let number = std::env::args().nth(1).ok_or("usage: accept_all QUEUE")?.parse()?;
    let mut buffer = Buffer::default();
    let queue = Queue::bind(number, &mut buffer)?;
    let mut verdicts = Verdicts::new(number);
    println!("ready");
    loop {
        wait(&mut [PollFd::new(&queue, PollFlags::IN)], Duration::from_secs(1))?;
        loop {
            let count = match queue.receive(&mut buffer)? {
                Received::Messages(count) => count,
                Received::Overflow => continue,
                Received::Nothing => break,
            };
            for message in (0..count).flat_map(|index| buffer.messages(index)) {
                if let Message::Queued(packet) = message {
                    verdicts.accept(packet.id);
                }
            }
            queue.send(&mut verdicts)?;
        }
    }
}
