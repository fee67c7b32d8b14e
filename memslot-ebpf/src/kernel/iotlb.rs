//! `vhost_iotlb_itree_first` as the kernel makes it (`INTERVAL_TREE_DEFINE`), for each segment of a
//! `translate_desc` call, on the live tree.

use super::{Access, Length, Opaque, RbNode, Unreadable, Walk, read, seen, setting, word};
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

/// What a search asks of every node: the members from `rb.rb_right` to `last`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Ends {
    right: u64,
    left: u64,
    link: [u64; 2],
    start: u64,
    last: u64,
}

/// What it asks of the node that it finds.
#[repr(C)]
#[derive(Clone, Copy)]
struct Found {
    size: u64,
    addr: u64,
    perm: u32,
    flags_padding: u32,
}

impl Ends {
    #[inline(always)]
    fn read<A: Access>(node: u64) -> Result<Self, Unreadable> {
        if A::sees() {
            let [right, left] = seen(node + ENDS);
            let [start, last] = seen(node + START);
            return Ok(Self { right, left, link: [0; 2], start, last });
        }
        read(node + ENDS)
    }
}

impl Found {
    #[inline(always)]
    fn read<A: Access>(node: u64) -> Result<Self, Unreadable> {
        if A::sees() {
            let [size] = seen(node + FOUND);
            let [perm] = seen(node + PERM);
            return Ok(Self { size, addr: 0, perm: perm as u32, flags_padding: 0 });
        }
        read(node + FOUND)
    }
}

const START: u64 = offset_of!(RegionNode, start) as u64;
const PERM: u64 = offset_of!(RegionNode, perm) as u64;
const ENDS: u64 = offset_of!(RbNode, right) as u64;
const FOUND: u64 = offset_of!(RegionNode, size) as u64;
const SUBTREE_LAST: u64 = offset_of!(RegionNode, subtree_last) as u64;

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
    /// Nodes visited, times [`VISITED`], and touched, in one word: a node is counted by one addition.
    nodes: Opaque<u32>,
}

/// What a node that is visited adds.
const VISITED: u32 = 1 << 16;

impl RegionWalk {
    #[inline(always)]
    fn begin(&mut self, addr: u64) {
        self.addr.set(addr);
        self.covered.set(0);
        self.segments.set(0);
        self.nodes.set(0);
    }

    #[inline(always)]
    fn count(&mut self, nodes: u32) {
        self.nodes.set(self.nodes.get().wrapping_add(nodes));
    }

    #[inline(always)]
    fn length(&self) -> Length {
        let nodes = self.nodes.get();
        Length { visited: (nodes / VISITED) as u16, touched: nodes as u16 }
    }
}

/// A `struct vhost_iotlb`.
#[derive(Clone, Copy)]
pub struct Table {
    root: u64,
    leftmost: u64,
    pub regions: u32,
}

impl Table {
    /// Where `nmaps` lies behind `root` since 5.10, and all is read in one go.
    const NMAPS: u32 = 36;

    #[inline(always)]
    pub fn at<A: Access>(iotlb: u64, cell: &mut Opaque<u64>) -> Result<Self, Unreadable> {
        if A::IS_CHEAP {
            let (root, leftmost) = A::two(iotlb, setting!(iotlb_root), setting!(iotlb_root) + 8)?;
            let (root, leftmost) = (cell.forget(root), cell.forget(leftmost));
            return Ok(Self { root, leftmost, regions: A::member(iotlb, setting!(iotlb_nmaps))? });
        }
        let root = iotlb + u64::from(setting!(iotlb_root));
        if setting!(iotlb_nmaps) == setting!(iotlb_root) + Self::NMAPS {
            let words = read::<[u64; 5]>(root)?;
            return Ok(Self { root: words[0], leftmost: words[1], regions: (words[4] >> 32) as u32 });
        }
        let [root, leftmost] = read::<[u64; 2]>(root)?;
        Ok(Self { root, leftmost, regions: read(iotlb + u64::from(setting!(iotlb_nmaps)))? })
    }
}

/// Follows `translate_desc(…)` over a table's tree: lengths summed over the call's searches.
#[inline(always)]
pub fn search<A: Access>(
    table: &Table,
    request: &Request,
    walk: &mut RegionWalk,
) -> Result<(Length, Walk), Unreadable> {
    let Table { root, leftmost, .. } = *table;
    let len = u64::from(request.len);
    // `last` stays that of the whole call, as in the kernel.
    let last = request.addr.wrapping_add(len).wrapping_sub(1);
    walk.begin(request.addr);
    if root == 0 || len == 0 {
        return Ok((walk.length(), Walk::Done));
    }
    let leftmost_start = word::<A>(leftmost + START)?;
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
            if word::<A>(root + SUBTREE_LAST)? < walk.addr.get() {
                walk.count(1);
                return Ok((walk.length(), Walk::Done));
            }
            let touched = 1 + u32::from(root != leftmost);
            if leftmost_start > last {
                walk.count(touched);
                return Ok((walk.length(), Walk::Done));
            }
            walk.count(VISITED + touched);
            address = root;
        }
        // vhost_iotlb_itree_subtree_search
        let addr = walk.addr.get();
        let node = Ends::read::<A>(address)?;
        let left = node.left;
        let mut touched = 0;
        if left != 0 {
            touched = u32::from(left != leftmost);
            if addr <= word::<A>(left + SUBTREE_LAST)? {
                walk.count(VISITED + touched);
                address = left;
                continue;
            }
        }
        let right = node.right;
        if node.start <= last && addr > node.last && right != 0 {
            // The kernel looks whether the right subtree ends before the address. It cannot: this node's subtree
            // does not, and neither its left part nor the node itself reaches so far.
            walk.count(VISITED + touched + u32::from(right != leftmost));
            address = right;
            continue;
        }
        walk.count(touched);
        if node.start > last || node.start > addr || addr > node.last {
            return Ok((walk.length(), Walk::Done));
        }
        let found = Found::read::<A>(address)?;
        if found.perm & request.access == 0 {
            return Ok((walk.length(), Walk::Done));
        }
        let size = found.size.wrapping_sub(addr).wrapping_add(node.start);
        walk.covered.set(walk.covered.get().wrapping_add(size));
        walk.addr.set(addr.wrapping_add(size));
        walk.segments.set(walk.segments.get().wrapping_add(1));
        address = 0;
    }
    Ok((Length::UNKNOWN, Walk::Truncated))
}
