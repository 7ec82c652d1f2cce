//! Numbers of marked segments from a receiver whose echo tells the mark of the newest packet
//! ([`EcnEcho::PerPacket`](crate::tcp::config::EcnEcho::PerPacket)).

/// State of the echoes. The receiver acknowledges each change at once, so that only the newest segment of an
/// acknowledgment differs from the ones before it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Echoes {
    /// Last echo.
    last: bool,
}

impl Echoes {
    /// Returns the number of marked segments among those that an acknowledgment newly delivers.
    pub fn count(&mut self, delivered: u32, echo: bool) -> u32 {
        let before = core::mem::replace(&mut self.last, echo);
        let (newest, older) = (u32::from(delivered > 0), delivered.saturating_sub(1));
        u32::from(echo) * newest + u32::from(before) * older
    }
}
