// SPDX-License-Identifier: GPL-2.0
/*
 * Replaces kvm_vcpu_gfn_to_memslot and gfn_to_memslot in kvm: the look-ups of page faults and of the instruction
 * emulator, and those that know no vCPU. Callers of __gfn_to_memslot (the shadow MMU, dirty logging by write
 * protection, kvm_gfn_to_hva_cache_init, pfncache) have the search inlined and keep it.
 *
 * A set of slots never changes while it is in use, and its generation is another after each change, so an index is
 * known by the set's address and its generation. `linear` goes by slot id: KVM does not keep the order of
 * registration, and user space numbers its slots in that order.
 */
#define CACHED true
#define OWN_TREE "rbtree"
#include <linux/kvm_host.h>
#include "build.h"

/* Its nodes are counted by the probes. */
TWICE(find_tree, UNCOUNTED(((void)steps, search_memslots((struct kvm_memslots *)index->owner, start, false))))

static const struct engine engines[] = {
	{ .name = "stock" },
	ENGINE("rbtree", NULL, find_tree),
	ENGINE("linear", build_linear, find_scan),
	ENGINE("linear_by_size", build_by_size, find_scan),
	ENGINE("sorted_array", NULL, find_halve),
	ENGINE("sorted_array_kernel", build_descending, find_halve_kernel),
	ENGINE("wbtree", build_wbtree, find_descend),
	ENGINE("eytzinger", build_heap, find_heap),
};

static unsigned int take_own(u64 gfn);
static int watch_own(bool on);

#include "index.h"
#include "calibrate.h"

/* kvm->srcu or kvm->slots_lock, held by the caller, keeps the set as it is. */
static noinline struct index *build_index(struct kvm *kvm, struct kvm_memslots *slots, u64 generation, u64 built_for)
{
	struct kvm_memory_slot *slot;
	struct index *index;
	u32 count = 0;
	int bucket;

	/* 6.1's MMU notifier looks up a VM that goes; nobody would forget what is built now. */
	if (!refcount_read(&kvm->users_count))
		return NULL;
	kvm_for_each_memslot(slot, bucket, slots)
		count++;
	index = new_index(count);
	if (!index)
		return NULL;
	count = 0;
	kvm_for_each_memslot(slot, bucket, slots) {
		/* Negative ids do not occur; the private slots have the highest. */
		if (count < index->count)
			index->ranges[count] = (struct span) {
				slot->base_gfn, slot->base_gfn + slot->npages - 1, slot, slot->id,
			};
		count++;
	}
	if (count != index->count) {
		kfree(index);
		return NULL;
	}
	return publish(index, slots, generation, built_for, &kvm->users_count);
}

/*
 * With `timing`, a fault's own look-up is told from those of the instruction emulator: it is the first of the fault's
 * frame by the task that entered kvm_mmu_page_fault. An entry with the reserved bit set is of cached MMIO, for which KVM
 * makes no look-up of its own.
 */
struct fault {
	/* Its address, to be compared only. */
	unsigned long task;
	u64 gfn;
};

static DEFINE_PER_CPU(struct fault, fault);

static unsigned int take_own(u64 gfn)
{
	if (this_cpu_read(fault.task) != (unsigned long)current || this_cpu_read(fault.gfn) != gfn)
		return false;
	this_cpu_write(fault.task, 0);
	return true;
}

static void notrace faults(unsigned long ip, unsigned long parent, struct ftrace_ops *ops, struct ftrace_regs *registers)
{
	struct pt_regs *entry = ftrace_get_regs(registers);

	this_cpu_write(fault.gfn, entry->si >> PAGE_SHIFT);
	this_cpu_write(fault.task, entry->dx & PFERR_RSVD_MASK ? 0 : (unsigned long)current);
}

static struct ftrace_ops watch = {
	.func = faults,
	.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_PERMANENT,
};
static DEFINE_MUTEX(watch_lock);
static bool watched, watch_chosen, watch_over;

/* Again and again: the choice of the function stays, see unhook(). */
static int watch_own(bool on)
{
	static const char *const function = "kvm_mmu_page_fault";
	int error = 0;

	mutex_lock(&watch_lock);
	if (on && !watched && !watch_over) {
		if (!watch_chosen)
			error = choose(&watch, &function, 1);
		watch_chosen = !error;
		if (!error)
			error = register_ftrace_function(&watch);
		watched = !error;
	} else if (!on && watched) {
		error = unregister_ftrace_function(&watch);
		watched = false;
	}
	mutex_unlock(&watch_lock);
	return error;
}

static void watch_end(void)
{
	watch_own(false);
	mutex_lock(&watch_lock);
	watch_over = true;
	if (watch_chosen)
		ftrace_free_filter(&watch);
	mutex_unlock(&watch_lock);
}

/* A VM of our own, for calibrate.h: nothing but a set of slots. */
static struct {
	struct kvm kvm;
	struct kvm_vcpu vcpu;
	struct kvm_memslots slots;
	struct kvm_memory_slot items[];
} *calibrated;

static void calibrate_free(void)
{
	if (!calibrated)
		return;
	forget(&calibrated->slots);
	kvfree(calibrated);
	calibrated = NULL;
}

static void calibrate_insert(struct kvm_memslots *slots, struct kvm_memory_slot *slot)
{
	struct rb_node **link = &slots->gfn_tree.rb_node, *parent = NULL;

	while (*link) {
		parent = *link;
		if (slot->base_gfn < container_of(parent, struct kvm_memory_slot, gfn_node[0])->base_gfn)
			link = &parent->rb_left;
		else
			link = &parent->rb_right;
	}
	rb_link_node(&slot->gfn_node[0], parent, link);
	rb_insert_color(&slot->gfn_node[0], &slots->gfn_tree);
	hash_add(slots->id_hash, &slot->id_node[0], slot->id);
}

static int calibrate_build(const struct span *spans, u32 count)
{
	u32 i;

	calibrated = kvzalloc(struct_size(calibrated, items, count), GFP_KERNEL);
	if (!calibrated)
		return -ENOMEM;
	refcount_set(&calibrated->kvm.users_count, 1);
	rcu_assign_pointer(calibrated->kvm.memslots[0], &calibrated->slots);
	calibrated->vcpu.kvm = &calibrated->kvm;
	hash_init(calibrated->slots.id_hash);
	for (i = 0; i < count; i++) {
		struct kvm_memory_slot *slot = &calibrated->items[i];

		slot->id = i;
		slot->base_gfn = spans[i].start;
		slot->npages = spans[i].last - spans[i].start + 1;
		calibrate_insert(&calibrated->slots, slot);
	}
	return 0;
}

static const void *calibrate_owner(void)
{
	return &calibrated->slots;
}

static struct index *calibrate_index(void)
{
	return build_index(&calibrated->kvm, &calibrated->slots, 0, setting);
}

/* kvm_vcpu_gfn_to_memslot is not exported; livepatch has looked it up. */
static struct kvm_memory_slot *(*replaced)(struct kvm_vcpu *vcpu, gfn_t gfn);

static void *calibrate_call(u64 gfn)
{
	return replaced(&calibrated->vcpu, gfn);
}

static void calibrate_forget_last(void)
{
	calibrated->vcpu.last_used_slot = NULL;
}

static struct kvm_memory_slot *answer(struct kvm *kvm, struct kvm_memslots *slots, gfn_t gfn)
{
	u64 now = smp_load_acquire(&setting), generation = slots->generation;
	struct kvm_memory_slot *slot;
	struct index *index;

	rcu_read_lock();
	index = index_of(slots);
	if (unlikely(!index || index->generation != generation || index->setting != now))
		index = build_index(kvm, slots, generation, now);
	if (unlikely(!index || !index->usable)) {
		rcu_read_unlock();
		COUNT(unsure, 1);
		return search_memslots(slots, gfn, false);
	}
	slot = index->find(index, gfn, gfn);
	rcu_read_unlock();
	return slot;
}

static __always_inline struct kvm_memory_slot *search(struct kvm *kvm, struct kvm_memslots *slots, gfn_t gfn)
{
	struct kvm_memory_slot *slot, *stock;

	if (!READ_ONCE(engine)->find)
		return search_memslots(slots, gfn, false);
	slot = answer(kvm, slots, gfn);
	if (likely(!verify))
		return slot;
	stock = search_memslots(slots, gfn, false);
	COUNT(verified, 1);
	if (slot != stock)
		COUNT(mismatches, 1);
	return stock;
}

struct kvm_memory_slot *memslot_kvm_vcpu_gfn_to_memslot(struct kvm_vcpu *vcpu, gfn_t gfn);
noinline struct kvm_memory_slot *memslot_kvm_vcpu_gfn_to_memslot(struct kvm_vcpu *vcpu, gfn_t gfn)
{
	struct kvm_memslots *slots = kvm_vcpu_memslots(vcpu);
	u64 generation = slots->generation;
	struct kvm_memory_slot *slot;

	if (!cached)
		return search(vcpu->kvm, slots, gfn);
	/* The vCPU's own last-used slot, as the stock function keeps it: it stays valid when that is back. */
	if (unlikely(generation != vcpu->last_used_slot_gen)) {
		vcpu->last_used_slot = NULL;
		vcpu->last_used_slot_gen = generation;
	}
	slot = try_get_memslot(vcpu->last_used_slot, gfn);
	if (slot)
		return slot;
	slot = search(vcpu->kvm, slots, gfn);
	if (slot)
		vcpu->last_used_slot = slot;
	return slot;
}

struct kvm_memory_slot *memslot_gfn_to_memslot(struct kvm *kvm, gfn_t gfn);
noinline struct kvm_memory_slot *memslot_gfn_to_memslot(struct kvm *kvm, gfn_t gfn)
{
	struct kvm_memslots *slots = kvm_memslots(kvm);
	struct kvm_memory_slot *slot;

	if (!cached)
		return search(kvm, slots, gfn);
	slot = try_get_memslot((struct kvm_memory_slot *)atomic_long_read(&slots->last_used_slot), gfn);
	if (slot)
		return slot;
	slot = search(kvm, slots, gfn);
	if (slot)
		atomic_long_set(&slots->last_used_slot, (unsigned long)slot);
	return slot;
}

/* A VM's memory may become another's: what is known of its sets of slots must go before. */
static const char *const enders[] = { "kvm_destroy_vm" };

static void notrace ends(unsigned long ip, unsigned long parent, struct ftrace_ops *ops, struct ftrace_regs *registers)
{
	struct kvm *kvm = (struct kvm *)ftrace_get_regs(registers)->di;
	int space;

	for (space = 0; space < ARRAY_SIZE(kvm->__memslots); space++) {
		forget(&kvm->__memslots[space][0]);
		forget(&kvm->__memslots[space][1]);
	}
}

static struct ftrace_ops hooks = {
	.func = ends,
	.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_PERMANENT,
};

static int before_patch(struct klp_object *object)
{
	return hook(&hooks, enders, ARRAY_SIZE(enders));
}

static void after_unpatch(struct klp_object *object)
{
	watch_end();
	unhook(&hooks);
}

static struct klp_func functions[] = {
	{ .old_name = "kvm_vcpu_gfn_to_memslot", .new_func = memslot_kvm_vcpu_gfn_to_memslot },
	{ .old_name = "gfn_to_memslot", .new_func = memslot_gfn_to_memslot },
	{ }
};

static struct klp_object objects[] = {
	{
		.name = "kvm",
		.funcs = functions,
		.callbacks = { .pre_patch = before_patch, .post_unpatch = after_unpatch },
	},
	{ }
};

static struct klp_patch patch = { .mod = THIS_MODULE, .objs = objects };

static int __init memslot_init(void)
{
	int error = start(&patch);

	if (error)
		return error;
	replaced = functions[0].old_func;
	if (replaced)
		calibrate_offer();
	return 0;
}

static void __exit memslot_exit(void)
{
	calibrate_end();
}

module_init(memslot_init);
module_exit(memslot_exit);
MODULE_DESCRIPTION("Replaces the search of KVM's memory slots while the kernel runs");
