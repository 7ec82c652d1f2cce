//! Keys of a flow over QUIC.

use lasthop_proto::tcp::config::CommonConfig;
use lasthop_proto::time::Duration;
use lasthop_sim::network::{
    CongestionControl, Exchange, LARGEST_UDP_PAYLOAD, QuicConfig, SMALLEST_UDP_PAYLOAD, Task, UDP_HEADERS,
};

use crate::document::{Data, quote};
use crate::nodes::Host;
use crate::reader::{Reader, Value};
use crate::shared_keys::FlowKeys;
use crate::units::ByteSize;
use crate::values::{Positive, Transferred, Whole};
use crate::{Error, Problem, did_you_mean};

keys! {
    /// Keys that only such a flow has.
    pub(crate) Keys {
        /// required without `size` | bytes of each
        request, response;
        /// {} | requests; of these concurrent, 1 to 100
        requests: Whole<1, MOST_REQUESTS> = Whole(1), parallel: Whole<1, MOST_PARALLEL> = Whole(1);
        /// {} | or `"new-reno"` (quinn's)
        congestion: Congestion = Congestion(CongestionControl::Cubic);
        /// as large as TCP's packets | bytes of a full datagram without headers, 1200 to 65507
        udp_payload;
        /// {} | receive window per stream; quinn's defaults
        stream_window: ByteSize = ByteSize(1_250_000),
        idle_timeout: Positive<Duration> = Positive(Duration::from_secs(30));
    }
}

/// Keys that select requests and responses.
const EXCHANGE_KEYS: &[&str] = key_names!(Keys: request, response, requests, parallel);

/// Maximum number of concurrent streams: quinn's default limit for a peer.
const MOST_PARALLEL: u32 = 100;

/// Maximum number of requests on one connection.
const MOST_REQUESTS: u32 = 1_000_000;

/// Bytes of IPv4 and TCP header.
const TCP_HEADERS: u32 = 40;

/// Bytes of a segment's timestamps, if it has them (RFC 7323).
const TIMESTAMPS: u32 = 12;

const QUINN: &str = "default: quinn's";

/// Reads the keys of a flow between those hosts.
pub(crate) fn read(reader: &Reader<'_>, hosts: [&Host; 2]) -> Result<QuicConfig, Error> {
    let task = task(reader)?;
    let Congestion(congestion) = reader.value_from(Keys::congestion, QUINN)?;
    let udp_payload = udp_payload(reader, hosts)?;
    let window = reader.value_from(Keys::stream_window, "default: quinn's, 100 Mbps over 100 ms")?;
    let ByteSize(stream_window @ 1..=0x4000_0000) = window else {
        return Err(reader.refuse(Keys::stream_window, ByteSize::expected(), "it is not between 1 B and 1 GiB"));
    };
    let Positive(idle_timeout) = reader.value_from(Keys::idle_timeout, QUINN)?;
    if idle_timeout < Duration::from_millis(1) {
        return Err(reader.refuse(Keys::idle_timeout, "a time from 1 ms on", "QUIC counts milliseconds"));
    }
    let stream_window = stream_window as u32;
    Ok(QuicConfig { task, congestion, udp_payload, stream_window, idle_timeout })
}

fn task(reader: &Reader<'_>) -> Result<Task, Error> {
    let Some(key) = EXCHANGE_KEYS.iter().find(|key| reader.has(key)) else {
        if !reader.has(FlowKeys::size) {
            let expected = "a number of bytes to send, e.g. \"10 MiB\"; or request and response".to_owned();
            return Err(reader.fail(FlowKeys::size, Problem::Missing { expected }));
        }
        let Transferred(bytes) = reader.required(FlowKeys::size)?;
        return Ok(Task::Bulk { bytes });
    };
    if reader.has(FlowKeys::size) {
        let message =
            format!("{key} makes requests and responses, which have their own sizes; remove this key, or {key}");
        return Err(reader.fail(FlowKeys::size, Problem::Conflict(message)));
    }
    let (Transferred(request), Transferred(response)) =
        (reader.required(Keys::request)?, reader.required(Keys::response)?);
    let Whole(requests) = reader.value(Keys::requests)?;
    let Whole(parallel) = reader.value(Keys::parallel)?;
    Ok(Task::Exchange(Exchange { request, response, requests, parallel }))
}

/// Reads the bytes of a full datagram. By default the IP packet has the size of a TCP packet between the same hosts.
fn udp_payload(reader: &Reader<'_>, hosts: [&Host; 2]) -> Result<u16, Error> {
    let packet = |tcp: &CommonConfig| tcp.mss + TCP_HEADERS + if tcp.timestamps.is_on() { TIMESTAMPS } else { 0 };
    let largest = hosts.iter().map(|host| packet(&host.tcp.common)).min().unwrap_or_default();
    let derived = largest.saturating_sub(u32::from(UDP_HEADERS));
    let source = format!("the hosts' TCP packets, {largest} B, without IP and UDP headers");
    let ByteSize(bytes) = reader.or_derived(Keys::udp_payload, ByteSize(derived.into()), &source)?;
    let range = SMALLEST_UDP_PAYLOAD.into()..=LARGEST_UDP_PAYLOAD.into();
    match u16::try_from(bytes) {
        Ok(payload) if range.contains(&bytes) => Ok(payload),
        _ if reader.has(Keys::udp_payload) => Err(reader.refuse(
            Keys::udp_payload,
            "1200 to 65507 bytes",
            "QUIC needs paths that carry 1200 (RFC 9000 §14)",
        )),
        _ => {
            let message = format!(
                "QUIC needs datagrams of 1200 to 65507 bytes (RFC 9000 §14), but packets of TCP's size ({largest} B) hold {bytes}; \
                 set udp_payload, or an mss of at least 1188"
            );
            Err(reader.fail(Keys::udp_payload, Problem::Conflict(message)))
        }
    }
}

/// A congestion control by its name.
struct Congestion(CongestionControl);

const CONGESTION: [(&str, CongestionControl); 2] =
    [("cubic", CongestionControl::Cubic), ("new-reno", CongestionControl::NewReno)];

impl Value for Congestion {
    fn expected() -> String {
        "\"cubic\" or \"new-reno\"".to_owned()
    }
    fn read(data: &Data) -> Result<Self, String> {
        let Data::String(name) = data else { return Err(String::new()) };
        let seedless = "quinn's BBR draws random numbers from the operating system, so that no seed repeats its runs";
        let near = || did_you_mean(name, CONGESTION.iter().map(|(name, _)| *name));
        match CONGESTION.iter().find(|(known, _)| known == name) {
            Some((_, control)) => Ok(Self(*control)),
            None if name.starts_with("bbr") => Err(seedless.to_owned()),
            None => Err(near().map(|near| format!("did you mean \"{near}\"?")).unwrap_or_default()),
        }
    }
    fn show(&self) -> String {
        quote(CONGESTION.iter().find(|(_, control)| *control == self.0).map_or("", |(name, _)| name))
    }
}
