/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The indexes of all tables that were searched, what is to answer, and what was counted. Included by one file of each
 * module, which has defined `engines` before (the first is "stock" and has no functions) and CACHED.
 *
 * An index is built by the first look-up that misses it: whoever looks a table up keeps it from changing meanwhile (a
 * lock of vhost's, kvm->srcu), or the stock search would not be right either. It is found under RCU by the address of
 * its table, and forgotten when the table changes or goes: by its generation in KVM, by hooks on all functions that
 * change it in vhost. Where there is no index to be had the stock search answers, which is counted as `unsure`.
 */
#ifndef MEMSLOT_INDEX_H
#define MEMSLOT_INDEX_H

#include <linux/ftrace.h>
#include <linux/hash.h>
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/namei.h>
#include <linux/refcount.h>

/* What is to answer. Any change of these makes every index one of an old setting. */
static const struct engine *engine = engines;
static bool cached = CACHED;
static bool counting;
static bool timing;
static u64 setting;

static bool verify;
module_param(verify, bool, 0644);
MODULE_PARM_DESC(verify, "ask the stock search too, give its answer, and count where the two differ");

static bool i_know;
module_param(i_know, bool, 0400);
MODULE_PARM_DESC(i_know, "load although this is no guest of memslot's lab");

#define BUCKET_BITS 8
static struct hlist_head buckets[1 << BUCKET_BITS];
static DEFINE_SPINLOCK(buckets_lock);

static struct hlist_head *bucket_of(const void *owner)
{
	return &buckets[hash_ptr(owner, BUCKET_BITS)];
}

/* Under rcu_read_lock or buckets_lock. */
static __always_inline struct index *index_of(const void *owner)
{
	struct index *index;

	hlist_for_each_entry_rcu(index, bucket_of(owner), chain, true)
		if (index->owner == owner)
			return index;
	return NULL;
}

static void remove_index(struct index *index)
{
	hlist_del_rcu(&index->chain);
	kfree_rcu(index, rcu);
}

static void forget(const void *owner)
{
	struct index *index;
	unsigned long flags;

	spin_lock_irqsave(&buckets_lock, flags);
	index = index_of(owner);
	if (index)
		remove_index(index);
	spin_unlock_irqrestore(&buckets_lock, flags);
}

static void forget_all(void)
{
	struct index *index;
	struct hlist_node *next;
	unsigned long flags;
	int i;

	spin_lock_irqsave(&buckets_lock, flags);
	for (i = 0; i < ARRAY_SIZE(buckets); i++)
		hlist_for_each_entry_safe(index, next, &buckets[i], chain)
			remove_index(index);
	spin_unlock_irqrestore(&buckets_lock, flags);
}

/*
 * With `timing`: what a search takes beyond a call that finds nothing at once, in ticks of the TSC, summed up by kind of
 * look-up, and the nodes that it visits. Interrupts are off, so that none is in it.
 */
static void *(*nothing)(const struct index *index, u64 start, u64 last) = find_nothing;

static u64 ticks_of(const struct index *index, u64 start, u64 last, void **found)
{
	void *(*empty)(const struct index *index, u64 start, u64 last) = READ_ONCE(nothing);
	void *(*find)(const struct index *index, u64 start, u64 last) = READ_ONCE(index->by)->find;
	u64 before, between, after;
	unsigned long flags;

	local_irq_save(flags);
	before = rdtsc_ordered();
	empty(index, start, last);
	between = rdtsc_ordered();
	*found = find(index, start, last);
	after = rdtsc_ordered();
	local_irq_restore(flags);
	return (after - between) - (between - before);
}

static void *find_timed(const struct index *index, u64 start, u64 last)
{
	unsigned int own = take_own(start), kind;
	u64 ticks, steps;
	void *found;

	ticks = ticks_of(index, start, last, &found);
	kind = 2 * !own + !found;
	steps = this_cpu_read(statistics.steps);
	index->by->find_counted(index, start, last);
	COUNT(timed[kind].lookups, 1);
	COUNT(timed[kind].ticks, ticks);
	COUNT(timed[kind].steps, this_cpu_read(statistics.steps) - steps);
	return found;
}

/*
 * Completes an index that has its ranges, and publishes it in place of an older one. It may be used until
 * rcu_read_unlock. NULL when what is to answer was changed meanwhile, or when the owner has no `users` any more (they
 * have gone before it is forgotten, so that nothing is published behind that).
 */
static struct index *publish(struct index *index, const void *owner, u64 generation, u64 built_for,
			     const refcount_t *users)
{
	const struct engine *by = READ_ONCE(engine);
	struct index *older;
	unsigned long flags;

	sort_ranges(index, by_start);
	index->owner = owner;
	index->generation = generation;
	index->setting = built_for;
	index->usable = !overlap(index);
	index->by = by;
	index->find = READ_ONCE(timing) ? find_timed : READ_ONCE(counting) ? by->find_counted : by->find;
	if (index->usable && by->build)
		by->build(index);
	spin_lock_irqsave(&buckets_lock, flags);
	/* Settings change under the lock: what was read above belongs to this setting, or the index is refused. */
	if (built_for != setting || (users && !refcount_read(users))) {
		spin_unlock_irqrestore(&buckets_lock, flags);
		kfree(index);
		return NULL;
	}
	older = index_of(owner);
	if (older)
		remove_index(older);
	hlist_add_head_rcu(&index->chain, bucket_of(owner));
	spin_unlock_irqrestore(&buckets_lock, flags);
	COUNT(builds, 1);
	return index;
}

/* Parameters: engine, cached, counting. */

static void begin_setting(void)
{
	spin_lock_irq(&buckets_lock);
}

static void end_setting(void)
{
	/* Whoever sees the new number sees what was set before. */
	smp_store_release(&setting, setting + 1);
	spin_unlock_irq(&buckets_lock);
	forget_all();
}

static int engine_set(const char *text, const struct kernel_param *parameter)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		if (!sysfs_streq(text, engines[i].name))
			continue;
		begin_setting();
		WRITE_ONCE(engine, &engines[i]);
		end_setting();
		return 0;
	}
	pr_err("%s: no engine of that name\n", KBUILD_MODNAME);
	return -EINVAL;
}

static int engine_get(char *text, const struct kernel_param *parameter)
{
	return sysfs_emit(text, "%s\n", READ_ONCE(engine)->name);
}

static const struct kernel_param_ops engine_operations = { .set = engine_set, .get = engine_get };
module_param_cb(engine, &engine_operations, NULL, 0644);
MODULE_PARM_DESC(engine, "what answers: stock, linear, linear_by_size, sorted_array, sorted_array_kernel, wbtree, eytzinger, "
			 "or the kernel's own tree by way of an index: " OWN_TREE);

static int flag_set(const char *text, const struct kernel_param *parameter)
{
	bool value;
	int error = kstrtobool(text, &value);

	if (error)
		return error;
	begin_setting();
	WRITE_ONCE(*(bool *)parameter->arg, value);
	end_setting();
	return 0;
}

static const struct kernel_param_ops flag_operations = { .set = flag_set, .get = param_get_bool };
module_param_cb(cached, &flag_operations, &cached, 0644);
MODULE_PARM_DESC(cached, "ask the item that was found last first");
module_param_cb(counting, &flag_operations, &counting, 0644);
MODULE_PARM_DESC(counting, "count look-ups that search an index, and the nodes that they visit");

static int timing_set(const char *text, const struct kernel_param *parameter)
{
	int error = flag_set(text, parameter);

	return error ? error : watch_own(timing);
}

static const struct kernel_param_ops timing_operations = { .set = timing_set, .get = param_get_bool };
module_param_cb(timing, &timing_operations, &timing, 0644);
MODULE_PARM_DESC(timing, "time each search by the TSC, see timed");

static const char *const timed_kinds[] = { "own_found", "own_none", "other_found", "other_none" };

static int timed_get(char *text, const struct kernel_param *parameter)
{
	int cpu, length = 0;
	unsigned int kind;

	for (kind = 0; kind < ARRAY_SIZE(timed_kinds); kind++) {
		struct timed sum = { 0 };

		for_each_possible_cpu(cpu) {
			const struct timed *of = &per_cpu_ptr(&statistics, cpu)->timed[kind];

			sum.lookups += of->lookups;
			sum.ticks += of->ticks;
			sum.steps += of->steps;
		}
		length += sysfs_emit_at(text, length, "%s %llu %llu %llu\n", timed_kinds[kind], sum.lookups, sum.ticks,
					sum.steps);
	}
	return length;
}

static int timed_set(const char *text, const struct kernel_param *parameter)
{
	int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(&statistics, cpu)->timed, 0, sizeof(statistics.timed));
	return 0;
}

static const struct kernel_param_ops timed_operations = { .set = timed_set, .get = timed_get };
module_param_cb(timed, &timed_operations, NULL, 0644);
MODULE_PARM_DESC(timed, "with timing, by kind: look-ups, ticks of the TSC in their searches, nodes visited");

/* Counts: each is a parameter to read; writing anything to it makes it zero. */

static u64 __percpu *counter(const struct kernel_param *parameter)
{
	return (u64 __percpu *)((char __percpu *)&statistics + (unsigned long)parameter->arg);
}

static int count_get(char *text, const struct kernel_param *parameter)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += *per_cpu_ptr(counter(parameter), cpu);
	return sysfs_emit(text, "%llu\n", sum);
}

static int count_set(const char *text, const struct kernel_param *parameter)
{
	int cpu;

	for_each_possible_cpu(cpu)
		*per_cpu_ptr(counter(parameter), cpu) = 0;
	return 0;
}

static const struct kernel_param_ops count_operations = { .set = count_set, .get = count_get };
#define COUNTER(what, text)									\
	module_param_cb(what, &count_operations, (void *)offsetof(struct statistics, what), 0644);	\
	MODULE_PARM_DESC(what, text)

COUNTER(lookups, "look-ups that searched an index (with counting)");
COUNTER(steps, "nodes that they visited (with counting)");
COUNTER(builds, "indexes built");
COUNTER(unsure, "look-ups that the stock search answered for want of a sure index");
COUNTER(verified, "look-ups that the stock search was asked for, too");
COUNTER(mismatches, "of these, where it answered differently");

/* Hooks: call back at the entry of functions that change or free a table, before they do. */

static int choose(struct ftrace_ops *hooks, const char *const *functions, size_t count)
{
	char name[64];
	size_t i;
	int error;

	for (i = 0; i < count; i++) {
		/* It is taken apart there. */
		strscpy(name, functions[i], sizeof(name));
		error = ftrace_set_filter(hooks, name, strlen(name), !i);
		if (error) {
			pr_err("%s: %s cannot be hooked\n", KBUILD_MODNAME, functions[i]);
			return error;
		}
	}
	return 0;
}

static int hook(struct ftrace_ops *hooks, const char *const *functions, size_t count)
{
	int error = choose(hooks, functions, count);

	return error ? error : register_ftrace_function(hooks);
}

/* For good: what ftrace_free_filter() frees is still pointed to, so the hooks cannot be set again. */
static void unhook(struct ftrace_ops *hooks)
{
	unregister_ftrace_function(hooks);
	ftrace_free_filter(hooks);
	forget_all();
}

/* The lab's guests have this file, and nobody else. */
static bool is_lab(void)
{
	struct path path;

	if (kern_path("/lab/order", 0, &path))
		return false;
	path_put(&path);
	return true;
}

static int start(struct klp_patch *of)
{
	if (!is_lab() && !i_know) {
		pr_err("%s: this replaces a search of the running kernel and is meant for memslot's lab; "
		       "to load it here, give it i_know=1\n", KBUILD_MODNAME);
		return -EPERM;
	}
	return klp_enable_patch(of);
}

MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");

#endif
