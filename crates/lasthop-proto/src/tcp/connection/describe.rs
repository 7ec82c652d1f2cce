//! The view of a connection for tools.

use super::Connection;
use crate::packet::Side;
use crate::tcp::info::{OptionsInfo, TcpInfo};

impl Connection {
    /// Returns the state of the connection under the names of Linux's `struct tcp_info`. Meant for tools: it computes
    /// each value on demand.
    pub fn info(&self) -> TcpInfo {
        let mut info = TcpInfo::of(self.state, self.sender.stream());
        if self.side == Side::Acceptor {
            // Linux creates the connection when its SYN is acknowledged (`tcp_create_openreq_child`).
            info.bytes_acked = info.bytes_acked.saturating_sub(1);
        }
        self.sender.describe(&mut info);
        info.options = OptionsInfo {
            timestamps: self.timestamps.is_on(),
            sack: self.sack.is_on(),
            wscale: self.peer_shift > 0 || self.receiver.window_shift > 0,
            ecn: self.ecn.is_on() || self.accurate.is_some(),
            snd_wscale: self.peer_shift,
            ..OptionsInfo::default()
        };
        self.describe_accurate(&mut info);
        self.receiver.describe(&mut info);
        info
    }
}
