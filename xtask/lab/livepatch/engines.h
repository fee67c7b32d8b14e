/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The structures that answer in place of the kernel's tree, as those of memslot-user/src/engine of the same names.
 *
 * An index is built once from the ranges of a table and never changed. All engines answer alike: the range that holds
 * `start`; else the first one behind it if that begins at `last` or before; else nothing. Where ranges do not overlap
 * that is what an interval tree answers for [start, last], and with start == last what a search tree answers.
 *
 * Each search is compiled twice: bare, and counting the nodes that it visits.
 */
#ifndef MEMSLOT_ENGINES_H
#define MEMSLOT_ENGINES_H

#include <linux/log2.h>
#include <linux/percpu.h>
#include <linux/types.h>

struct span {
	u64 start;
	u64 last;
	void *item;
	/* Place in the order of registration. */
	u32 order;
};

#define NONE U32_MAX

struct heavy_node {
	u64 start;
	u64 last;
	void *item;
	/* Left, right; places in the array of nodes, or NONE. */
	u32 child[2];
	u32 parent;
};

struct index {
	struct hlist_node chain;
	struct rcu_head rcu;
	/* The table, and the generation of its content where it has one. */
	const void *owner;
	u64 generation;
	/* What answers: the engine's search bare, counting or timed. */
	void *(*find)(const struct index *index, u64 start, u64 last);
	const struct engine *by;
	/* The setting that it was built for. */
	u64 setting;
	/* False where ranges overlap: then only the stock search is right. */
	bool usable;
	/* The item that was found last, for who asks it first. */
	void *last_used;
	/* Of these, what the engine needs. */
	u32 count;
	u32 places;
	u32 root;
	u32 shift;
	u64 first;
	struct heavy_node *nodes;
	u32 *narrow;
	u64 *wide;
	struct span ranges[];
};

/* Look-ups of a kind: their number, ticks of the TSC in their searches, nodes visited. */
struct timed {
	u64 lookups;
	u64 ticks;
	u64 steps;
};

struct statistics {
	/* Of the function that is measured itself, and others; each that found something, and that did not. */
	struct timed timed[4];
	u64 lookups;
	u64 steps;
	u64 builds;
	u64 unsure;
	u64 verified;
	u64 mismatches;
};

static DEFINE_PER_CPU(struct statistics, statistics);

#define COUNT(what, more) this_cpu_add(statistics.what, more)

static __always_inline void *first_behind(const struct span *range, u64 last)
{
	return range->start <= last ? range->item : NULL;
}

/* The rest of a scan from a range on that begins behind `start`: the lowest of all that overlap. */
static noinline void *scan_behind(const struct index *index, const struct span *first, u64 start, u64 last, u32 *steps)
{
	const struct span *range, *end = index->ranges + index->count;

	for (range = first + 1; range < end; range++) {
		if (steps)
			++*steps;
		if (range->start <= last && range->last >= start && range->start < first->start)
			first = range;
	}
	return first->item;
}

/* `linear` and `linear_by_size`: from the front. */
static __always_inline void *scan(const struct index *index, u64 start, u64 last, u32 *steps, bool counted)
{
	const struct span *range, *end = index->ranges + index->count;

	for (range = index->ranges; range < end; range++) {
		++*steps;
		if (range->start > last || range->last < start)
			continue;
		/* Or else the loop would carry the start in a register, for this one use of it. */
		OPTIMIZER_HIDE_VAR(range);
		if (range->start <= start)
			return range->item;
		return scan_behind(index, range, start, last, counted ? steps : NULL);
	}
	return NULL;
}

/* `sorted_array`: ascending, halved without a branch on the data (partition_point of Rust's library). */
static __always_inline void *halve(const struct index *index, u64 start, u64 last, u32 *steps)
{
	const struct span *ranges = index->ranges;
	u32 base = 0, size = index->count;

	if (!size)
		return NULL;
	while (size > 1) {
		u32 half = size / 2;

		++*steps;
		base = ranges[base + half].start <= start ? base + half : base;
		size -= half;
	}
	/* Any other place was stood at when it was accepted. */
	*steps += !base;
	if (ranges[base].start > start)
		return first_behind(&ranges[base], last);
	if (ranges[base].last >= start)
		return ranges[base].item;
	return base + 1 < index->count ? first_behind(&ranges[base + 1], last) : NULL;
}

/* `sorted_array_kernel`: descending, as in search_memslots() of 3.20 to 5.16 and in vhost's find_region() of 2015. */
static __always_inline void *halve_kernel(const struct index *index, u64 start, u64 last, u32 *steps)
{
	const struct span *ranges = index->ranges;
	u32 low = 0, high = index->count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		++*steps;
		if (start >= ranges[middle].start)
			high = middle;
		else
			low = middle + 1;
	}
	if (low < index->count && ranges[low].last >= start)
		return ranges[low].item;
	return low ? first_behind(&ranges[low - 1], last) : NULL;
}

/* `wbtree`: a search tree on the start, the largest range on top. */
static __always_inline void *descend(const struct index *index, u64 start, u64 last, u32 *steps)
{
	const struct heavy_node *node, *behind = NULL;
	u32 at = index->root;

	while (at != NONE) {
		node = &index->nodes[at];
		++*steps;
		if (start < node->start) {
			behind = node;
			at = node->child[0];
		} else if (start <= node->last) {
			return node->item;
		} else {
			at = node->child[1];
		}
	}
	return behind && behind->start <= last ? behind->item : NULL;
}

/* Which range's start stands at a place of the heap; range 0 has none. */
static u32 rank(u32 at, u32 places)
{
	u32 level = ilog2(at);

	return (2 * (at - (1 << level)) + 1) << (ilog2(places) - level - 1);
}

/* `eytzinger`, our own: the starts alone, in heap order, as 32-bit keys where they fit. */
#define DESCEND_HEAP(keys, wanted, counted) do {				\
	while (at < index->places) {						\
		if (counted)							\
			*steps += rank(at, index->places) < index->count;	\
		at = 2 * at + (keys[at] <= (wanted));				\
	}									\
} while (0)

static __always_inline void *heap(const struct index *index, u64 start, u64 last, u32 *steps, bool counted)
{
	const struct span *range;
	u32 at = 1;

	if (!index->count)
		return NULL;
	if (index->narrow) {
		/* Below `first` this is meaningless, and no range holds it. */
		u64 key = (start - index->first) >> index->shift;
		u32 wanted = min_t(u64, key, U32_MAX);

		DESCEND_HEAP(index->narrow, wanted, counted);
	} else {
		DESCEND_HEAP(index->wide, start, counted);
	}
	/* Places that no range needs hold the largest key, which may count too. */
	at = min(at - index->places, index->count - 1);
	range = &index->ranges[at];
	*steps += !at;
	if (start - range->start <= range->last - range->start)
		return range->item;
	if (index->ranges[0].start > start)
		return first_behind(&index->ranges[0], last);
	return at + 1 < index->count ? first_behind(&range[1], last) : NULL;
}

/* What a call alone takes. */
static noinline void *find_nothing(const struct index *index, u64 start, u64 last)
{
	asm volatile("");
	return NULL;
}

#define TWICE(name, search)								\
static void *name(const struct index *index, u64 start, u64 last)			\
{											\
	u32 unused = 0, *steps = &unused;						\
	const bool counted = false;							\
											\
	return search;									\
}											\
static void *name##_counted(const struct index *index, u64 start, u64 last)		\
{											\
	u32 taken = 0, *steps = &taken;							\
	const bool counted = true;							\
	void *found = search;								\
											\
	COUNT(lookups, 1);								\
	COUNT(steps, taken);								\
	return found;									\
}

#define UNCOUNTED(call) ((void)counted, call)

TWICE(find_scan, scan(index, start, last, steps, counted))
TWICE(find_halve, UNCOUNTED(halve(index, start, last, steps)))
TWICE(find_halve_kernel, UNCOUNTED(halve_kernel(index, start, last, steps)))
TWICE(find_descend, UNCOUNTED(descend(index, start, last, steps)))
TWICE(find_heap, heap(index, start, last, steps, counted))

#endif
