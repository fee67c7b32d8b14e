/* SPDX-License-Identifier: GPL-2.0 */
/* Builds the indexes that engines.h searches. */
#ifndef MEMSLOT_BUILD_H
#define MEMSLOT_BUILD_H

#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include "engines.h"

static int by_order(const void *left, const void *right)
{
	const struct span *a = left, *b = right;

	return a->order < b->order ? -1 : a->order > b->order;
}

static int by_start(const void *left, const void *right)
{
	const struct span *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

static int by_start_descending(const void *left, const void *right)
{
	return by_start(right, left);
}

static int by_size(const void *left, const void *right)
{
	const struct span *a = left, *b = right;
	u64 one = a->last - a->start, other = b->last - b->start;

	return one > other ? -1 : one < other ? 1 : by_order(left, right);
}

static void sort_ranges(struct index *index, int (*compare)(const void *, const void *))
{
	sort(index->ranges, index->count, sizeof(struct span), compare, NULL);
}

/* What an engine needs besides lies behind the ranges. */
static void *behind_ranges(struct index *index)
{
	return index->ranges + index->count;
}

static void __maybe_unused build_linear(struct index *index)
{
	sort_ranges(index, by_order);
}

static void build_by_size(struct index *index)
{
	sort_ranges(index, by_size);
}

static void build_descending(struct index *index)
{
	sort_ranges(index, by_start_descending);
}

static void link_child(struct index *index, u32 parent, int side, u32 at)
{
	if (parent == NONE)
		index->root = at;
	else
		index->nodes[parent].child[side] = at;
	if (at != NONE)
		index->nodes[at].parent = parent;
}

static int side_of(const struct index *index, u32 parent, u32 at)
{
	return parent != NONE && index->nodes[parent].child[1] == at;
}

static void rotate_up(struct index *index, u32 at)
{
	u32 parent = index->nodes[at].parent, above = index->nodes[parent].parent;
	int side = side_of(index, parent, at), upper = side_of(index, above, parent);

	link_child(index, parent, side, index->nodes[at].child[!side]);
	link_child(index, at, !side, parent);
	link_child(index, above, upper, at);
}

static u64 weight(const struct heavy_node *node)
{
	return node->last - node->start;
}

/* In the order of registration; up while heavier than the parent, so that of equal ones the older stays above. */
static void build_wbtree(struct index *index)
{
	u32 i;

	sort_ranges(index, by_order);
	index->nodes = behind_ranges(index);
	index->root = NONE;
	for (i = 0; i < index->count; i++) {
		struct span *range = &index->ranges[i];
		struct heavy_node *node = &index->nodes[i];
		u32 parent = NONE, at = index->root;
		int side = 0;

		while (at != NONE) {
			parent = at;
			side = range->start > index->nodes[at].start;
			at = index->nodes[at].child[side];
		}
		*node = (struct heavy_node) {
			.start = range->start, .last = range->last, .item = range->item, .child = { NONE, NONE },
		};
		link_child(index, parent, side, i);
		while (node->parent != NONE && weight(&index->nodes[node->parent]) < weight(node))
			rotate_up(index, i);
	}
}

static void build_heap(struct index *index)
{
	u64 bits = 0;
	u32 at, i;

	if (!index->count)
		return;
	index->first = index->ranges[0].start;
	for (i = 0; i < index->count; i++)
		bits |= index->ranges[i].start - index->first;
	index->shift = bits ? __ffs64(bits) : 63;
	index->places = roundup_pow_of_two(index->count);
	if ((index->ranges[index->count - 1].start - index->first) >> index->shift <= U32_MAX)
		index->narrow = behind_ranges(index);
	else
		index->wide = behind_ranges(index);
	for (at = 1; at < index->places; at++) {
		u32 of = rank(at, index->places);
		bool used = of < index->count;

		if (index->narrow)
			index->narrow[at] =
				used ? (index->ranges[of].start - index->first) >> index->shift : U32_MAX;
		else
			index->wide[at] = used ? index->ranges[of].start : U64_MAX;
	}
}

struct engine {
	const char *name;
	/* Ranges come in ascending order. */
	void (*build)(struct index *index);
	void *(*find)(const struct index *index, u64 start, u64 last);
	void *(*find_counted)(const struct index *index, u64 start, u64 last);
};

#define ENGINE(id, build, search) { id, build, search, search##_counted }

/* Behind the ranges an engine needs at most a node or two keys for each. */
static struct index *new_index(u32 count)
{
	size_t each = max(sizeof(struct heavy_node), 2 * sizeof(u64));
	size_t size = size_add(struct_size((struct index *)NULL, ranges, count), size_mul(count, each));
	/* The caller may hold a spinlock; without memory the stock search answers. */
	struct index *index = kzalloc(size, GFP_NOWAIT | __GFP_NOWARN);

	if (index)
		index->count = count;
	return index;
}

static bool overlap(const struct index *index)
{
	u32 i;

	for (i = 1; i < index->count; i++)
		if (index->ranges[i - 1].last >= index->ranges[i].start)
			return true;
	return false;
}

#endif
