// SPDX-License-Identifier: GPL-2.0
/*
 * Replaces vhost_iotlb_itree_first in vhost_iotlb: the search behind vhost's translate_desc, and of all others that
 * call it (vringh, vdpa). vhost_iotlb's own functions search the tree inline and keep doing so.
 *
 * `linear` walks the list that vhost keeps beside the tree, in the order of registration.
 */
#define CACHED false
#define OWN_TREE "interval_tree"
#include <linux/list.h>
#include <linux/vhost_iotlb.h>
#include "build.h"

/* The kernel's own search, from the kernel's own header. */
#define START(map) ((map)->start)
#define LAST(map) ((map)->last)
INTERVAL_TREE_DEFINE(struct vhost_iotlb_map, rb, __u64, __subtree_last, START, LAST, static inline __maybe_unused,
		     stock_itree);

/* The rest of a walk from a region on that begins behind `start`: the lowest of all that overlap. */
static noinline void *walk_behind(const struct vhost_iotlb *iotlb, struct vhost_iotlb_map *first, u64 start, u64 last,
				  u32 *steps)
{
	struct vhost_iotlb_map *map = first;

	list_for_each_entry_continue(map, &iotlb->list, link) {
		if (steps)
			++*steps;
		if (map->start <= last && map->last >= start && map->start < first->start)
			first = map;
	}
	return first;
}

static __always_inline void *walk(const struct index *index, u64 start, u64 last, u32 *steps, bool counted)
{
	const struct vhost_iotlb *iotlb = index->owner;
	struct vhost_iotlb_map *map;

	list_for_each_entry(map, &iotlb->list, link) {
		++*steps;
		if (map->start > last || map->last < start)
			continue;
		/* As in scan(). */
		OPTIMIZER_HIDE_VAR(map);
		if (map->start <= start)
			return map;
		return walk_behind(iotlb, map, start, last, counted ? steps : NULL);
	}
	return NULL;
}

TWICE(find_walk, walk(index, start, last, steps, counted))

/* Its nodes are counted by the probes. */
TWICE(find_tree, UNCOUNTED(((void)steps, stock_itree_iter_first(&((struct vhost_iotlb *)index->owner)->root, start, last))))

static const struct engine engines[] = {
	{ .name = "stock" },
	ENGINE("interval_tree", NULL, find_tree),
	ENGINE("linear", NULL, find_walk),
	ENGINE("linear_by_size", build_by_size, find_scan),
	ENGINE("sorted_array", NULL, find_halve),
	ENGINE("sorted_array_kernel", build_descending, find_halve_kernel),
	ENGINE("wbtree", build_wbtree, find_descend),
	ENGINE("eytzinger", build_heap, find_heap),
};

/* All look-ups are of the function that is measured. */
static unsigned int take_own(u64 address)
{
	return true;
}

static int watch_own(bool on)
{
	return 0;
}

#include "index.h"
#include "calibrate.h"

/* The caller's lock keeps the table as it is. */
static noinline struct index *build_index(struct vhost_iotlb *iotlb, u64 built_for)
{
	struct index *index = new_index(iotlb->nmaps);
	struct vhost_iotlb_map *map;
	u32 i = 0;

	if (!index)
		return NULL;
	list_for_each_entry(map, &iotlb->list, link) {
		if (i == index->count)
			break;
		index->ranges[i] = (struct span) { map->start, map->last, map, i };
		i++;
	}
	if (i != iotlb->nmaps) {
		kfree(index);
		return NULL;
	}
	return publish(index, iotlb, 0, built_for, NULL);
}

/* A table of our own, for calibrate.h. */

static struct vhost_iotlb *calibrated;

static void calibrate_free(void)
{
	if (!calibrated)
		return;
	/* While the patch is off no hook does it. */
	forget(calibrated);
	vhost_iotlb_free(calibrated);
	calibrated = NULL;
}

static int calibrate_build(const struct span *spans, u32 count)
{
	u32 i;

	calibrated = vhost_iotlb_alloc(MOST_CALIBRATED, 0);
	if (!calibrated)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		int error = vhost_iotlb_add_range(calibrated, spans[i].start, spans[i].last, 0, VHOST_MAP_RW);

		if (error) {
			calibrate_free();
			return error;
		}
	}
	return 0;
}

static const void *calibrate_owner(void)
{
	return calibrated;
}

static struct index *calibrate_index(void)
{
	return build_index(calibrated, setting);
}

static void *calibrate_call(u64 address)
{
	return vhost_iotlb_itree_first(calibrated, address, address);
}

static void calibrate_forget_last(void)
{
	struct index *index;

	rcu_read_lock();
	index = index_of(calibrated);
	if (index)
		WRITE_ONCE(index->last_used, NULL);
	rcu_read_unlock();
}

static bool holds(const struct vhost_iotlb_map *map, u64 address)
{
	return map && map->start <= address && address <= map->last;
}

static struct vhost_iotlb_map *answer(struct vhost_iotlb *iotlb, u64 start, u64 last)
{
	u64 now = smp_load_acquire(&setting);
	struct vhost_iotlb_map *map;
	struct index *index;

	rcu_read_lock();
	index = index_of(iotlb);
	if (unlikely(!index || index->setting != now))
		index = build_index(iotlb, now);
	if (unlikely(!index || !index->usable)) {
		rcu_read_unlock();
		COUNT(unsure, 1);
		return stock_itree_iter_first(&iotlb->root, start, last);
	}
	if (!cached) {
		map = index->find(index, start, last);
	} else {
		map = READ_ONCE(index->last_used);
		if (!holds(map, start)) {
			map = index->find(index, start, last);
			if (holds(map, start))
				WRITE_ONCE(index->last_used, map);
		}
	}
	rcu_read_unlock();
	return map;
}

/* Not static: probes attach to it by name. */
struct vhost_iotlb_map *memslot_vhost_iotlb_itree_first(struct vhost_iotlb *iotlb, u64 start, u64 last);
noinline struct vhost_iotlb_map *memslot_vhost_iotlb_itree_first(struct vhost_iotlb *iotlb, u64 start, u64 last)
{
	struct vhost_iotlb_map *map, *stock;

	if (!READ_ONCE(engine)->find)
		return stock_itree_iter_first(&iotlb->root, start, last);
	map = answer(iotlb, start, last);
	if (likely(!verify))
		return map;
	stock = stock_itree_iter_first(&iotlb->root, start, last);
	COUNT(verified, 1);
	if (map != stock)
		COUNT(mismatches, 1);
	return stock;
}

/* All functions of vhost_iotlb that change or free a table; the table is their first argument. */
static const char *const changers[] = {
	"vhost_iotlb_add_range_ctx", "vhost_iotlb_map_free", "vhost_iotlb_del_range", "vhost_iotlb_reset",
	"vhost_iotlb_free", "vhost_iotlb_init",
};

static void notrace changes(unsigned long ip, unsigned long parent, struct ftrace_ops *ops, struct ftrace_regs *registers)
{
	forget((const void *)ftrace_get_regs(registers)->di);
}

static struct ftrace_ops hooks = {
	.func = changes,
	.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_PERMANENT,
};

static int before_patch(struct klp_object *object)
{
	return hook(&hooks, changers, ARRAY_SIZE(changers));
}

static void after_unpatch(struct klp_object *object)
{
	unhook(&hooks);
}

static struct klp_func functions[] = {
	{ .old_name = "vhost_iotlb_itree_first", .new_func = memslot_vhost_iotlb_itree_first },
	{ }
};

static struct klp_object objects[] = {
	{
		.name = "vhost_iotlb",
		.funcs = functions,
		.callbacks = { .pre_patch = before_patch, .post_unpatch = after_unpatch },
	},
	{ }
};

static struct klp_patch patch = { .mod = THIS_MODULE, .objs = objects };

static int __init memslot_init(void)
{
	int error = start(&patch);

	if (!error)
		calibrate_offer();
	return error;
}

static void __exit memslot_exit(void)
{
	calibrate_end();
}

module_init(memslot_init);
module_exit(memslot_exit);
MODULE_DESCRIPTION("Replaces the search of vhost's regions while the kernel runs");
