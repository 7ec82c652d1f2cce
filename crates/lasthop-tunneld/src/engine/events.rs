//! Events of the session: their log messages, and their effects on the links.

use std::net::SocketAddr;

use lasthop_proto::time::Instant;
use lasthop_tunnel::{Event, PeerId, Refusal, Start};

use super::{Engine, Inner, link_of};
use crate::link;

impl Engine {
    /// Handles the session's events.
    pub(super) fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.tunnel.poll_event() {
            let peer = match event {
                Event::Up { peer, .. }
                | Event::Down { peer }
                | Event::Unreachable { peer }
                | Event::Path { peer, .. }
                | Event::Size { peer, .. }
                | Event::Terms { peer, .. }
                | Event::ClockBehind { peer }
                | Event::Version { peer, .. } => peer,
                Event::Refused { address, cause, others } => {
                    self.log_refused(address, cause, others);
                    continue;
                }
            };
            let Some(link) = link_of(&mut self.links, peer) else { continue };
            let name = link.plan.name.as_str();
            match event {
                Event::Up { start, .. } => tracing::info!(peer = name, ?start, "session established"),
                Event::Down { .. } => tracing::info!(peer = name, "session ended"),
                Event::Unreachable { .. } => tracing::warn!(peer = name, "peer does not answer"),
                Event::Path { path, address, .. } => {
                    let (path, address) = (link.path_name(path), link::shown(address));
                    tracing::info!(peer = name, path, address, "peer address updated")
                }
                Event::Size { path, size, .. } => {
                    let path = link.path_name(path);
                    tracing::info!(peer = name, path, size, "path MTU updated (bytes per datagram)")
                }
                Event::ClockBehind { .. } => tracing::warn!(
                    peer = name,
                    "this machine's clock was set back; continuing from the time that the peer knows"
                ),
                Event::Version { version, .. } => {
                    tracing::error!(peer = name, version, "the peer uses another protocol version")
                }
                Event::Terms { .. } | Event::Refused { .. } => {}
            }
            if matches!(self.inner, Inner::Bridged(_))
                && matches!(event, Event::Up { start: Start::Fresh, .. } | Event::Down { .. })
            {
                self.fall_silent(now, peer);
            }
            let local = if let Event::Path { address, .. } = event { self.destination(address) } else { None };
            let Some(link) = link_of(&mut self.links, peer) else { continue };
            match event {
                Event::Up { capabilities, paths, start, .. } => {
                    link.on_up(now, capabilities, paths, start);
                    if start == Start::Fresh {
                        for (path, terms) in link.announced() {
                            self.tunnel.announce(now, peer, path, terms);
                        }
                    }
                }
                Event::Terms { path, terms, .. } => {
                    if link.on_peer_terms(now, path, terms) {
                        let (name, path) = (link.plan.name.as_str(), link.path_name(path));
                        tracing::info!(peer = name, path, tier = ?terms.tier, "the peer changed the tier of a path");
                    }
                }
                Event::Down { .. } => {
                    link.on_down(now);
                    self.take_items(now, peer);
                }
                Event::Path { path, address, size, .. } => link.on_path(now, path, (address, local), size),
                Event::Size { path, size, .. } => link.on_size(path, size),
                Event::Unreachable { .. }
                | Event::ClockBehind { .. }
                | Event::Version { .. }
                | Event::Refused { .. } => {}
            }
        }
    }

    /// Logs a failed handshake with its cause, and the number of those that were not logged.
    fn log_refused(&mut self, address: SocketAddr, cause: Refusal, others: u64) {
        let address = link::shown(address);
        match cause {
            Refusal::Stranger(key) => {
                tracing::warn!(%address, public_key = %key, others, "handshake refused: no [[peer]] has this public key")
            }
            Refusal::OtherEnd => tracing::warn!(
                %address, others, "handshake refused: the initiator expects another public key than this end's"
            ),
            Refusal::Load => tracing::warn!(%address, others, "handshake refused: too many at once"),
            Refusal::Unreadable(PeerId(id)) => {
                let link = self.links.get(id as usize).and_then(Option::as_ref);
                let peer = link.map_or("", |link| link.plan.name.as_str());
                tracing::warn!(
                    peer, %address, others,
                    "handshake failed: the response cannot be decrypted; give both ends the same preshared key"
                );
            }
        }
    }
}
