/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the searches and the way to them take on known inputs: a table of our own, of ranges that user space names, and
 * addresses in it. Where the TSC counts instructions (the lab's exact mode) the figures are numbers of instructions.
 *
 * The file `calibrate` in debugfs, directory of the module's name, takes one command a write:
 *   empty             begins a table
 *   range START LAST  adds a range; the order of these is the order of registration
 *   time ADDRESS      looks the address up by the engine in force
 * and reads, after `time`: "SEARCH WHOLE AGAIN FOUND". SEARCH is what the engine's search alone takes beyond a call that
 * does nothing (0 for `stock`, which has no index to search), WHOLE what the replaced function takes beyond such a call,
 * with all that leads to the search, and AGAIN the same when it is called again at once, so that what was found last may
 * answer; FOUND whether there was an answer. While the patch is off WHOLE and AGAIN are of the kernel's own function.
 */
#ifndef MEMSLOT_CALIBRATE_H
#define MEMSLOT_CALIBRATE_H

#include <linux/debugfs.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#define MOST_CALIBRATED 8192
/* The first calls fill caches, and set up what is only set up once. */
#define CALIBRATE_ROUNDS 3

static DEFINE_MUTEX(calibrate_lock);
static struct dentry *calibrate_directory;
static struct span *calibrate_spans;
static u32 calibrate_count;
static bool calibrate_built;
static u64 calibrate_search, calibrate_whole, calibrate_again;
static bool calibrate_found;

/* Of the module: a table of these ranges, and its end. */
static int calibrate_build(const struct span *spans, u32 count);
static void calibrate_free(void);
/* The table's address, and its index by the engine in force, under RCU. */
static const void *calibrate_owner(void);
static struct index *calibrate_index(void);
/* Calls the replaced function as others call it; forgets before that what was found last. */
static void *calibrate_call(u64 address);
static void calibrate_forget_last(void);

static noinline void *calibrate_nothing(u64 address)
{
	asm volatile("");
	return NULL;
}

static void *(*calibrate_called)(u64 address) = calibrate_call;
static void *(*calibrate_not_called)(u64 address) = calibrate_nothing;

static void calibrate_clear(void)
{
	if (calibrate_built)
		calibrate_free();
	calibrate_built = false;
}

/* What a call takes beyond one that does nothing. */
static u64 calibrate_ticks(u64 address)
{
	void *(*call)(u64 address) = READ_ONCE(calibrate_called), *(*empty)(u64 address) = READ_ONCE(calibrate_not_called);
	u64 before, between, after;
	unsigned long flags;

	local_irq_save(flags);
	before = rdtsc_ordered();
	empty(address);
	between = rdtsc_ordered();
	calibrate_found = call(address);
	after = rdtsc_ordered();
	local_irq_restore(flags);
	return (after - between) - (between - before);
}

static int calibrate_time(u64 address)
{
	void *found = NULL;
	int error, round;

	if (!calibrate_built) {
		error = calibrate_build(calibrate_spans, calibrate_count);
		if (error)
			return error;
		calibrate_built = true;
	}
	for (round = 0; round < CALIBRATE_ROUNDS; round++) {
		calibrate_search = 0;
		if (READ_ONCE(engine)->find) {
			struct index *index;

			rcu_read_lock();
			index = index_of(calibrate_owner());
			if (!index || index->setting != setting)
				index = calibrate_index();
			if (index && index->usable)
				calibrate_search = ticks_of(index, address, address, &found);
			rcu_read_unlock();
			if (!index)
				return -ENOMEM;
		}
		calibrate_forget_last();
		calibrate_whole = calibrate_ticks(address);
		calibrate_again = calibrate_ticks(address);
	}
	return 0;
}

static int calibrate_command(const char *text)
{
	u64 start, last;

	if (sysfs_streq(text, "empty")) {
		calibrate_clear();
		calibrate_count = 0;
		return 0;
	}
	if (sscanf(text, "range %llu %llu", &start, &last) == 2) {
		if (calibrate_count == MOST_CALIBRATED || last < start)
			return -EINVAL;
		calibrate_clear();
		calibrate_spans[calibrate_count] = (struct span) { start, last, NULL, calibrate_count };
		calibrate_count++;
		return 0;
	}
	if (sscanf(text, "time %llu", &start) == 1)
		return calibrate_time(start);
	return -EINVAL;
}

static ssize_t calibrate_write(struct file *file, const char __user *buffer, size_t size, loff_t *position)
{
	char text[64];
	int error;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buffer, size))
		return -EFAULT;
	text[size] = '\0';
	mutex_lock(&calibrate_lock);
	error = calibrate_command(text);
	mutex_unlock(&calibrate_lock);
	return error ? error : size;
}

static int calibrate_show(struct seq_file *out, void *unused)
{
	mutex_lock(&calibrate_lock);
	seq_printf(out, "%llu %llu %llu %d\n", calibrate_search, calibrate_whole, calibrate_again, calibrate_found);
	mutex_unlock(&calibrate_lock);
	return 0;
}

static int calibrate_open(struct inode *inode, struct file *file)
{
	return single_open(file, calibrate_show, NULL);
}

static const struct file_operations calibrate_operations = {
	.owner = THIS_MODULE,
	.open = calibrate_open,
	.read = seq_read,
	.write = calibrate_write,
	.llseek = seq_lseek,
	.release = single_release,
};

/* Without debugfs or memory there is no such file, and nothing else is missing. */
static void calibrate_offer(void)
{
	calibrate_spans = kvcalloc(MOST_CALIBRATED, sizeof(*calibrate_spans), GFP_KERNEL);
	if (!calibrate_spans)
		return;
	calibrate_directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("calibrate", 0600, calibrate_directory, NULL, &calibrate_operations);
}

static void calibrate_end(void)
{
	debugfs_remove(calibrate_directory);
	calibrate_clear();
	kvfree(calibrate_spans);
	/* What an index was built for after the patch was off. */
	forget_all();
}

#endif
