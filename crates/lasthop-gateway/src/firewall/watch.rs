//! Detection of changed rules: other programs flush tables and install their own rules.
//!
//! Listing rules needs processes, but the kernel reports changes cheaply: nf_tables has a generation counter, and the
//! legacy tables have sizes. Rules are listed if these change, and periodically.

use std::io;
use std::time::{Duration, Instant};

use lasthop_sys::ip_tables;
use lasthop_sys::netlink::{Request, Socket, attributes};
use rustix::net::netlink::NETFILTER;

use super::chains::Table;
use super::programs::Tables;
use super::{Firewall, FirewallError, Standing};
use crate::family::Family;

/// Timeout for the kernel's answers, which are immediate.
const PATIENCE: Duration = Duration::from_millis(200);
/// Maximum interval between listings: tables of the same size may have other rules.
const LONGEST: Duration = Duration::from_secs(10);
/// Message type `NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN`, and attribute `NFTA_GEN_ID`.
const GET_GENERATION: u16 = 10 << 8 | 16;
const GENERATION: u16 = 1;

/// Kernel state that changes with the rules.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Trace {
    /// Generation of all nf_tables.
    Generation(Option<Vec<u8>>),
    /// Size of each legacy table.
    Sizes(Vec<Option<ip_tables::Size>>),
}

/// Watches the rules of one network namespace.
#[derive(Debug)]
pub struct Watch {
    routes: Socket,
    netfilter: Socket,
    /// True for each program that sets nf_tables rules.
    kinds: Vec<bool>,
    seen: Option<(Vec<Trace>, Instant)>,
}

impl Watch {
    /// Creates a watch over the rules of this firewall.
    pub fn new(firewall: &Firewall) -> io::Result<Self> {
        let kinds = firewall.tables.iter().map(Tables::is_nft).collect();
        Ok(Self { routes: Socket::open(None)?, netfilter: Socket::open(Some(NETFILTER))?, kinds, seen: None })
    }

    /// Returns whether all rules are in place.
    pub fn look(&mut self, firewall: &Firewall) -> Result<Standing, FirewallError> {
        let fail = |error| FirewallError::Run { program: "netlink".to_owned(), error };
        for routing in firewall.tables.iter().filter_map(|tables| firewall.source.routing(tables.family)) {
            if !routing.is_in_place(&mut self.routes).map_err(fail)? {
                return Ok(Standing::Broken);
            }
        }
        let traces: Vec<_> = firewall
            .tables
            .iter()
            .zip(&self.kinds)
            .map(|(tables, nft)| trace(&mut self.netfilter, tables.family, *nft))
            .collect();
        if let Some((seen, at)) = &self.seen
            && *seen == traces
            && at.elapsed() < LONGEST
        {
            return Ok(Standing::Whole);
        }
        self.seen = None;
        let standing = firewall.look()?;
        if standing == Standing::Whole {
            self.seen = Some((traces, Instant::now()));
        }
        Ok(standing)
    }
}

fn trace(netfilter: &mut Socket, family: Family, nft: bool) -> Trace {
    if !nft {
        let version = match family {
            Family::V4 => ip_tables::Version::V4,
            Family::V6 => ip_tables::Version::V6,
        };
        return Trace::Sizes(Table::ALL.into_iter().map(|table| ip_tables::size(version, table.name())).collect());
    }
    let mut generation = None;
    let answer = netfilter.ask(Request::one(GET_GENERATION, &[0; 4]), PATIENCE, |_, body| {
        let mut all = attributes(body.get(4..).unwrap_or_default());
        generation = all.find(|(kind, _)| *kind == GENERATION).map(|(_, value)| value.to_vec());
    });
    if let Err(error) = answer {
        tracing::debug!(%error, "cannot read the generation of nf_tables");
    }
    Trace::Generation(generation)
}
