//! Actions after a silence, and before all data is declared lost, for a sender that repairs losses itself.

use alloc::vec;

use super::tests::{Bench, ack, data, sack, suppressed};
use super::*;
use crate::packet::Cause::{LocalHole, LocalTimer, New};

/// While anything arrives, all packets pass, including those that would otherwise be repaired. A silence as long as the
/// local timer activates repair for 10 s.
#[test]
fn after_a_silence_losses_are_repaired_here_and_before_by_the_sender() {
    let config =
        SnoopConfig { begin: Begin::AfterSilence, ..SnoopConfig::new(LocalDetection::Smart, TcpAwareness::Aware) };
    let mut bench = Bench::with(config);
    for n in 0..6 {
        bench.wired(0, data(n));
    }
    bench.wireless(10, ack(1));
    // 1 is lost, and the loss is shown to the sender.
    let told = bench.wireless(12, sack(1, &[(2, 3)]));
    assert_eq!((told.down, told.up, told.events), (vec![], vec![(New, 1)], vec![]));
    // The sender resends it; nothing is absorbed.
    assert_eq!(bench.wired(20, data(1)).down, [(New, 1)]);
    // Nothing arrives for 200 ms after the last transmission.
    let fired = bench.idle_until(300);
    assert_eq!(fired.first(), Some(&220));
    // Now duplicates are suppressed, and holes repaired.
    let seen = bench.wireless(310, sack(1, &[(2, 5)]));
    assert_eq!((seen.up, seen.events), (vec![], vec![suppressed(1)]));
    bench.wireless(320, ack(6));
    // Ten seconds later losses are left to the sender again.
    for n in 6..9 {
        bench.wired(11_000, data(n));
    }
    let told = bench.wireless(11_010, sack(6, &[(7, 8)]));
    assert_eq!((told.down, told.up), (vec![], vec![(New, 6)]));
}

/// Returns a bench on which packets take 10 ms, and the mobile host reports arrivals above a hole. Packets 3 to 10 get
/// no response. The timer is at 50 ms.
fn woken() -> Bench {
    let mut bench = Bench::with(SnoopConfig::beneath_relay());
    (0..3).for_each(|n| drop(bench.wired(0, data(n))));
    assert_eq!(bench.wireless(10, sack(1, &[(2, 3)])).down, []);
    bench.wired(10, data(1));
    bench.wireless(20, ack(3));
    (3..11).for_each(|n| drop(bench.wired(20, data(n))));
    let gone = bench.resent_until(70);
    assert_eq!(gone, [3, 4, 5].map(|n| (70, (LocalTimer, n))));
    bench
}

/// Returns the bench after the packets of the silence have arrived, at 80 ms, and 11 to 18 have left.
fn resumed() -> Bench {
    let mut bench = woken();
    bench.resent_until(79);
    bench.wireless(80, ack(11));
    (11..19).for_each(|n| drop(bench.wired(80, data(n))));
    bench
}

/// The sender sends 11 in the silence, after 3 to 7 have been resent; 8, 9 and 10 follow, and 11 once more. All
/// acknowledgments are lost but one, which reports 3 to 8 and 11. It is ambiguous whether 8 arrived before 11, so this
/// does not show that 11 arrived in its second transmission, and that 9 and 10 were lost again.
#[test]
fn what_one_acknowledgment_tells_of_arrived_in_no_known_order() {
    let mut bench = woken();
    assert_eq!(bench.resent_until(71), [6, 7].map(|n| (71, (LocalTimer, n))));
    assert_eq!(bench.wired(71, data(11)).down, [(New, 11)]);
    let gone = bench.resent_until(79);
    assert_eq!(gone, [(72, 8), (72, 9), (73, 10), (73, 11), (76, 11)].map(|(when, n)| (when, (LocalTimer, n))));
    assert_eq!(bench.wireless(82, sack(9, &[(11, 12)])).down, []);
}

/// None of the data sent at 80 ms is acknowledged at 95 ms, half a round trip late. Eight copies of the last packet
/// then probe the hop at the recent packet rate. The timer acts only if none of them is answered.
#[test]
fn what_is_overdue_is_asked_after_before_all_is_sent_again() {
    let gone = resumed().resent_until(131);
    assert_eq!(gone[..8], [95, 96, 97, 98, 100, 101, 102, 103].map(|when| (when, (LocalTimer, 18))));
    assert_eq!(gone[8..11], [11, 12, 13].map(|n| (130, (LocalTimer, n))));
}

/// While the sender sends, its own packets probe the hop.
#[test]
fn a_sender_that_goes_on_is_not_helped_to_ask() {
    let mut bench = resumed();
    (0..20).for_each(|n| {
        let now = 81 + n;
        assert_eq!(bench.wired(now, data(19 + n as u32)).down, [(New, 19 + n as u32)]);
        assert_eq!(bench.resent_until(now), []);
    });
    assert_eq!(bench.resent_until(104).first(), Some(&(101, (LocalTimer, 38))));
}

/// Both have resent 11, and the mobile host reports a duplicate: that does not show reordering, and the next hole is
/// repaired at once.
#[test]
fn a_copy_that_comes_back_may_be_the_senders() {
    let mut bench = resumed();
    assert_eq!(bench.wireless(90, sack(11, &[(12, 13)])).down, [(LocalHole, 11)]);
    assert_eq!(bench.wired(91, data(11)).down, [(New, 11)]);
    bench.wireless(101, ack(19));
    bench.wireless(102, sack(19, &[(11, 12)]));
    (19..24).for_each(|n| drop(bench.wired(103, data(n))));
    assert_eq!(bench.wireless(113, sack(19, &[(20, 21)])).down, [(LocalHole, 19)]);
}
