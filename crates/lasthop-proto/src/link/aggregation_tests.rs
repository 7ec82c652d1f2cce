//! Aggregates computed by hand, loss rates, and properties of arbitrary ones.

extern crate std;

use std::vec;

use proptest::prelude::*;

use alloc::collections::VecDeque;

use super::super::window::WINDOW;
use super::*;
use crate::random::Root;

fn spec(frames: u32, frame_loss: f64, retries: u32) -> AggregationSpec {
    AggregationSpec {
        frames,
        time: Duration::from_millis(4),
        access: Duration::from_micros(100),
        backoff: Duration::ZERO,
        frame_loss,
        retries,
    }
}

fn aggregator(spec: AggregationSpec) -> Aggregator<u32> {
    Aggregator::new(spec, Root(3).stream("links/x/down/aggregation"))
}

/// Up to three frames each, or 3000 bytes; the frame that did not fit starts the next aggregate.
#[test]
fn frames_and_bytes_bound_an_aggregate() {
    let mut end = aggregator(spec(3, 0.0, 7));
    let mut queue: VecDeque<(u32, u32)> = [1000, 1000, 1000, 1000, 1500, 1500, 1500, 9000]
        .into_iter()
        .enumerate()
        .map(|(number, bytes)| (number as u32, bytes))
        .collect();
    let mut sizes = vec![];
    while let Some(aggregate) = end.aggregate(|| queue.pop_front(), |bytes| bytes <= 3000) {
        sizes.push((aggregate.delivered.clone(), aggregate.bytes));
        assert_eq!((aggregate.access, aggregate.again), (Duration::from_micros(100), 0));
    }
    let expected = [(vec![0, 1, 2], 3000), (vec![3, 4], 2500), (vec![5, 6], 3000), (vec![7], 9000)];
    assert_eq!(sizes, expected);
}

/// Each of a million attempts fails with probability 1/4. With two retries 1/64 of the frames is given up, and the mean
/// number of attempts is 1 + 1/4 + 1/16.
#[test]
fn tries_are_geometric_up_to_a_limit() {
    let mut end = aggregator(spec(32, 0.25, 2));
    let (mut numbers, mut tries, mut given_up, mut delivered) = (0..400_000u32, 0u64, 0u64, 0u64);
    while let Some(aggregate) = end.aggregate(|| numbers.next().map(|number| (number, 1500)), |_| true) {
        tries += u64::from(aggregate.frames);
        given_up += aggregate.given_up.len() as u64;
        delivered += aggregate.delivered.len() as u64;
    }
    assert_eq!(given_up + delivered, 400_000);
    let (share, mean) = (given_up as f64 / 4e5, tries as f64 / 4e5);
    assert!((share - 1.0 / 64.0).abs() < 0.001 && (mean - 1.3125).abs() < 0.005, "{share} {mean}");
}

proptest! {
    /// Every frame is delivered or given up, once; both kinds are in order. No more frames leave at once than an
    /// aggregate holds, or than a window after the first open one.
    #[test]
    fn all_frames_end_in_order(
        frames in 1u32..80,
        loss in 0.0..0.95f64,
        retries in 0u32..8,
        bytes in 500u32..20_000,
        sizes in proptest::collection::vec(1u32..3000, 0..200),
    ) {
        let mut end = aggregator(spec(frames, loss, retries));
        let mut queue: VecDeque<(u32, u32)> = sizes.iter().enumerate().map(|(n, size)| (n as u32, *size)).collect();
        let (mut delivered, mut given_up) = (vec![], vec![]);
        let mut aggregates = 0;
        while let Some(aggregate) = end.aggregate(|| queue.pop_front(), |sum| sum <= bytes) {
            prop_assert!((1..=frames).contains(&aggregate.frames) && aggregate.again <= aggregate.frames);
            prop_assert!(aggregate.bytes <= bytes || aggregate.frames == 1);
            delivered.extend(aggregate.delivered);
            given_up.extend(aggregate.given_up);
            let taken = sizes.len() - queue.len();
            prop_assert!(taken - delivered.len() - given_up.len() <= WINDOW.max(frames) as usize + 1);
            aggregates += 1;
            prop_assert!(aggregates <= 9 * sizes.len());
        }
        prop_assert!(delivered.is_sorted() && given_up.is_sorted());
        let mut all = [delivered, given_up].concat();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..sizes.len() as u32));
        prop_assert_eq!((end.waiting(), end.drain().len()), (0, 0));
    }
}
