//! Packets under way are kept in one place and go from link to link by number: moving them would cost more than all else.

use lasthop_proto::packet::{Body, Cause, FlowId, Integrity, Packet, Priority, Side};

/// Number of a packet in its [`PacketPool`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle(pub u32);

/// What a place holds before its first packet.
const BLANK: Packet = Packet {
    flow: FlowId(0),
    from: Side::Initiator,
    priority: Priority::Normal,
    integrity: Integrity::Intact,
    cause: Cause::Datagram,
    header_len: 0,
    len: 0,
    body: Body::Datagram { number: 0 },
    payload: (),
};

/// The packets that are under way.
#[derive(Default)]
pub struct PacketPool {
    packets: Vec<Packet>,
    free: Vec<Handle>,
}

impl PacketPool {
    /// A number for the next packet.
    #[inline(always)]
    pub fn reserve(&mut self) -> Handle {
        self.free.pop().unwrap_or_else(|| self.grow())
    }

    #[cold]
    fn grow(&mut self) -> Handle {
        self.packets.push(BLANK);
        Handle(self.packets.len() as u32 - 1)
    }

    /// Keeps a packet under the number reserved for it.
    #[inline(always)]
    pub fn put(&mut self, handle: Handle, packet: Packet) {
        self.packets[handle.0 as usize] = packet;
    }

    /// The packet of that number.
    #[inline]
    pub fn get(&self, handle: Handle) -> &Packet {
        &self.packets[handle.0 as usize]
    }

    /// The packet of that number, to change.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> &mut Packet {
        &mut self.packets[handle.0 as usize]
    }

    /// Gives the packet out; its number may be used again.
    #[inline(always)]
    pub fn take(&mut self, handle: Handle) -> Packet {
        self.free.push(handle);
        self.packets[handle.0 as usize]
    }

    /// Forgets the packet.
    #[inline]
    pub fn discard(&mut self, handle: Handle) {
        self.free.push(handle);
    }
}
