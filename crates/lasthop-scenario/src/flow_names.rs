//! Names of flows, which links refer to although they are read first.

use lasthop_proto::packet::FlowId;

use crate::reader::Reader;
use crate::shared_keys::{Copies, CopyKeys, EntryKeys, MOST_FLOWS, RootKeys};
use crate::values::{Text, Whole};
use crate::{Error, Problem};

/// Names of all flows, including copies: `bulk`, or `bulk#1` to `bulk#N`. A flow's position is its [`FlowId`].
#[derive(Clone, Default, Debug)]
pub(crate) struct FlowNames(Vec<(String, u32)>);

impl FlowNames {
    /// Reads only names and counts, since links refer to flows and are read before them.
    pub(crate) fn read(root: &Reader<'_>) -> Result<Self, Error> {
        let mut names = Vec::new();
        let mut total = 0;
        for (name, flow) in root.named(RootKeys::flows)? {
            let count = flow.peek::<Copies>(CopyKeys::count)?.map_or(1, |Whole(count)| count);
            total += count;
            if total > MOST_FLOWS {
                let message = format!("more than {MOST_FLOWS} flows, copies included");
                return Err(flow.fail_here(Problem::Conflict(message)));
            }
            names.push((name, count));
        }
        Ok(Self(names))
    }

    /// Returns the name of copy `copy` (from 0) of the flow `name`, which has `count`.
    pub(crate) fn copy_name(name: &str, copy: u32, count: u32) -> String {
        if count == 1 { name.to_owned() } else { format!("{name}#{}", copy + 1) }
    }

    /// Returns the flow of that name.
    pub(crate) fn find(&self, wanted: &str) -> Option<FlowId> {
        let (base, copy) = match wanted.split_once('#') {
            Some((base, copy)) => (base, Some(copy)),
            None => (wanted, None),
        };
        let mut first = 0;
        for (name, count) in &self.0 {
            if name == base {
                let copy = match copy {
                    None if *count == 1 => 0,
                    None => return None,
                    Some(copy) => copy.parse::<u32>().ok()?.checked_sub(1)?,
                };
                return (copy < *count && wanted == Self::copy_name(name, copy, *count))
                    .then_some(FlowId(first + copy));
            }
            first += count;
        }
        None
    }

    /// Returns the flow in `entry`, if it names one.
    pub(crate) fn read_flow(&self, entry: &Reader<'_>) -> Result<Option<FlowId>, Error> {
        let Some(Text(name)) = entry.peek(EntryKeys::flow)? else { return Ok(None) };
        let names = self.examples();
        let unknown = || entry.unknown_name(EntryKeys::flow, "flow", &name, names.iter().map(String::as_str));
        self.find(&name).map(Some).ok_or_else(unknown)
    }

    /// Returns the name of a flow.
    pub(crate) fn name(&self, flow: FlowId) -> Option<String> {
        let mut copy = flow.0;
        for (name, count) in &self.0 {
            if copy < *count {
                return Some(Self::copy_name(name, copy, *count));
            }
            copy -= count;
        }
        None
    }

    /// Returns the number of flows.
    pub(crate) fn total(&self) -> u32 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Returns one name of each flow, for messages.
    pub(crate) fn examples(&self) -> Vec<String> {
        self.0.iter().map(|(name, count)| Self::copy_name(name, 0, *count)).collect()
    }
}
