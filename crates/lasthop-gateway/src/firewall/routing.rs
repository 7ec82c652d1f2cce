//! Routes that deliver split connections to this machine: a rule for marked packets, and its table.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use lasthop_sys::netlink::{Request, Socket, attributes};

use super::FirewallError;
use super::split::PREFERENCE;
use crate::family::Family;
use crate::split::SplitConfig;

/// Timeout for the kernel's answers, which are immediate.
const PATIENCE: Duration = Duration::from_millis(200);
/// Maximum number of leftover rules to remove.
const MOST: usize = 16;

/// Attributes: `FRA_PRIORITY` and `FRA_FWMARK` of a rule, `RTA_DST` and `RTA_MARK` of a route.
const PRIORITY: u16 = 6;
const FWMARK: u16 = 10;
const DESTINATION: u16 = 1;
const MARK: u16 = 16;

/// Routes of one IP version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Routing {
    family: Family,
    table: u32,
    mark: u32,
}

impl Routing {
    /// Returns the routes for a relay.
    pub fn new(config: &SplitConfig, family: Family) -> Self {
        Self { family, table: config.table, mark: config.marks.deliver }
    }

    fn ip(self) -> &'static str {
        match self.family {
            Family::V4 => "ip -4",
            Family::V6 => "ip -6",
        }
    }

    fn rule(self, action: &str) -> String {
        format!(
            "{} rule {action} preference {PREFERENCE} fwmark {mark:#x}/{mark:#x} lookup {}",
            self.ip(),
            self.table,
            mark = self.mark
        )
    }

    /// Returns the commands of [`Routing::install`].
    pub fn commands(&self) -> Vec<String> {
        vec![format!("{} route replace local default dev lo table {}", self.ip(), self.table), self.rule("add")]
    }

    /// Installs the routes in place of existing ones.
    pub fn install(self) -> Result<(), FirewallError> {
        self.remove_rules();
        self.commands().iter().try_for_each(|command| run(command))
    }

    /// Removes the routes that exist.
    pub fn remove(self) {
        self.remove_rules();
        let _ = run(&format!("{} route del local default dev lo table {}", self.ip(), self.table));
    }

    fn remove_rules(self) {
        for _ in 0..MOST {
            if run(&self.rule("del")).is_err() {
                return;
            }
        }
    }

    /// Returns whether a marked packet would be delivered locally, by exactly one rule.
    pub(super) fn is_in_place(self, socket: &mut Socket) -> io::Result<bool> {
        let (family, bits, anywhere) = match self.family {
            // Documentation addresses (RFC 5737, RFC 3849), which no other rule should match.
            Family::V4 => (libc::AF_INET as u8, 32, vec![192, 0, 2, 1]),
            Family::V6 => (libc::AF_INET6 as u8, 128, [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[1]].concat()),
        };
        let mut rules = 0;
        let list = Request::list(libc::RTM_GETRULE, &[&[family][..], &[0; 11]].concat());
        socket.ask(list, PATIENCE, |_, body| {
            let has = |kind, value: u32| {
                attributes(body.get(12..).unwrap_or_default()).any(|found| found == (kind, &value.to_ne_bytes()[..]))
            };
            rules += usize::from(has(PRIORITY, PREFERENCE) && has(FWMARK, self.mark));
        })?;
        let mut kind = None;
        let request = Request::one(libc::RTM_GETROUTE, &[&[family, bits][..], &[0; 10]].concat())
            .with(DESTINATION, &anywhere)
            .with(MARK, &self.mark.to_ne_bytes());
        match socket.ask(request, PATIENCE, |_, body| kind = body.get(7).copied()) {
            Ok(()) => {}
            // There is no route.
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL)) => {}
            Err(error) => return Err(error),
        }
        Ok(rules == 1 && kind == Some(libc::RTN_LOCAL))
    }
}

/// Runs one command.
fn run(command: &str) -> Result<(), FirewallError> {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| FirewallError::Run { program: program.to_owned(), error })?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
    Err(FirewallError::Refused { program: command.to_owned(), message })
}
