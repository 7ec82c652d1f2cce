use std::os::unix::net::UnixStream;

use super::*;

/// Work that counts its calls. Orders are "execute", "refuse", "ignore" and "end".
struct Counting {
    heart: Heart,
    idle: [UnixStream; 2],
    looked_up: u32,
    executed: u32,
}

impl Work for Counting {
    type Resources = ();
    type Order = String;
    /// Numbers of look-ups and of executed orders.
    type Snapshot = (u32, u32);
    type Error = Fault;

    const COMMAND: &'static str = "test";
    const BEAT: Duration = Duration::from_millis(10);
    const BEATS_PER_SNAPSHOT: u32 = 1_000_000;

    fn open(_: String) -> Result<Option<((), Tasks)>, Fault> {
        Ok(None)
    }

    fn start((): (), _: Option<RecordFile>, heart: Heart) -> Result<Self, Fault> {
        let idle = UnixStream::pair().unwrap().into();
        Ok(Self { heart, idle, looked_up: 0, executed: 0 })
    }

    fn heart(&mut self) -> &mut Heart {
        &mut self.heart
    }

    fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.idle[0].as_fd(), self.idle[1].as_fd()]
    }

    fn patience(&self) -> Option<Duration> {
        None
    }

    fn handle(&mut self, ready: [bool; 2]) -> Result<(), Fault> {
        assert_eq!(ready, [false, false]);
        Ok(())
    }

    fn on_beat(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn look_up(&mut self) -> Result<(), Fault> {
        self.looked_up += 1;
        Ok(())
    }

    fn obey(&mut self, order: String) -> Result<Outcome, Fault> {
        Ok(match order.as_str() {
            "execute" => {
                self.executed += 1;
                Outcome::Executed
            }
            "refuse" => Outcome::Refused("busy".to_owned()),
            "ignore" => Outcome::Unanswered,
            _ => Outcome::End,
        })
    }

    fn snapshot(&mut self) -> (u32, u32) {
        (self.looked_up, self.executed)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    System(#[from] SystemError),
    #[error(transparent)]
    NoOrder(#[from] NoOrder),
}

/// Returns the next message that is not a heartbeat, and the number of heartbeats before it.
fn next(channel: &mut Channel) -> (u32, Option<Notice<(u32, u32)>>) {
    let mut beats = 0;
    loop {
        wait(&mut [PollFd::new(channel, PollFlags::IN)], Duration::from_secs(10)).unwrap();
        match channel.receive().unwrap() {
            Incoming::Message(Notice::Beat) => beats += 1,
            Incoming::Message(notice) => return (beats, Some(notice)),
            Incoming::End => return (beats, None),
            Incoming::Nothing => panic!("no message in time"),
        }
    }
}

#[test]
fn the_loop_beats_reports_and_answers_orders() {
    let (mut ours, theirs) = Channel::pair().unwrap();
    let worker = std::thread::spawn(move || {
        let mut channel = Channel::new(theirs);
        let heart = Heart { interval: Counting::BEAT, next: Instant::now(), speaker: channel.speaker().unwrap() };
        let work = Counting::start((), None, heart).unwrap();
        repeat(work, &mut channel).unwrap();
    });
    // It confirms its start after the first check of the interfaces, and then reports at once.
    assert_eq!(next(&mut ours).1, Some(Notice::Configured));
    assert_eq!(next(&mut ours).1, Some(Notice::Snapshot(Box::new((1, 0)))));
    // The confirmation of an order follows the new state.
    ours.send(&"execute").unwrap();
    assert_eq!(next(&mut ours).1, Some(Notice::Snapshot(Box::new((1, 1)))));
    assert_eq!(next(&mut ours).1, Some(Notice::Configured));
    ours.send(&"ignore").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    ours.send(&"refuse").unwrap();
    let (beats, notice) = next(&mut ours);
    assert_eq!(notice, Some(Notice::Refused { message: "busy".to_owned() }));
    assert!(beats > 1, "{beats}");
    ours.send(&"end").unwrap();
    assert_eq!(next(&mut ours).1, None);
    worker.join().unwrap();
}

#[test]
fn a_worker_without_a_suitable_order_names_the_command_that_starts_it() {
    assert_eq!(
        NoOrder { command: "lasthop tunnel run" }.to_string(),
        "no configuration received; only `lasthop tunnel run` starts this command"
    );
}
