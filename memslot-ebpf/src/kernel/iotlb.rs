//! `vhost_iotlb_itree_first` as the kernel makes it (`INTERVAL_TREE_DEFINE`), for each segment of a
//! `translate_desc` call, on the live tree.

use super::{Length, Opaque, RbNode, Unreadable, Walk, read, setting};
use core::mem::offset_of;

/// Over all segments of a call; a tree of 65,536 regions is at most 34 deep.
const MAX_STEPS: u32 = 160;

/// `struct vhost_iotlb_map` up to what a search reads (the user side checks the places).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RegionNode {
    pub rb: RbNode,
    pub link: [u64; 2],
    pub start: u64,
    pub last: u64,
    pub size: u64,
    pub addr: u64,
    pub perm: u32,
    pub flags_padding: u32,
    pub subtree_last: u64,
}

/// What `translate_desc` asks.
pub struct Request {
    pub addr: u64,
    pub len: u32,
    pub iov_size: u32,
    pub access: u32,
}

/// Where the searches of a call stand.
#[repr(C)]
pub struct RegionWalk {
    /// Address that the search at hand is for.
    addr: Opaque<u64>,
    /// Bytes that the segments so far cover.
    covered: Opaque<u64>,
    /// Segments so far.
    segments: Opaque<u32>,
    visited: Opaque<u16>,
    touched: Opaque<u16>,
}

impl RegionWalk {
    #[inline(always)]
    fn begin(&mut self, addr: u64) {
        self.addr.set(addr);
        self.covered.set(0);
        self.segments.set(0);
        self.visited.set(0);
        self.touched.set(0);
    }

    #[inline(always)]
    fn visit(&mut self) {
        self.visited.set(self.visited.get().wrapping_add(1));
    }

    #[inline(always)]
    fn touch(&mut self, count: u16) {
        self.touched.set(self.touched.get().wrapping_add(count));
    }

    #[inline(always)]
    fn length(&self) -> Length {
        Length { visited: self.visited.get(), touched: self.touched.get() }
    }
}

/// Follows `translate_desc(…)` over the tree at `iotlb`: lengths summed over the call's searches.
#[inline(always)]
pub fn search(iotlb: u64, request: &Request, walk: &mut RegionWalk) -> Result<(Length, Walk), Unreadable> {
    let [root, leftmost] = read::<[u64; 2]>(iotlb + u64::from(setting!(iotlb_root)))?;
    let len = u64::from(request.len);
    // `last` stays that of the whole call, as in the kernel.
    let last = request.addr.wrapping_add(len).wrapping_sub(1);
    walk.begin(request.addr);
    if root == 0 || len == 0 {
        return Ok((walk.length(), Walk::Done));
    }
    let leftmost_start = read::<u64>(leftmost + offset_of!(RegionNode, start) as u64)?;
    // 0: at the head of translate_desc's loop.
    let mut address = 0;
    let mut step = 0;
    while step < MAX_STEPS {
        step += 1;
        if address == 0 {
            if walk.covered.get() >= len || walk.segments.get() >= request.iov_size {
                return Ok((walk.length(), Walk::Done));
            }
            // vhost_iotlb_itree_iter_first; the leftmost node is counted here, and nowhere else.
            walk.touch(u16::from(root != leftmost));
            if read::<u64>(root + offset_of!(RegionNode, subtree_last) as u64)? < walk.addr.get() {
                walk.touch(u16::from(root == leftmost));
                return Ok((walk.length(), Walk::Done));
            }
            walk.touch(1);
            if leftmost_start > last {
                return Ok((walk.length(), Walk::Done));
            }
            walk.visit();
            address = root;
        }
        // vhost_iotlb_itree_subtree_search
        let addr = walk.addr.get();
        let node = read::<RegionNode>(address)?;
        let left = node.rb.left;
        if left != 0 {
            walk.touch(u16::from(left != leftmost));
            if addr <= read::<u64>(left + offset_of!(RegionNode, subtree_last) as u64)? {
                walk.visit();
                address = left;
                continue;
            }
        }
        if node.start > last {
            return Ok((walk.length(), Walk::Done));
        }
        if addr <= node.last {
            if node.start > addr || node.perm & request.access == 0 {
                return Ok((walk.length(), Walk::Done));
            }
            let size = node.size.wrapping_sub(addr).wrapping_add(node.start);
            walk.covered.set(walk.covered.get().wrapping_add(size));
            walk.addr.set(addr.wrapping_add(size));
            walk.segments.set(walk.segments.get().wrapping_add(1));
            address = 0;
            continue;
        }
        let right = node.rb.right;
        if right == 0 {
            return Ok((walk.length(), Walk::Done));
        }
        walk.touch(u16::from(right != leftmost));
        if addr > read::<u64>(right + offset_of!(RegionNode, subtree_last) as u64)? {
            return Ok((walk.length(), Walk::Done));
        }
        walk.visit();
        address = right;
    }
    Ok((Length::UNKNOWN, Walk::Truncated))
}
