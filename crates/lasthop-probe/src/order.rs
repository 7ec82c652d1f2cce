//! Orders: what one end is asked to send.

use lasthop_proto::time::Duration;

use crate::wire::Reader;

/// Maximum number of packets in a train.
pub const LONGEST_TRAIN: u16 = 1024;
/// Maximum number of packets in a train of [`Trains`].
pub const LONGEST_OVERLOAD: u16 = 30_000;
/// Maximum packet size in bytes, IP header included: that of jumbo frames.
pub const LARGEST: u16 = 9000;
/// Minimum packet size in bytes: room for this protocol's header behind IPv6 and UDP.
pub const SMALLEST: u16 = 100;
/// Maximum pause.
const LONGEST: Duration = Duration::from_secs(60);
/// Maximum duration of a stream.
const LONGEST_STREAM: Duration = Duration::from_secs(300);
/// Minimum pause between trains of a stream.
const SHORTEST_PAUSE: Duration = Duration::from_micros(500);
/// Minimum interval of [`Trains`].
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
/// Packet sizes for finding the path MTU, IP header included: those of common links and of tunnels over them (RFC 1191,
/// section 7; RFC 8899, section 5.3.2).
pub const LADDER: [u16; 15] = [576, 1006, 1280, 1350, 1380, 1400, 1420, 1440, 1460, 1472, 1480, 1492, 1500, 4352, 9000];

/// Consecutive packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Train {
    /// Number of packets.
    pub count: u16,
    /// Size of each packet in bytes, IP header included.
    pub size: u16,
    /// Time between packets; zero sends them back to back.
    pub gap: Duration,
}

/// Mix of packet sizes in a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// 70 % small packets by volume, for slow links.
    Small = 0,
    /// 80 % small packets by number.
    Even = 1,
}

/// Short trains at random times, below the path's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// Seed for sizes, times and code points.
    pub seed: u64,
    /// Mean pause between trains, beyond the transmission time of the first.
    pub pause: Duration,
    /// Rate of the path in bits per second: a train is sent when the previous one has passed.
    pub rate: u64,
    /// Mix of packet sizes.
    pub mix: Mix,
    /// Size of the largest packets in bytes, IP header included.
    pub largest: u16,
    /// Duration.
    pub lasts: Duration,
}

/// Trains at regular intervals, each at a random time within its interval, to follow a rate that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trains {
    /// Seed for the times.
    pub seed: u64,
    /// Shares of the interval, in 1/256, by which the drawn times are shifted: directions with the same seed then never
    /// send at once.
    pub shift: u8,
    /// Each train.
    pub train: Train,
    /// Interval.
    pub interval: Duration,
    /// Number of trains.
    pub number: u16,
}

/// Packets that are requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// One train.
    Train(Train),
    /// One packet of each size in [`LADDER`], with this gap.
    Ladder(Duration),
    /// A stream, which replaces a running one.
    Stream(Stream),
    /// Trains at regular intervals.
    Trains(Trains),
}

/// Task with its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// Unique number, counted from 1.
    pub id: u16,
    /// Task.
    pub task: Task,
    /// Silence before and after a train.
    pub rest: [Duration; 2],
}

impl Order {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.id.to_be_bytes().to_vec();
        let span = |bytes: &mut Vec<u8>, span: Duration| bytes.extend(span.as_nanos().to_be_bytes());
        self.rest.into_iter().for_each(|rest| span(&mut bytes, rest));
        match self.task {
            Task::Train(Train { count, size, gap }) => {
                bytes.push(0);
                bytes.extend([count, size].map(u16::to_be_bytes).concat());
                span(&mut bytes, gap);
            }
            Task::Ladder(gap) => {
                bytes.push(1);
                span(&mut bytes, gap);
            }
            Task::Stream(Stream { seed, pause, rate, mix, largest, lasts }) => {
                bytes.extend([2, mix as u8]);
                bytes.extend(seed.to_be_bytes());
                bytes.extend(largest.to_be_bytes());
                span(&mut bytes, pause);
                span(&mut bytes, lasts);
                bytes.extend(rate.to_be_bytes());
            }
            Task::Trains(Trains { seed, shift, train: Train { count, size, gap }, interval, number }) => {
                bytes.extend([3, shift]);
                bytes.extend(seed.to_be_bytes());
                bytes.extend([count, size, number].map(u16::to_be_bytes).concat());
                span(&mut bytes, gap);
                span(&mut bytes, interval);
            }
        }
        bytes
    }

    /// Parses an order; `None` if it is malformed or exceeds a limit.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let up_to = |reader: &mut Reader<'_>, most| reader.u64().map(Duration::from_nanos).filter(|span| *span <= most);
        let span = |reader: &mut Reader<'_>| up_to(reader, LONGEST);
        let id = reader.u16().filter(|id| *id > 0)?;
        let rest = [span(&mut reader)?, span(&mut reader)?];
        let size = |size: &u16| (SMALLEST..=LARGEST).contains(size);
        let task = match reader.u8()? {
            0 => Task::Train(Train {
                count: reader.u16().filter(|count| (1..=LONGEST_TRAIN).contains(count))?,
                size: reader.u16().filter(size)?,
                gap: span(&mut reader)?,
            }),
            1 => Task::Ladder(span(&mut reader)?),
            2 => {
                let mix = [Mix::Small, Mix::Even].get(usize::from(reader.u8()?)).copied()?;
                let seed = reader.u64()?;
                let largest = reader.u16().filter(size)?;
                let pause = span(&mut reader).filter(|pause| *pause >= SHORTEST_PAUSE)?;
                let lasts = up_to(&mut reader, LONGEST_STREAM)?;
                let rate = reader.u64().filter(|rate| *rate >= 1000)?;
                Task::Stream(Stream { seed, pause, rate, mix, largest, lasts })
            }
            3 => {
                let (shift, seed) = (reader.u8()?, reader.u64()?);
                let count = reader.u16().filter(|count| (1..=LONGEST_OVERLOAD).contains(count))?;
                let (size, number) = (reader.u16().filter(size)?, reader.u16()?);
                let gap = span(&mut reader)?;
                let interval = span(&mut reader).filter(|interval| *interval >= SHORTEST_INTERVAL)?;
                // Packets of an order are numbered with 16 bits.
                u16::try_from(u32::from(count) * u32::from(number)).ok().filter(|packets| *packets > 0)?;
                Task::Trains(Trains { seed, shift, train: Train { count, size, gap }, interval, number })
            }
            _ => return None,
        };
        Some(Self { id, task, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_are_written() {
        let rest = [Duration::from_millis(60), Duration::from_millis(900)];
        let gap = Duration::from_micros(12);
        let stream = Stream {
            seed: 1 << 50,
            pause: Duration::from_millis(20),
            rate: 1_000_000,
            mix: Mix::Even,
            largest: 1400,
            lasts: Duration::from_secs(300),
        };
        let train = Train { count: 8, size: 1500, gap };
        let interval = Duration::from_millis(200);
        let trains = Trains { seed: 1 << 40, shift: 128, train, interval, number: 300 };
        for task in [Task::Train(train), Task::Ladder(gap), Task::Stream(stream), Task::Trains(trains)] {
            let order = Order { id: 5, task, rest };
            assert_eq!(Order::read(&order.to_bytes()), Some(order));
        }
        for task in [
            Task::Train(Train { count: LONGEST_TRAIN + 1, ..train }),
            Task::Train(Train { size: SMALLEST - 1, ..train }),
            Task::Stream(Stream { pause: Duration::from_nanos(1), ..stream }),
            Task::Stream(Stream { lasts: Duration::from_secs(301), ..stream }),
            Task::Ladder(Duration::from_secs(61)),
            Task::Trains(Trains { number: 0, ..trains }),
            Task::Trains(Trains { number: 8192, ..trains }),
            Task::Trains(Trains { interval: Duration::ZERO, ..trains }),
            Task::Trains(Trains { train: Train { count: LONGEST_OVERLOAD + 1, ..train }, number: 1, ..trains }),
        ] {
            assert_eq!(Order::read(&Order { id: 5, task, rest }.to_bytes()), None, "{task:?}");
        }
    }
}
