use alloc::collections::VecDeque;

use super::*;

const CONTROL: HopControl = HopControl { backlog: 10, held: 1 << 20 };
const SEGMENT: u32 = 1000;

/// Runs a hop with the round trip `base` that sends a segment per millisecond, with a full window, for `rounds` round
/// trips.
fn settle(hop: &mut HopWindow, now: &mut Instant, base: Duration, rounds: u32) -> u64 {
    settle_at(Duration::from_millis(1), hop, now, base, rounds)
}

/// Runs a hop like [`settle`], with `each` per segment.
fn settle_at(each: Duration, hop: &mut HopWindow, now: &mut Instant, base: Duration, rounds: u32) -> u64 {
    let (mut seq, mut segments) = (hop.round_end, 0);
    for _ in 0..rounds {
        hop.in_flight = 0;
        while hop.admits(CONTROL, SEGMENT, 0) {
            hop.sent(SEGMENT);
        }
        let rtt = base.max(Duration::from_nanos(hop.in_flight / u64::from(SEGMENT) * each.as_nanos()));
        segments = hop.in_flight / u64::from(SEGMENT);
        let (under_way, arrived_before) = (hop.in_flight as u32, hop.arrived());
        let crossing = Crossing { sent: *now, under_way, arrived_before };
        *now += rtt;
        hop.landed(under_way.into());
        let next = seq + under_way;
        hop.sample(*now, CONTROL, crossing, seq, next);
        seq = next;
    }
    segments
}

#[test]
fn the_backlog_waits_and_no_more() {
    for base in [20, 60, 300] {
        let (mut hop, mut now) = (HopWindow::new(Seq(7)), Instant::ZERO);
        let segments = settle(&mut hop, &mut now, Duration::from_millis(base), 40);
        // Ten segments, or as many as arrive in a sixteenth of the round trip.
        let queued = 2 + 10.max(base / 16);
        assert!((base..=base + queued).contains(&segments), "{segments} segments on a hop that takes {base} ms");
    }
}

#[test]
fn on_a_fast_hop_the_target_waits() {
    let (mut hop, mut now) = (HopWindow::new(Seq(7)), Instant::ZERO);
    // 8 Gbps: 1000 segments fill the hop, 5000 wait for 5 ms.
    let segments = settle_at(Duration::from_micros(1), &mut hop, &mut now, Duration::from_millis(1), 60);
    assert!((5900..=6100).contains(&segments), "{segments}");
}

/// Returns the number of segments that a hop delivers in the last 20 of 30 s, and the maximum number in its queue in
/// that time. The hop sends a segment per millisecond and takes 20 ms; one frame in `of` arrives 40 ms late, and those
/// behind it wait for it.
fn brought_behind_repeats(of: u32) -> (u64, u64) {
    let ms = Duration::from_millis;
    let (mut hop, mut now, mut seq, mut draw) = (HopWindow::new(Seq(0)), Instant::ZERO, Seq(0), 1_u32);
    let (mut departs, mut arrives) = (now, now);
    let (mut acks, mut brought, mut longest) = (VecDeque::new(), 0, 0);
    let settled = Instant::ZERO + ms(10_000);
    while now < Instant::ZERO + ms(30_000) {
        while hop.admits(CONTROL, SEGMENT, 0) {
            let crossing = Crossing { sent: now, under_way: hop.sent(SEGMENT), arrived_before: hop.arrived() };
            // Numerical Recipes' generator.
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let late = if (draw >> 16) % of == of - 1 { ms(40) } else { ms(0) };
            departs = departs.max(now) + ms(1);
            arrives = arrives.max(departs + late);
            acks.push_back((arrives + ms(20), seq, crossing));
            seq += SEGMENT;
        }
        let (at, acked, crossing) = acks.pop_front().unwrap();
        now = at;
        hop.landed(SEGMENT.into());
        hop.sample(now, CONTROL, crossing, acked, seq);
        if now > settled {
            brought += 1;
            longest = longest.max(departs.since(now).as_nanos() / ms(1).as_nanos());
        }
    }
    (brought, longest)
}

/// One in twenty is late: among the 40 segments before a segment there is none in an eighth of cases, so a few per
/// round trip arrive in time. By their mean, as in FAST, the hop delivers half of its capacity. If none is in time, at
/// most the two backlogs that the queue lacks after a drain are queued.
#[test]
fn waiting_behind_repeats_is_no_queue() {
    let (brought, _) = brought_behind_repeats(20);
    assert!(brought >= 18_000, "{brought} of 20000");
    let (alone, longest) = brought_behind_repeats(u32::MAX);
    assert!(alone >= 19_900 && longest <= 20, "{alone} of 20000, {longest} in the queue");
}

/// A hop whose queue holds `queue` segments.
struct Hop {
    each: Duration,
    base: Duration,
    queue: u64,
}

/// Returns the number of segments that a hop delivers in the last 8 of 10 s, and the number dropped from its full queue
/// meanwhile. Lost segments are resent when the loss shows, at most five per acknowledgment. They count towards the
/// pace, but not towards the window.
fn brought_and_lost_on(&Hop { each, base, queue }: &Hop) -> (u64, u64) {
    let after = |seconds: u64| Instant::ZERO + Duration::from_millis(1_000 * seconds);
    let (mut hop, mut now, mut seq, mut departs) = (HopWindow::new(Seq(0)), Instant::ZERO, Seq(0), Instant::ZERO);
    let (mut events, mut again, mut brought, mut lost) = (VecDeque::new(), VecDeque::new(), 0, 0);
    let (mut pacer, mut repairs) = (Pacer::NEW, 0_u32);
    while now < after(10) {
        let mut paced = None;
        loop {
            let lost_before = if repairs > 0 || events.is_empty() { again.pop_front() } else { None };
            let (sent, crossing) = match lost_before {
                Some(sent) => {
                    repairs = repairs.saturating_sub(1);
                    (sent, None)
                }
                None if hop.admits(CONTROL, SEGMENT, 0) => {
                    paced = hop.pace().and_then(|pace| pacer.waits_until(now, pace));
                    if paced.is_some() {
                        break;
                    }
                    let arrived_before = hop.arrived();
                    let crossing = Crossing { sent: now, under_way: hop.sent(SEGMENT), arrived_before };
                    seq += SEGMENT;
                    (seq - SEGMENT, Some(crossing))
                }
                None => break,
            };
            if let Some(pace) = hop.pace() {
                pacer.sent(now, pace, SEGMENT);
            }
            let finds_room = departs.since(now).as_nanos() < queue * each.as_nanos();
            if finds_room {
                departs = departs.max(now) + each;
            }
            events.push_back((departs + base, sent, crossing, finds_room));
        }
        let &(arrival, ..) = events.front().unwrap();
        if let Some(paced) = paced.filter(|&paced| paced < arrival) {
            now = paced;
            continue;
        }
        let (at, of, crossing, came) = events.pop_front().unwrap();
        now = at;
        let counts = u64::from(now > after(2));
        if came {
            brought += counts;
            repairs = 5;
            hop.landed(SEGMENT.into());
            if let Some(crossing) = crossing {
                hop.sample(now, CONTROL, crossing, of, seq);
            }
        } else {
            lost += counts;
            again.push_back(of);
        }
    }
    (brought, lost)
}

/// The target is ten segments, or 5 ms of data. With less capacity, more and more would be lost, and less and less
/// delivered. Such queues continue to overflow: mostly too little is lost for half the backlog to be tried.
#[test]
fn a_queue_that_overflows_is_not_aimed_beyond() {
    // Microseconds per segment, milliseconds to cross, queue in segments; minimum percentage delivered, and maximum
    // percentage lost, of the hop's capacity.
    for (each, base, queue, comes, lost_at_most) in [
        (1_000, 20, 4, 95, 20),
        (1_000, 20, 6, 95, 10),
        (1_000, 20, 8, 95, 5),
        (1_000, 20, 100, 95, 5),
        (1_000, 60, 10, 95, 5),
        (100, 10, 10, 95, 20),
        (100, 10, 20, 95, 45),
        (100, 10, 40, 95, 5),
        (100, 40, 10, 95, 25),
        (100, 40, 20, 95, 15),
        (100, 40, 40, 95, 10),
    ] {
        let hop = Hop { each: Duration::from_micros(each), base: Duration::from_millis(base), queue };
        let (brought, lost) = brought_and_lost_on(&hop);
        let most = 8_000_000 / each;
        let holds = 100 * brought >= comes * most && 100 * lost <= lost_at_most * most;
        assert!(holds, "{each} us, {base} ms, {queue}: {brought} of {most}, {lost} lost");
    }
}

#[test]
fn a_longer_path_is_noticed() {
    let (mut hop, mut now) = (HopWindow::new(Seq(7)), Instant::ZERO);
    settle(&mut hop, &mut now, Duration::from_millis(20), 40);
    // At first the added delay looks like a queue.
    let segments = settle(&mut hop, &mut now, Duration::from_millis(100), 20);
    assert!(segments < 30, "{segments}");
    let segments = settle(&mut hop, &mut now, Duration::from_millis(100), 300);
    assert!(segments >= 95, "{segments}");
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut hop = HopWindow::new(Seq(0));
    for round in 0..100 {
        assert!(hop.admits(CONTROL, SEGMENT, 0));
        hop.sent(SEGMENT);
        let arrived_before = hop.arrived();
        hop.landed(SEGMENT.into());
        let sent = Instant::ZERO + Duration::from_millis(20 * round);
        let crossing = Crossing { sent, under_way: SEGMENT, arrived_before };
        let now = sent + Duration::from_millis(20);
        hop.sample(now, CONTROL, crossing, Seq(round as u32), Seq(round as u32 + 1));
    }
    assert_eq!(hop.window, 10 * u64::from(SEGMENT));
}
