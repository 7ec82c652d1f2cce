//! Two ends with two lines between them: the first end has a socket on each, the second end one address.

use lasthop_proto::link::hybrid::{Copies, PathUse, Terms, Tier};
use lasthop_proto::random::{Root, Stream};
use lasthop_tunnel::SocketId;

use super::*;
use crate::plan::PathPlan;

/// A line in both directions.
#[derive(Clone, Copy)]
struct Line {
    /// Rate in bits per second.
    rate: u64,
    /// One-way delay, in milliseconds.
    delay: u64,
    /// Loss probability, in 10⁻⁶.
    loss: u64,
    is_cut: bool,
}

/// Queueing delay up to which a line takes datagrams.
const QUEUE: Duration = Duration::from_millis(200);

struct Lines {
    now: Instant,
    ends: [Engine; 2],
    lines: [Line; 2],
    /// Times at which each line is free, per sending end.
    free: [[Instant; 2]; 2],
    /// Datagrams in flight, by arrival.
    way: BTreeMap<(Instant, u64), (usize, Origin, Vec<u8>)>,
    count: u64,
    random: Stream,
    /// Received packets with their arrival times.
    got: [Vec<(Instant, Vec<u8>)>; 2],
    /// Datagrams sent on each line.
    sent: [u64; 2],
    /// Source addresses of the second end's datagrams.
    sources: Vec<Option<IpAddr>>,
}

/// Address of the second end that the first end calls; it may have others.
const CALLED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

struct Sorted(Vec<(SocketAddr, SocketId, Option<IpAddr>, Vec<u8>)>);

impl Outbox for Sorted {
    fn put(&mut self, datagram: Datagram<'_>) {
        self.0.push((datagram.to, datagram.socket, datagram.from, datagram.bytes.to_vec()));
    }
}

/// Returns the first end's address on a line.
fn own(line: usize) -> SocketAddr {
    SocketAddr::from(([198, 51, 100 + line as u8, 1], 40_000))
}

fn paths(end: usize, rates: [u64; 2]) -> Vec<PathPlan> {
    let path = |line: usize| PathPlan {
        name: ["one", "two"][line].to_owned(),
        socket: if end == 0 { line as u8 } else { 0 },
        endpoint: (end == 0).then(|| address(1)),
        last: None,
        rate: Some(rates[line]),
        terms: Terms::default(),
    };
    vec![path(0), path(1)]
}

impl Lines {
    /// Sends at 95 % of each line's rate.
    fn new(lines: [Line; 2]) -> Self {
        let now = Instant::from_nanos(1_000 * MS);
        let rates = lines.map(|line| line.rate * 95 / 100);
        let ends = [0, 1].map(|end| {
            let mut plan = plan(end);
            plan.peers[0].paths = paths(end, rates);
            plan.peers[0].keepalive = Some(10_000 * MS);
            Engine::new(&plan, [end as u8 + 7; 32], now, None).unwrap()
        });
        Self {
            now,
            ends,
            lines,
            free: [[now; 2]; 2],
            way: BTreeMap::new(),
            count: 0,
            random: Root(1).stream("lines"),
            got: [Vec::new(), Vec::new()],
            sent: [0; 2],
            sources: Vec::new(),
        }
    }

    fn pump(&mut self) {
        for end in 0..2 {
            self.ends[end].handle_timeout(self.now, self.now.as_nanos());
            let mut out = Sorted(Vec::new());
            self.ends[end].send(self.now, &mut out);
            for (to, socket, source, bytes) in out.0 {
                if end == 1 {
                    self.sources.push(source);
                }
                self.carry(end, to, socket, bytes);
            }
            let mut packet = Vec::new();
            while self.ends[end].poll_packet(|bytes| packet.extend_from_slice(bytes)) {
                self.got[end].push((self.now, std::mem::take(&mut packet)));
            }
        }
    }

    fn carry(&mut self, end: usize, to: SocketAddr, socket: SocketId, bytes: Vec<u8>) {
        let index = if end == 0 { usize::from(socket.0) } else { (0..2).position(|line| own(line) == to).unwrap() };
        let line = self.lines[index];
        self.sent[index] += 1;
        if line.is_cut || self.random.below(1_000_000) < line.loss || self.free[end][index].since(self.now) > QUEUE {
            return;
        }
        let takes = Duration::from_nanos((bytes.len() as u64 + 28) * 8_000_000_000 / line.rate);
        let free = &mut self.free[end][index];
        *free = (*free).max(self.now) + takes;
        let arrives = *free + Duration::from_millis(line.delay);
        let from = match end {
            0 => Origin::from(own(index)),
            _ => Origin { address: address(1), socket: SocketId(index as u8) },
        };
        self.count += 1;
        self.way.insert((arrives, self.count), (1 - end, from, bytes));
    }

    fn run(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        self.pump();
        loop {
            let arrival = self.way.first_key_value().map(|((at, _), _)| *at);
            let due = self.ends.iter().filter_map(Engine::poll_deadline).min();
            let next = [arrival, due].into_iter().flatten().min().unwrap_or(end);
            let next = next.max(self.now + Duration::from_nanos(1000));
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            while self.way.first_key_value().is_some_and(|((at, _), _)| *at <= next) {
                let Some((_, (to, from, mut bytes))) = self.way.pop_first() else { break };
                self.ends[to].handle_datagram(next, from, (to == 1).then_some(CALLED), Ecn::NotEct, &mut bytes);
            }
            self.pump();
        }
    }

    fn offer(&mut self, end: usize, mut packet: Vec<u8>) {
        self.ends[end].handle_packet(self.now, &mut packet);
    }

    fn link(&self, end: usize) -> &Link {
        self.ends[end].links().next().unwrap()
    }

    fn numbers(&self, end: usize) -> Vec<u32> {
        self.got[end].iter().map(|(_, packet)| u32::from_be_bytes(*packet[20..].first_chunk().unwrap())).collect()
    }
}

const DSL: Line = Line { rate: 10_000_000, delay: 10, loss: 0, is_cut: false };
const LTE: Line = Line { rate: 10_000_000, delay: 30, loss: 10_000, is_cut: false };

/// Offers packets of 1,000 bytes at `rate` bits per second in both directions for `seconds`.
fn fill(world: &mut Lines, first: u32, rate: u64, seconds: u64) -> u32 {
    let packets = rate * seconds / 8_000;
    for number in 0..packets {
        for end in 0..2 {
            world.offer(end, packet(end, GRE, first + number as u32, 1_000));
        }
        if number % 4 == 3 {
            world.run((4 * (number / 4 + 1) * 8_000_000 / rate) - (4 * (number / 4) * 8_000_000 / rate));
        }
    }
    first + packets as u32
}

#[test]
fn two_lines_carry_more_than_either_in_order() {
    let mut world = Lines::new([DSL, LTE]);
    // The second path is known to work a round trip after the first packet.
    let last = fill(&mut world, 0, 2_000_000, 1);
    // More than one line carries.
    let last = fill(&mut world, last, 16_000_000, 5);
    world.run(2_000);
    for end in 0..2 {
        let numbers = world.numbers(end);
        let missing: Vec<_> = (0..last).filter(|number| !numbers.contains(number)).collect();
        let counters = world.link(1 - end).hop_counters();
        assert!(missing.is_empty(), "end {end}: {missing:?}, {counters:?}");
        let early = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert_eq!((numbers.len(), early), (last as usize, 0), "end {end}");
        let link = world.link(end);
        assert_eq!(link.hop.path_count(), 2);
        let frames: Vec<_> = link.paths().iter().map(|path| path.frames.bytes).collect();
        assert!(frames.iter().all(|bytes| *bytes > 2_000_000), "{frames:?}");
    }
    // A translator in front of the first end accepts answers from the called address only.
    assert!(
        world.sources.iter().all(|source| *source == Some(CALLED)),
        "{:?}",
        world.sources.iter().position(Option::is_none)
    );
    assert_eq!(world.link(1).paths().iter().map(|path| path.address).collect::<Vec<_>>(), [Some(own(0)), Some(own(1))]);
}

/// A line is cut and returns. No packet is lost, and the gap is at most a round trip and 100 ms.
#[test]
fn a_cut_line_costs_no_packet() {
    for cut in 0..2 {
        let mut world = Lines::new([DSL, LTE]);
        let mut offered = vec![Vec::new(); 2];
        for number in 0..4_000_u32 {
            match number {
                1_000 => world.lines[cut].is_cut = true,
                3_000 => world.lines[cut].is_cut = false,
                _ => {}
            }
            for (end, offered) in offered.iter_mut().enumerate() {
                world.offer(end, packet(end, GRE, number, 400));
                offered.push(world.now);
            }
            world.run(5);
        }
        world.run(3_000);
        for (end, offered) in offered.iter().enumerate() {
            assert_eq!(world.numbers(1 - end), (0..4_000).collect::<Vec<_>>(), "line {cut}, from end {end}");
            let came: Vec<_> = world.got[1 - end].iter().map(|(came, _)| *came).collect();
            let gap = came.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
            assert!(gap <= Duration::from_millis(2 * 30 + 100), "line {cut}, from end {end}: {gap:?}");
            // The repair itself travels for 30 ms.
            let late = came.iter().zip(offered).map(|(came, sent)| came.since(*sent)).max().unwrap();
            assert!(late <= Duration::from_millis(3 * 30 + 100), "line {cut}, from end {end}: {late:?}");
        }
        let uses: Vec<_> = world.link(0).hop.path_ids().map(|path| world.link(0).hop.path_use(path)).collect();
        assert_eq!(uses, [PathUse::Used, PathUse::Used], "line {cut}");
    }
}

#[test]
fn a_session_begins_on_the_line_that_works() {
    let mut world = Lines::new([Line { is_cut: true, ..DSL }, LTE]);
    for number in 0..300 {
        world.offer(0, packet(0, GRE, number, 400));
        world.run(10);
    }
    world.run(2_000);
    let numbers = world.numbers(1);
    assert!(numbers.len() >= 250 && numbers.is_sorted(), "{}", numbers.len());
    assert_eq!(numbers.last(), Some(&299));
}

/// An end with one path in its file uses one path, and the other end does too.
#[test]
fn ends_with_different_numbers_of_paths_use_the_common_ones() {
    let mut world = Lines::new([DSL, LTE]);
    let mut plan = plan(1);
    plan.peers[0].paths.truncate(1);
    world.ends[1] = Engine::new(&plan, [9; 32], world.now, None).unwrap();
    for number in 0..200 {
        for end in 0..2 {
            world.offer(end, packet(end, GRE, number, 400));
        }
        world.run(5);
    }
    world.run(1_000);
    for end in 0..2 {
        assert_eq!(world.numbers(end), (0..200).collect::<Vec<_>>());
        assert_eq!(world.link(end).hop.path_count(), 1);
    }
    assert_eq!(world.sent[1], 0);
}

/// Either end restarts under load; both paths are used afterwards, and keys are changed meanwhile.
#[test]
fn paths_survive_restarts_and_rekeying() {
    for restarted in 0..2 {
        let mut world = Lines::new([DSL, LTE]);
        let mut last = fill(&mut world, 0, 12_000_000, 1);
        let mut plan = plan(restarted);
        plan.peers[0].paths = paths(restarted, [9_500_000; 2]);
        plan.peers[0].keepalive = Some(10_000 * MS);
        // The address at which the other end was last known, as the supervisor tells it.
        let known = world.link(restarted).paths().iter().map(|path| path.address).collect::<Vec<_>>();
        plan.peers[0].paths.iter_mut().zip(known).for_each(|(path, known)| path.last = known);
        world.ends[restarted] = Engine::new(&plan, [77; 32], world.now, None).unwrap();
        world.run(2_000);
        for _ in 0..3 {
            world.run(110_000);
            last = fill(&mut world, last, 12_000_000, 1);
            world.run(1_000);
            let before = world.link(0).paths().iter().map(|path| path.frames.bytes).collect::<Vec<_>>();
            last = fill(&mut world, last, 12_000_000, 1);
            world.run(1_000);
            for (path, before) in world.link(0).paths().iter().zip(before) {
                assert!(path.frames.bytes - before > 200_000, "restarted {restarted}");
            }
            for end in 0..2 {
                let numbers = world.numbers(end);
                let tail = (last - 3_000..last).collect::<Vec<_>>();
                assert_eq!(numbers[numbers.len() - 3_000..], tail, "restarted {restarted}, end {end}");
            }
        }
    }
}

/// Of two lines that work, `failover` uses the first. The second is known to work, and is not reported as down.
#[test]
fn a_line_that_stands_by_is_not_down() {
    let mut world = Lines::new([DSL, LTE]);
    let mut plan = plan(0);
    plan.peers[0].paths = paths(0, [9_500_000; 2]);
    plan.peers[0].multipath = Multipath::Failover;
    world.ends[0] = Engine::new(&plan, [7; 32], world.now, None).unwrap();
    let uses = |world: &Lines| [0, 1].map(|path| world.link(0).hop.path_use(PathId(path)));
    for number in 0..400 {
        world.offer(0, packet(0, GRE, number, 400));
        world.run(5);
    }
    assert_eq!(uses(&world), [PathUse::Used, PathUse::Standby]);
    world.lines[0].is_cut = true;
    for number in 400..800 {
        world.offer(0, packet(0, GRE, number, 400));
        world.run(5);
    }
    assert_eq!(uses(&world), [PathUse::Down, PathUse::Used]);
    world.run(1_000);
    assert_eq!(world.numbers(1), (0..800).collect::<Vec<_>>());
}

/// Repairs of a packet may take any path.
#[test]
fn packets_are_as_large_as_the_narrowest_path_allows() {
    let mut world = Lines::new([DSL, LTE]);
    fill(&mut world, 0, 1_000_000, 1);
    let before = world.link(0).mtu(world.now);
    let now = world.now;
    let link = world.ends[0].links_mut().next().unwrap();
    link.on_size(PathId(1), 1_200);
    assert_eq!((before, link.mtu(now)), (1442, 1_200 - crate::plan::ADDED));
}

/// Returns two ends, of which the first one, which is metered, has these terms for the second line.
fn metered(lines: [Line; 2], terms: Terms) -> Lines {
    let mut world = Lines::new(lines);
    let mut plan = plan(0);
    plan.peers[0].paths = paths(0, lines.map(|line| line.rate * 95 / 100));
    plan.peers[0].paths[1].terms = terms;
    plan.peers[0].keepalive = Some(10_000 * MS);
    world.ends[0] = Engine::new(&plan, [7; 32], world.now, None).unwrap();
    world
}

fn volumes(world: &Lines) -> [[u64; 2]; 2] {
    [0, 1].map(|end| [0, 1].map(|path| world.link(end).paths()[path].volume.bytes))
}

/// A line that is off at one end is off at both.
#[test]
fn a_line_that_is_off_carries_only_announcements_in_either_direction() {
    let mut world = metered([DSL, LTE], Terms::of(Tier::Off));
    let last = fill(&mut world, 0, 1_000_000, 1);
    let before = volumes(&world);
    let last = fill(&mut world, last, 8_000_000, 3);
    world.run(30_000);
    for (end, before) in before.iter().enumerate() {
        assert_eq!(volumes(&world)[end][1], before[1]);
        assert_eq!(world.link(end).hop.path_use(PathId(1)), PathUse::Off);
        assert_eq!(world.numbers(end), (0..last).collect::<Vec<_>>());
    }
    // Handshake and announcement.
    assert!(before[1][1] < 1_000, "{before:?}");
}

/// 8 Mbps leave the secondary line idle, 16 Mbps fill the primary one, and 4 Mbps later on do not.
#[test]
fn a_secondary_line_carries_what_the_primary_one_cannot() {
    let mut world = metered([DSL, LTE], Terms::of(Tier::Secondary));
    let last = fill(&mut world, 0, 8_000_000, 3);
    let idle = volumes(&world);
    assert!(idle.iter().all(|[first, second]| *second < *first / 100), "{idle:?}");
    let last = fill(&mut world, last, 16_000_000, 4);
    world.run(1_500);
    let full = volumes(&world);
    for (end, [_, second]) in full.into_iter().enumerate() {
        assert!(second > 4_000_000, "{full:?}");
        assert_eq!(world.numbers(end), (0..last).collect::<Vec<_>>());
    }
    let last = fill(&mut world, last, 4_000_000, 2);
    let idle = volumes(&world);
    fill(&mut world, last, 4_000_000, 5);
    for (after, idle) in volumes(&world).iter().zip(idle) {
        let more = after[1] - idle[1];
        assert!(more < 10_000, "{more}");
    }
}

#[test]
fn a_backup_line_carries_packets_while_the_other_one_fails() {
    let mut world = metered([DSL, LTE], Terms::of(Tier::Backup));
    let last = fill(&mut world, 0, 2_000_000, 3);
    let idle = volumes(&world);
    assert!(idle.iter().all(|[first, second]| *second < *first / 100), "{idle:?}");
    world.lines[0].is_cut = true;
    let last = fill(&mut world, last, 2_000_000, 3);
    let used = volumes(&world);
    assert!(used.iter().zip(idle).all(|(used, idle)| used[1] - idle[1] > 500_000), "{used:?}");
    world.lines[0].is_cut = false;
    world.run(3_000);
    let last = fill(&mut world, last, 2_000_000, 1);
    let again = volumes(&world);
    let last = fill(&mut world, last, 2_000_000, 4);
    world.run(1_000);
    for (end, again) in again.iter().enumerate() {
        assert!(volumes(&world)[end][1] - again[1] < 10_000);
        assert_eq!(world.numbers(end), (0..last).collect::<Vec<_>>());
    }
}

/// A call of 50 packets per second on a line that loses 5 %: its copies, and nothing else, take the backup line.
#[test]
fn a_backup_line_may_carry_copies_of_calls() {
    let lossy = Line { loss: 50_000, ..DSL };
    for copies in [Copies::None, Copies::Light] {
        let mut world = metered([lossy, LTE], Terms { tier: Tier::Backup, copies });
        for number in 0..1_500_u32 {
            let mut call = packet(0, 17, 0x1388_1389, 160);
            call[1] = 46 << 2;
            world.offer(0, call);
            for _ in 0..5 {
                world.offer(0, packet(0, GRE, number, 400));
            }
            world.run(20);
        }
        let second = world.link(0).paths()[1].frames.packets;
        match copies {
            Copies::Light => assert!((1_000..1_600).contains(&second), "{second}"),
            Copies::None | Copies::All => assert!(second < 100, "{second}"),
        }
    }
}

/// The data volume of the second line reaches its cap.
#[test]
fn a_limit_ends_the_use_of_a_line_at_both_ends_until_it_is_lifted() {
    let mut world = Lines::new([DSL, LTE]);
    let mut last = fill(&mut world, 0, 8_000_000, 2);
    let name = world.link(0).plan.name.clone();
    for (tier, used) in [(Tier::Off, PathUse::Off), (Tier::Backup, PathUse::Standby), (Tier::Primary, PathUse::Used)] {
        let now = world.now;
        world.ends[0].limit(now, &name, PathId(1), tier);
        last = fill(&mut world, last, 2_000_000, 1);
        for end in 0..2 {
            assert_eq!(world.link(end).hop.path_use(PathId(1)), used, "{tier:?}, end {end}");
        }
    }
    world.run(1_000);
    for end in 0..2 {
        let numbers = world.numbers(end);
        let missing: Vec<_> = (0..last).filter(|number| !numbers.contains(number)).collect();
        assert!(missing.is_empty(), "{missing:?} {:?}", world.link(1 - end).hop_counters());
    }
}
