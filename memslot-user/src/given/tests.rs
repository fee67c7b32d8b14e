use super::*;
use crate::engine::Range;
use crate::layouts;

fn starts(layout: &Layout) -> Vec<(u64, u64)> {
    layout.ranges.iter().map(|range| (range.start, range.last)).collect()
}

#[test]
fn csv_and_json_in_pages_and_bytes_give_the_same_layout() {
    let expected = [(0x10_0000, 0x1f_ffff), (0, 0x9_ffff)];
    let texts = [
        "id,base_gfn,npages\n1,0x100,256\n0,0,160\n",
        "# slots\n start , size\n0x100000, 0x100000 # the second\n\n0,0xa0000\n",
        "start,last\n1048576,2097151\n0,655359",
        r#"[{"id":1,"base_gfn":256,"npages":256},{"id":0,"base_gfn":0,"npages":160}]"#,
        r#"{"slots":[{"start":"0x100000","size":1048576},
            {"start":0,"last":"0x9ffff","kind":"ram"}]}"#,
    ];
    for text in texts {
        assert_eq!(starts(&layout(text).unwrap()), expected, "{text}");
    }
    let all = layout("start,last\n0,0xffffffffffffffff").unwrap();
    assert_eq!(starts(&all), [(0, u64::MAX)]);
}

#[test]
fn ranges_are_named_as_the_file_names_them() {
    let read = layout("id,start,size\n7,0,4\n,8,4\n2,16,4").unwrap();
    assert_eq!([0, 1, 2].map(|key| read.name(key)), ["slot 7", "number 1", "slot 2"]);
    let mixed = layout("id,start,size,kind\n7,0,4,mmio\n8,8,4,ram").unwrap();
    assert_eq!(mixed.name(0), "slot 8");
    assert_eq!(Layout::from(layouts::parse("2011").unwrap()).name(0), "slot 32764");
}

#[test]
fn what_is_no_layout_is_told_with_its_line() {
    let cases = [
        ("id,base_gfn,npages\n0,0,16\n1,15,1", 3, "overlaps 0x0..=0xffff of line 2"),
        ("id,base_gfn,npages\n0,8,8\n1,0,9", 3, "overlaps 0x8000..=0xffff of line 2"),
        ("base_gfn,npages\n\n0,0", 3, "the size is 0"),
        ("start,size\n0xfffffffffffff000,0x1001", 2, "reach past 2^64"),
        ("base_gfn,npages\n0x10000000000000,1", 2, "reach past 2^64"),
        ("id,start,size\n7,0,1\n7,4,1", 3, "the id 7 is used already on line 2"),
        ("start,size\n0,x", 2, "size is \"x\", which is no whole number"),
        ("start,size\n-1,5", 2, "no whole number"),
        ("start,size\n0x+1,5", 2, "no whole number"),
        ("start,size\n0", 2, "1 values for 2 columns"),
        ("start,length\n0,1", 1, "there is no column \"length\""),
        ("start,last\n5,4", 2, "lies before start"),
        ("start\n5", 2, "needs size or last"),
        ("start,size,last\n5,1,5", 2, "one of them"),
        ("id\n5", 2, "neither base_gfn"),
        ("base_gfn\n5", 2, "needed together"),
        ("start,size,kind\n5,1,rom", 2, "ram or mmio"),
        ("", 1, "there is nothing"),
        ("start,size\n", 1, "no slots"),
        ("[\n{\"start\":0,\"size\":4},\n{\"start\":3,\"size\":4}]", 3, "overlaps 0x0..=0x3 of line 2"),
        ("[\n{\"start\":0,\"size\":4},\n\n{\"start\":9,\"bytes\":4}]", 4, "no field \"bytes\""),
        ("[{\"start\":1.5,\"size\":4}]", 1, "start is \"1.5\""),
        ("[\n{\"start\":0,", 2, "no JSON as expected"),
        ("{\"regions\":[]}", 1, "has no \"slots\""),
        ("{\n\"slots\":5}", 2, "is no array"),
        ("[{\"start\":0,\"size\":4},\n{\"start\":8,\"size\":0}]", 2, "the size is 0"),
        ("[{\"base_gfn\":0,\"npages\":1},\n{\"base_gfn\":8,\"npages\":0}]", 2, "the size is 0"),
        ("[\n{\"start\":\"0xfffffffffffff000\",\"size\":4097}]", 2, "reach past 2^64"),
        ("[\n{\"base_gfn\":4503599627370495,\"npages\":2}]", 2, "reach past 2^64"),
        ("[\n{\"start\":18446744073709551616,\"size\":1}]", 2, "no whole number below 2^64"),
        (
            "[{\"id\":3,\"start\":0,\"size\":4},\n{\"id\":3,\"start\":8,\"size\":4}]",
            2,
            "id 3 is used already on line 1",
        ),
        ("{\"slots\":[{\"start\":0,\"size\":4},\n{\"start\":9,\"last\":8}]}", 2, "lies before start"),
    ];
    for (text, line, reason) in cases {
        let error = layout(text).unwrap_err();
        assert_eq!(error.line, line, "{text}: {error}");
        assert!(error.reason.contains(reason), "{text}: {error}");
    }
}

#[test]
fn addresses_are_read_with_who_asks() {
    let access = |addr, by| Access { addr, by };
    let expected = vec![access(0x1000, 0), access(0x2000, 0)];
    for text in
        ["address\n0x1000\n8192", "gfn\n1\n2", "[4096, \"0x2000\"]", "{\"addresses\":[{\"gfn\":1},8192]}"]
    {
        assert_eq!(addresses(text).unwrap(), expected, "{text}");
    }
    assert_eq!(addresses("time,address,vcpu\n5,0,3\n5,1,2").unwrap(), [access(0, 3), access(1, 2)]);
    assert_eq!(addresses("address,queue\n0xffffffffffffffff,1").unwrap(), [access(u64::MAX, 1)]);
    let cases = [
        ("time,address\n5,0\n\n4,1", 4, "the time 4 is before 5 of line 2"),
        ("gfn\n0x10000000000000", 2, "past 2^64"),
        ("address,gfn\n1,1", 2, "choose one"),
        ("vcpu\n1", 2, "neither address nor gfn"),
        ("address,vcpu\n1,4294967296", 2, "no number of a vCPU"),
        ("address,vcpu,queue\n1,1,1", 2, "choose one"),
        ("address\n18446744073709551616", 2, "no whole number below 2^64"),
        ("address\n", 1, "no addresses"),
    ];
    for (text, line, reason) in cases {
        let error = addresses(text).unwrap_err();
        assert!(error.line == line && error.reason.contains(reason), "{text}: {error}");
    }
}

/// As QEMU 7.2 prints it for a q35 guest of 4 GiB under KVM, shortened.
const MTREE: &str = "\
(qemu) info mtree -f\r
FlatView #0\r
 AS \"I/O\", root: io\r
 Root memory region: io\r
  0000000000000000-0000000000000007 (prio 0, i/o): dma-chan\r
\r
FlatView #1\r
 AS \"memory\", root: system\r
 AS \"cpu-memory-0\", root: system\r
 Root memory region: system\r
  0000000000000000-000000000009ffff (prio 0, ram): pc.ram KVM\r
  00000000000a0000-00000000000affff (prio 1, ram): vga.vram KVM\r
  00000000000b0000-00000000000bffff (prio 1, i/o): vga-lowmem @0000000000010000\r
  00000000000c0000-00000000000dffff (prio 1, rom): pc.rom KVM\r
  00000000000e0000-00000000000fffff (prio 1, rom): pc.bios @0000000000020000 KVM\r
  0000000000100000-000000007fffffff (prio 0, ram): pc.ram @0000000000100000 KVM\r
  00000000fd000000-00000000fdffffff (prio 1, ram): vga.vram KVM\r
  00000000febd5000-00000000febd502f (prio 0, i/o): msix-table\r
  00000000fec00000-00000000fec00fff (prio 0, i/o): ioapic\r
  00000000fffc0000-00000000ffffffff (prio 0, romd): system.flash0\r
  0000000100000000-000000017fffffff (prio 0, ram): pc.ram @0000000080000000 KVM\r
\r
FlatView #2\r
 AS \"e1000e\", root: bus master container\r
 Root memory region: (none)\r
  No rendered FlatView\r
";

#[test]
fn a_pasted_mtree_is_the_layout_that_kvm_has() {
    let layout_read = layout(MTREE).unwrap();
    let expected = [
        (0, 0x9_ffff),
        (0xa_0000, 0xa_ffff),
        (0xc_0000, 0xd_ffff),
        (0xe_0000, 0xf_ffff),
        (0x10_0000, 0x7fff_ffff),
        (0xfd00_0000, 0xfdff_ffff),
        (0x1_0000_0000, 0x1_7fff_ffff),
    ];
    assert_eq!(starts(&layout_read), expected, "the flash is in ROMD mode, and KVM does not hold it");
    assert_eq!(layout_read.mmio.len(), 3);
    // Older versions do not say what KVM holds; then what is backed by memory is taken.
    let old = layout(&MTREE.replace(" KVM", "")).unwrap();
    assert_eq!(old.ranges.len(), 8);
    // Half pages are left out, as KVM does.
    let odd = "FlatView #0\n AS \"memory\", root: system\n  0000000000000800-0000000000002fff (prio 0, ram): a\n  \
               0000000000003000-0000000000003001 (prio 0, ram): b\n";
    assert_eq!(starts(&layout(odd).unwrap()), [(0x1000, 0x2fff)]);
}

#[test]
fn a_broken_mtree_is_told_with_its_line() {
    let error = layout(&MTREE.replace("00000000000c0000-00000000000dffff", "00000000000c0000")).unwrap_err();
    assert!(error.line == 14 && error.reason.contains("is no range of a flat view"), "{error}");
    let error = layout(&MTREE.replace("AS \"memory\"", "AS \"other\"")).unwrap_err();
    assert!(error.reason.contains("address space \"memory\""), "{error}");
    let error = layout(&MTREE.replace("00000000000affff", "00000000000a0fff-")).unwrap_err();
    assert_eq!(error.line, 12);
    // Overlap, out of order, backwards, past 2^64.
    let broken = |from, to| layout(&MTREE.replace(from, to)).unwrap_err().to_string();
    assert!(
        broken("-000000007fffffff", "-00000000fd000000")
            .starts_with("line 17: 0xfd000000 does not come after 0xfd000000 of line 16;")
    );
    assert!(
        broken("0000000100000000-000000017fffffff", "0000000090000000-000000009fffffff")
            .starts_with("line 21: 0x90000000 does not come after 0xffffffff of line 20;")
    );
    assert!(
        broken("0000000100000000-", "0000000180000000-")
            .starts_with("line 21: the range ends at 0x17fffffff, before its start 0x180000000")
    );
    assert!(broken("-000000017fffffff", "-10000000000000000").starts_with("line 21: \"0000000100000000-1"));
}

#[test]
fn patterns_meet_what_they_say_and_repeat() {
    for form in ["qemu-q35", "dimms:64", "2011", "32-slots", "random:500"] {
        let layout = Layout::from(layouts::parse(form).unwrap());
        let within = |ranges: &[Range], addr| ranges.iter().any(|range| range.contains(addr));
        for pattern in [Pattern::Sequential, Pattern::Random, Pattern::Skewed, Pattern::Miss, Pattern::Mmio] {
            if layout.mmio.is_empty() && pattern == Pattern::Mmio {
                assert!(accesses(&layout, pattern, 1, 1, 1).unwrap_err().contains("no MMIO"));
                continue;
            }
            let made = accesses(&layout, pattern, 2000, 3, 7).unwrap();
            assert_eq!(made, accesses(&layout, pattern, 2000, 3, 7).unwrap());
            let hits = made.iter().filter(|access| within(&layout.ranges, access.addr)).count();
            let devices = made.iter().filter(|access| within(&layout.mmio, access.addr)).count();
            let expected = match pattern {
                Pattern::Miss => (0, 0),
                Pattern::Mmio => (0, 2000),
                _ => (2000, 0),
            };
            assert_eq!((hits, devices), expected, "{form} {pattern:?}");
            assert!(made.iter().any(|access| access.by == 2) && made.iter().all(|access| access.by < 3));
        }
    }
    let whole = layout("start,last\n0,0xffffffffffffffff").unwrap();
    assert!(accesses(&whole, Pattern::Miss, 1, 1, 1).unwrap_err().contains("no address free"));
}
