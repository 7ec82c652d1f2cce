//! The mechanisms, linked without `std`. See `Cargo.toml` for why this is a proof.
#![no_std]

#[cfg(feature = "control")]
extern crate std;

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;

use lasthop_proto::scheme::SCHEMES;

/// Allocator required by `alloc`, which always fails; that does not matter, since nothing here runs.
struct Nothing;

// SAFETY: it returns no memory.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Nothing = Nothing;

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    loop {}
}

/// Uses the mechanisms, so that they are linked.
#[unsafe(no_mangle)]
pub extern "C" fn lasthop_schemes() -> usize {
    SCHEMES.len()
}
