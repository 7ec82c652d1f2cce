//! Packets under way are kept in one place and go from link to link by number: moving them would cost more than all else.

use lasthop_proto::packet::Packet;

use crate::link::Frame;
pub use crate::link::Handle;

/// The packets that are under way, and a place for the next one.
pub struct PacketPool {
    packets: Vec<Packet>,
    free: Vec<Handle>,
    next: Handle,
}

impl Default for PacketPool {
    fn default() -> Self {
        Self { packets: vec![Packet::default()], free: Vec::new(), next: Handle(0) }
    }
}

impl PacketPool {
    /// Where the next packet is to be put.
    #[inline(always)]
    pub fn place(&mut self) -> &mut Packet {
        &mut self.packets[self.next.0 as usize]
    }

    /// The packet in the next place is under way to the endpoint of index `to`.
    #[inline(always)]
    pub fn commit(&mut self, to: usize) -> Frame {
        let handle = self.advance();
        Frame::new(handle, &self.packets[handle.0 as usize], to)
    }

    /// The same for a packet that an end of its flow sends.
    #[inline(always)]
    pub fn commit_from_end(&mut self, to: usize) -> Frame {
        let handle = self.advance();
        Frame::from_end(handle, &self.packets[handle.0 as usize], to)
    }

    /// Turns to another place; returns the one before.
    #[inline(always)]
    fn advance(&mut self) -> Handle {
        let next = self.free.pop().unwrap_or_else(|| self.grow());
        std::mem::replace(&mut self.next, next)
    }

    #[cold]
    fn grow(&mut self) -> Handle {
        self.packets.push(Packet::default());
        Handle(self.packets.len() as u32 - 1)
    }

    /// Returns how many packets it has ever held at once.
    #[inline]
    pub fn places(&self) -> usize {
        self.packets.len()
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
