//! Huge pages for the large blocks of a simulation.
//!
//! With pages of 4 KiB, the state of 100,000 connections has more pages than the processor caches translations of: each
//! access to another connection then costs several more accesses to memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// Size from which a block gets huge pages: two of 2 MiB, so that a block contains at least a whole one.
const LARGE: usize = 4 << 20;

static USES_HUGE_PAGES: AtomicBool = AtomicBool::new(false);

/// Requests huge pages for blocks of at least 4 MiB that are allocated from now on, if the program's allocator is
/// [`HugePages`] and the kernel grants them (`transparent_hugepage/enabled` is `madvise` or `always`).
///
/// Not for programs that handle packets in time: the kernel may have to move other pages before it can provide one.
pub fn use_huge_pages() {
    USES_HUGE_PAGES.store(true, Ordering::Relaxed);
}

/// The system's allocator, with huge pages for large blocks once [`use_huge_pages`] was called.
#[derive(Clone, Copy, Debug)]
pub struct HugePages;

/// Requests huge pages for the block of `size` bytes at `block`, which is null if its allocation failed.
fn advise(block: *mut u8, size: usize) {
    if size < LARGE || block.is_null() || !USES_HUGE_PAGES.load(Ordering::Relaxed) {
        return;
    }
    // The kernel takes whole pages. The first and the last one may also hold parts of other blocks.
    let page = rustix::param::page_size();
    let before = block.align_offset(page);
    let within = size.saturating_sub(before) / page * page;
    // SAFETY: the range is within the block, and the advice changes neither its contents nor its permissions. A kernel
    // without huge pages refuses, which changes nothing.
    unsafe {
        libc::madvise(block.wrapping_add(before).cast(), within, libc::MADV_HUGEPAGE);
    }
}

// SAFETY: all blocks are those of the system's allocator, with unchanged arguments.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller fulfils the requirements, which are the same.
        let block = unsafe { System.alloc(layout) };
        advise(block, layout.size());
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.alloc_zeroed(layout) };
        advise(block, layout.size());
        block
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.realloc(block, layout, size) };
        advise(block, size);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether huge pages are requested for the memory at `address`: the flag `hg` of its mapping.
    fn is_advised(address: usize) -> bool {
        let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_here = false;
        for line in mappings.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bounds = range.map(|(start, end)| [start, end].map(|at| usize::from_str_radix(at, 16)));
            if let Some([Ok(start), Ok(end)]) = bounds {
                is_here = (start..end).contains(&address);
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_here) {
                return flags.split_whitespace().any(|flag| flag == "hg");
            }
        }
        false
    }

    #[test]
    fn large_blocks_keep_their_contents_and_request_huge_pages() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return eprintln!("SKIPPED: this kernel has no huge pages");
        }
        use_huge_pages();
        let layout = Layout::from_size_align(16 << 20, 16).unwrap();
        // SAFETY: the layout is not empty; the block is written before it is read, within its size, and freed once.
        unsafe {
            let block = HugePages.alloc(layout);
            assert!(!block.is_null());
            block.write_bytes(0xa5, layout.size());
            assert!(is_advised(block.addr() + layout.size() / 2));
            let larger = HugePages.realloc(block, layout, 2 * layout.size());
            assert!(!larger.is_null());
            for at in [0, layout.size() / 2, layout.size() - 1] {
                assert_eq!(*larger.add(at), 0xa5, "{at}");
            }
            assert!(is_advised(larger.addr() + 2 * layout.size() - 65_536));
            HugePages.dealloc(larger, Layout::from_size_align(2 * layout.size(), 16).unwrap());
        }
        // SAFETY: as above.
        unsafe {
            let block = HugePages.alloc_zeroed(layout);
            assert!(!block.is_null());
            assert_eq!((*block, *block.add(layout.size() - 1)), (0, 0));
            assert!(is_advised(block.addr() + layout.size() / 2));
            HugePages.dealloc(block, layout);
        }
    }

    #[test]
    fn small_blocks_and_failures_are_passed_on() {
        advise(std::ptr::null_mut(), LARGE);
        let small = Layout::from_size_align(64, 64).unwrap();
        // SAFETY: as above.
        unsafe {
            let block = HugePages.alloc(small);
            assert!(!block.is_null() && block.align_offset(64) == 0);
            HugePages.dealloc(block, small);
        }
    }
}
