//! Offloads of hosts with the kernel's TCP: super-segments that leave a host's device whole, and receive offload.
//!
//! A host with `tso` passes super-segments to its device, and the emulated link splits them, as the host's device does.
//! What enters a router are packets, so that super-segments exist on the first link of a host only.

use lasthop_proto::channel::ErrorSpec;
use lasthop_proto::tcp::config::{ReceiverConfig, Switch, TcpConfig};
use lasthop_sim::network::NodeId;
use lasthop_sys::ethtool::{Switch as State, set_offloads};
use lasthop_sys::packet_socket::frame::Offload;

use super::elements::{ETHERNET, IPV4};
use super::error::LabError;
use super::namespace::Namespace;
use super::plan::{Plan, Point};

/// Splits a frame of a device with offloads into complete packets, and passes each to `send`, with the number of the
/// super-segment: 0 for a frame that is none. `number` returns the next one.
pub fn split(frame: &[u8], offload: Offload, number: impl FnOnce() -> u8, mut send: impl FnMut(&[u8], u8)) {
    let size = offload.segment_size().map(|size| usize::from(size.get()));
    let headers = frame.get(..ETHERNET).filter(|headers| headers.ends_with(&IPV4));
    let view = headers.and_then(|_| lasthop_wire::parse(&frame[ETHERNET..]));
    if let (Some(size), Some(view)) = (size, view) {
        let number = number();
        let mut bytes = frame[..ETHERNET].to_vec();
        for piece in lasthop_wire::pieces(&frame[ETHERNET..], &view, size) {
            bytes.truncate(ETHERNET);
            bytes.extend_from_slice(&piece);
            send(&bytes, number);
        }
    } else if offload.is_complete() {
        send(frame, 0);
    } else {
        let mut bytes = frame.to_vec();
        offload.complete(&mut bytes);
        send(&bytes, 0);
    }
}

/// Sets the offloads of a node's devices, which have just been created.
pub fn set(namespace: &Namespace, plan: &Plan<'_>, node: NodeId) -> Result<(), LabError> {
    let state = |is_on: bool| if is_on { State::On } else { State::Off };
    let (send, receive) = (plan.segments(node), plan.receive_offload(node));
    let devices = plan.devices_of(node);
    namespace.within(|| {
        devices.iter().try_for_each(|device| {
            set_offloads(device, state(send), state(receive.is_some()))
                .map_err(LabError::system(format!("cannot set the offloads of {device}")))
        })
    })?;
    let wait = receive.map(|receiver| receiver.gro_flush_timeout.as_nanos()).filter(|wait| *wait > 0);
    wait.map_or(Ok(()), |wait| devices.iter().try_for_each(|device| namespace.set_flush_timeout(device, wait)))
}

fn tso(config: &TcpConfig) -> bool {
    config.sender.modern().is_some_and(|modern| modern.tso.is_on())
}

impl Plan<'_> {
    /// Returns whether a node passes super-segments to its devices.
    pub fn segments(&self, node: NodeId) -> bool {
        self.host_tcp(node).is_some() && !self.is_own(node) && self.tcp(node).is_some_and(tso)
    }

    /// Returns the settings of a node whose devices merge received segments.
    fn receive_offload(&self, node: NodeId) -> Option<&ReceiverConfig> {
        let is_kernel = self.host_tcp(node).is_some() && !self.is_own(node);
        self.tcp(node)
            .filter(|_| is_kernel)
            .map(|config| &config.receiver)
            .filter(|receiver| receiver.gro == Switch::On)
    }

    /// Returns the points whose nodes pass super-segments to their devices.
    pub fn offloaded(&self) -> Vec<bool> {
        (0..self.ports()).map(|point| point < self.points() && self.segments(self.node(point))).collect()
    }

    /// Returns the `tc` commands for [`Plan::host_queues`] of a device that gets super-segments. Unlike a token bucket
    /// filter, this class sends one whole, and waits afterwards.
    pub(super) fn whole_queue(device: &str, rate: u64, [burst, limit]: [u64; 2]) -> [String; 3] {
        [
            format!("qdisc add dev {device} root handle 1: stab overhead -{ETHERNET} linklayer ethernet htb default 1"),
            format!(
                "class add dev {device} parent 1: classid 1:1 htb rate {rate}bit burst {burst} cburst {burst} \
                 quantum {burst}"
            ),
            format!("qdisc add dev {device} parent 1:1 bfifo limit {limit}"),
        ]
    }

    /// Checks that the lab has the offloads of the scenario.
    pub(super) fn check_offloads(&self) -> Result<(), LabError> {
        let refuse = |what, name: &str, instead| Err(LabError::Unsupported { what, name: name.to_owned(), instead });
        let network = self.network;
        for spec in &network.elements {
            if spec.element.endpoints().into_iter().flatten().any(|config| tso(config)) {
                let name = &network.nodes[spec.node.0].name;
                return refuse("segmentation offload of a relay", name, "set tso in hosts.NAME.tcp instead of [tcp]");
            }
        }
        for flow in network.flows.iter().filter(|flow| flow.app.quic().is_none() && tso(&flow.tcp[0])) {
            if self.is_own(flow.from) {
                let name = &network.nodes[flow.from.0].name;
                return refuse("segmentation offload of lasthop's TCP", name, "use the kernel's TCP, or `lasthop run`");
            }
            let is_whole =
                |point: &Point| matches!(network.links[point / 2].directions[point % 2].errors, ErrorSpec::Whole(_));
            if let Some(point) = self.path(flow).into_iter().skip(1).find(is_whole) {
                let instead = "only the first link of a host carries them; use `lasthop run`";
                return refuse("losses of super-segments behind a router", &network.links[point / 2].name, instead);
            }
        }
        Ok(())
    }
}

/// Numbers of super-segments by point.
#[derive(Debug, Default)]
pub struct Numbers(Vec<u8>);

impl Numbers {
    /// Returns numbers for this many points.
    pub fn new(points: usize) -> Self {
        Self(vec![0; points])
    }

    /// Returns the next number at a point, from 1 to 255 in turn.
    pub fn next(&mut self, point: Point) -> u8 {
        let Some(number) = self.0.get_mut(point) else { return 0 };
        *number = number.checked_add(1).unwrap_or(1);
        *number
    }
}

#[cfg(test)]
mod tests {
    use lasthop_proto::packet::{Flags, Segment};
    use lasthop_proto::seq::Seq;
    use lasthop_wire::{Checksum, Checksums, Route, build, checksums, parse};

    use super::*;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let route = Route { source: "10.0.0.1:1".parse().unwrap(), destination: "10.0.0.2:2".parse().unwrap() };
        let flags = Flags::ACK.with(Flags::PSH);
        let packet = build(route, &Segment { seq: Seq(7), flags, ..Segment::default() }, payload).unwrap();
        [&[0; 12], &IPV4[..], &packet].concat()
    }

    fn pieces(frame: &[u8], offload: Offload) -> Vec<(Vec<u8>, u8)> {
        let mut sent = Vec::new();
        split(frame, offload, || 9, |bytes, number| sent.push((bytes.to_vec(), number)));
        sent
    }

    #[test]
    fn a_super_segment_leaves_in_complete_packets() {
        let payload: Vec<u8> = (0..250).collect();
        let mut whole = frame(&payload);
        // The device computes the checksum.
        whole[ETHERNET + 36..ETHERNET + 38].fill(0);
        let sent = pieces(&whole, Offload::of_super_segment(100));
        let mut seq = 7;
        for ((bytes, number), len) in sent.iter().zip([100, 100, 50]) {
            let view = parse(&bytes[ETHERNET..]).unwrap();
            assert_eq!((*number, view.payload_len, view.segment.seq), (9, len, Seq(seq)));
            assert_eq!(view.segment.flags.has(Flags::PSH), len == 50);
            assert_eq!(checksums(&bytes[ETHERNET..], &view, Checksum::Complete), Checksums::Hold);
            seq += len as u32;
        }
        assert_eq!(sent.len(), 3);
    }

    #[test]
    fn other_frames_are_completed_only() {
        let complete = frame(b"odd");
        assert_eq!(pieces(&complete, Offload::default()), [(complete.clone(), 0)]);
        // With the sum of the pseudo header in the field: addresses, protocol and length.
        let mut partial = complete.clone();
        let sum = 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 6 + 23_u16;
        partial[ETHERNET + 36..ETHERNET + 38].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(pieces(&partial, Offload::of_checksum(ETHERNET as u16 + 20, 16)), [(complete, 0)]);
        // Metadata that does not fit changes nothing.
        for len in 0..60 {
            let short = &partial[..len.min(partial.len())];
            assert_eq!(pieces(short, Offload::of_checksum(u16::MAX, 16)), [(short.to_vec(), 0)]);
            pieces(short, Offload::of_super_segment(1));
        }
    }

    #[test]
    fn numbers_turn_without_zero() {
        let mut numbers = Numbers::new(1);
        let all: Vec<u8> = (0..256).map(|_| numbers.next(0)).collect();
        assert_eq!((all[0], all[254], all[255], numbers.next(5)), (1, 255, 1, 0));
    }
}
