//! Blocks of Python in a run.

use std::collections::BTreeMap;

use super::{Run, Step, Stop, differs};
use crate::code::{Code, Number};

/// Constants of `tcp_info` by their names in Linux and FreeBSD.
const CONSTANTS: [(&str, i128); 38] = [
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCPI_ESTABLISHED", 1),
    ("TCPI_SYN_SENT", 2),
    ("TCPI_SYN_RECEIVED", 3),
    ("TCPI_FIN_WAIT_1", 4),
    ("TCPI_FIN_WAIT_2", 5),
    ("TCPI_TIME_WAIT", 6),
    ("TCPI_CLOSED", 7),
    ("TCPI_CLOSE_WAIT", 8),
    ("TCPI_LAST_ACK", 9),
    ("TCPI_LISTEN", 10),
    ("TCPI_CLOSING", 11),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCPI_OPT_USEC_TS", 64),
    ("TCPI_OPT_TFO_CHILD", 128),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
    ("True", 1),
    ("False", 0),
];

/// Returns whether a name is a constant.
pub(super) fn is_constant(name: &str) -> bool {
    CONSTANTS.iter().any(|(constant, _)| *constant == name)
}

impl Run<'_> {
    /// Runs a block with the `tcp_info` of the connection under test.
    pub(super) fn code(&mut self, text: &str) -> Step {
        let code = Code::parse(text).map_err(|unmet| Stop::Lacks(unmet.message))?;
        let mut variables: BTreeMap<String, Number> =
            CONSTANTS.iter().map(|(name, value)| ((*name).to_owned(), Number::Int(*value))).collect();
        let socket = self.socket_under_test();
        for name in code.names() {
            if is_constant(name) {
                continue;
            }
            let value = socket.and_then(|socket| self.stack.info(self.clock.now, socket, name));
            let Some(value) = value else { return Err(Stop::Lacks(format!("variable {name}"))) };
            variables.insert(name.to_owned(), Number::Int(i128::from(value)));
        }
        code.run(&mut variables).map_err(|unmet| {
            if unmet.is_unsupported {
                Stop::Lacks(unmet.message)
            } else {
                let (assertion, values) = unmet.message.split_once(" fails").unwrap_or((&unmet.message, ""));
                differs(assertion, values.trim_start_matches(": "))
            }
        })
    }
}
