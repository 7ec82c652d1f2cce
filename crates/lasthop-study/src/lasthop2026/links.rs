//! The links: a path from a server over a base station to a client, whose last hop is the link `hop`.

/// A link that people have.
#[derive(Debug)]
pub struct Link {
    /// Name, a part of the names of cells.
    pub name: &'static str,
    /// Display name.
    pub reads: &'static str,
    /// Hosts, links and base station of the scenario.
    pub text: &'static str,
    /// Fate of frames that the radio does not deliver at the first attempt.
    pub losses: Losses,
    /// Management of the queue in front of the hop.
    pub queue: Queue,
}

/// Fate of frames that the radio does not deliver at the first attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Losses {
    /// The radio retransmits until they arrive: losses become delay, except during handovers.
    Repaired,
    /// Nearly none are lost, but the link pauses.
    Few,
    /// A share is lost for good, evenly.
    Even,
    /// A share is lost for good, during fades.
    Fades,
}

/// Management of the queue in front of the hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// FQ-CoDel, which the radio's driver or the router has anyway.
    Managed,
    /// Drop-tail.
    Unmanaged,
}

macro_rules! text {
    ($file:literal) => {
        include_str!(concat!("../../data/lasthop2026/", $file, ".toml"))
    };
}

/// All links, in the order of tables.
pub static LINKS: [Link; 8] = [
    Link { name: "wifi", reads: "home Wi-Fi", text: text!("wifi"), losses: Losses::Repaired, queue: Queue::Managed },
    Link {
        name: "busy-wifi",
        reads: "lossy Wi-Fi",
        text: text!("busy-wifi"),
        losses: Losses::Even,
        queue: Queue::Managed,
    },
    Link { name: "mesh", reads: "mesh", text: text!("mesh"), losses: Losses::Even, queue: Queue::Managed },
    Link {
        name: "lte",
        reads: "LTE on a train",
        text: text!("lte"),
        losses: Losses::Repaired,
        queue: Queue::Unmanaged,
    },
    Link { name: "5g", reads: "5G at home", text: text!("5g"), losses: Losses::Repaired, queue: Queue::Unmanaged },
    Link { name: "starlink", reads: "Starlink", text: text!("starlink"), losses: Losses::Few, queue: Queue::Unmanaged },
    Link {
        name: "geo",
        reads: "geostationary satellite",
        text: text!("geo"),
        losses: Losses::Fades,
        queue: Queue::Unmanaged,
    },
    Link { name: "farm", reads: "farm radio", text: text!("farm"), losses: Losses::Even, queue: Queue::Unmanaged },
];

impl Link {
    /// Returns whether the hop loses frames for good, beside those of failed handovers.
    pub const fn loses(&self) -> bool {
        matches!(self.losses, Losses::Even | Losses::Fades)
    }
}

/// Returns the links that satisfy `wanted`, in their order.
pub fn links(wanted: impl Fn(&Link) -> bool) -> impl Iterator<Item = &'static Link> {
    LINKS.iter().filter(move |link| wanted(link))
}
