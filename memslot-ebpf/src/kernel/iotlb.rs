//! `vhost_iotlb_itree_first` as the kernel makes it (`INTERVAL_TREE_DEFINE`), for each segment of a
//! `translate_desc` call, on the live tree.

use super::{Length, RbNode, Walk, read, setting};

/// Over all segments of a call; a tree of 65,536 regions is at most 32 deep.
const MAX_STEPS: u32 = 256;

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

/// Follows `translate_desc(…)` over the tree at `iotlb`: lengths summed over the call's searches.
#[inline(always)]
pub fn search(iotlb: u64, request: &Request) -> (Length, Walk) {
    let failed = (Length::UNKNOWN, Walk::Failed);
    let Ok([root, leftmost]) = read::<[u64; 2]>(iotlb + u64::from(setting!(iotlb_root))) else { return failed };
    let len = u64::from(request.len);
    // `last` stays that of the whole call, as in the kernel.
    let last = request.addr.wrapping_add(len).wrapping_sub(1);
    let mut addr = request.addr;
    let mut covered = 0u64;
    let mut segments = 0u32;
    let (mut visited, mut touched) = (0u16, 0u16);
    let Ok(root_node) = (if root == 0 { Ok(EMPTY) } else { read::<RegionNode>(root) }) else { return failed };
    let Ok(leftmost_start) =
        (if leftmost == 0 { Ok(0) } else { read::<u64>(leftmost + core::mem::offset_of!(RegionNode, start) as u64) })
    else {
        return failed;
    };
    let mut node = root_node;
    let mut at_root = true;
    let mut step = 0;
    while step < MAX_STEPS {
        step += 1;
        if at_root {
            // The loop's head in translate_desc, then vhost_iotlb_itree_iter_first.
            if covered >= len || segments >= request.iov_size || root == 0 {
                return (Length { visited, touched }, Walk::Done);
            }
            // The leftmost node is counted here, and nowhere else.
            touched += u16::from(root != leftmost);
            if root_node.subtree_last < addr {
                return (Length { visited, touched }, Walk::Done);
            }
            touched += 1;
            if leftmost_start > last {
                return (Length { visited, touched }, Walk::Done);
            }
            node = root_node;
            visited += 1;
            at_root = false;
        }
        // vhost_iotlb_itree_subtree_search
        let left = node.rb.left;
        if left != 0 {
            let Ok(child) = read::<RegionNode>(left) else { return failed };
            touched += u16::from(left != leftmost);
            if addr <= child.subtree_last {
                node = child;
                visited += 1;
                continue;
            }
        }
        if node.start > last {
            return (Length { visited, touched }, Walk::Done);
        }
        if addr <= node.last {
            if node.start > addr || node.perm & request.access == 0 {
                return (Length { visited, touched }, Walk::Done);
            }
            let size = node.size.wrapping_sub(addr).wrapping_add(node.start);
            covered = covered.wrapping_add(size);
            addr = addr.wrapping_add(size);
            segments += 1;
            at_root = true;
            continue;
        }
        let right = node.rb.right;
        if right == 0 {
            return (Length { visited, touched }, Walk::Done);
        }
        let Ok(child) = read::<RegionNode>(right) else { return failed };
        touched += u16::from(right != leftmost);
        if addr > child.subtree_last {
            return (Length { visited, touched }, Walk::Done);
        }
        node = child;
        visited += 1;
    }
    (Length::UNKNOWN, Walk::Truncated)
}

const EMPTY: RegionNode = RegionNode {
    rb: RbNode { parent_color: 0, right: 0, left: 0 },
    link: [0; 2],
    start: 0,
    last: 0,
    size: 0,
    addr: 0,
    perm: 0,
    flags_padding: 0,
    subtree_last: 0,
};
