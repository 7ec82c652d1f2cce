//! Fields of `tcp_info` by their names in the kernel.

use lasthop_proto::tcp::State;
use lasthop_proto::tcp::info::NAMES;
use lasthop_proto::time::Instant;

use super::socket::Live;

/// Prefix of the kernel's names.
const PREFIX: &str = "tcpi_";

/// Returns the reason why a field cannot be read.
pub(super) fn lacks(field: &str) -> Option<String> {
    let is_known = field.strip_prefix(PREFIX).is_some_and(|name| NAMES.contains(&name));
    (!is_known).then(|| format!("tcp_info field {field}"))
}

/// Returns the value of a field.
pub(super) fn value(live: &Live, _now: Instant, field: &str) -> Option<i64> {
    let name = field.strip_prefix(PREFIX).filter(|name| NAMES.contains(name))?;
    let value = live.connection.info().fields().get(name).unwrap_or_else(|| unknown(name));
    Some(value as i64)
}

/// Returns the kernel's number for a value that is unknown.
fn unknown(name: &str) -> u64 {
    match name {
        // `TCP_INFINITE_SSTHRESH`.
        "snd_ssthresh" => 0x7fff_ffff,
        "min_rtt" => u32::MAX.into(),
        _ => 0,
    }
}

/// Returns the value of a field of a listening socket.
pub(super) fn of_listener(field: &str) -> Option<i64> {
    (field == "tcpi_state").then(|| State::Listen.number().into())
}
