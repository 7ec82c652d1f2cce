//! Pool of packets in flight. Packets stay in place and pass from link to link by number, because moving them would
//! cost more than all other work.

use lasthop_proto::packet::Packet;

use crate::link::Frame;
pub use crate::link::Handle;

/// Packets in flight, and a place for the next one.
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
    /// Returns the place for the next packet.
    #[inline(always)]
    pub fn place(&mut self) -> &mut Packet {
        &mut self.packets[self.next.0 as usize]
    }

    /// Sends the packet in the next place to the endpoint of index `to`. Returns its frame.
    #[inline(always)]
    pub fn commit(&mut self, to: usize) -> Frame {
        let handle = self.advance();
        Frame::new(handle, &self.packets[handle.0 as usize], to)
    }

    /// Sends the packet in the next place, which comes from an end of its flow.
    #[inline(always)]
    pub fn commit_from_end(&mut self, to: usize) -> Frame {
        let handle = self.advance();
        Frame::from_end(handle, &self.packets[handle.0 as usize], to)
    }

    /// Selects another place. Returns the previous one.
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

    /// Returns the maximum number of packets held at once so far.
    #[inline]
    pub fn places(&self) -> usize {
        self.packets.len()
    }

    /// Returns the packet `handle`.
    #[inline]
    pub fn get(&self, handle: Handle) -> &Packet {
        &self.packets[handle.0 as usize]
    }

    /// Returns the packet `handle` for modification.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> &mut Packet {
        &mut self.packets[handle.0 as usize]
    }

    /// Removes and returns the packet. Its number may be reused.
    #[inline(always)]
    pub fn take(&mut self, handle: Handle) -> Packet {
        self.free.push(handle);
        self.packets[handle.0 as usize]
    }

    /// Removes the packet.
    #[inline]
    pub fn discard(&mut self, handle: Handle) {
        self.free.push(handle);
    }
}
