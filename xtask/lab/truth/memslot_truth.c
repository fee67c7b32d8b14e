// SPDX-License-Identifier: GPL-2.0
/*
 * Functions of known length, to hold a tracer's figures against.
 *
 * truth_N executes exactly N instructions, counted from the first one behind the call site of ftrace (the five-byte nop
 * at the function's start) up to and including its return: what a tracer that is attached to entry and return encloses.
 * N - 1 of them are nops, one is the return. That holds where the return is a plain `ret`: on a CPU without the
 * mitigation by return thunks, or booted with mitigations=off, as the lab boots. With return thunks each function is
 * longer by the same few instructions.
 *
 * truth_recurse calls itself: a call of depth D enters and returns D + 1 times. The innermost executes 3 instructions,
 * each of the others 4 before its call and 1 (the return) behind it: 5 * D + 3, without the call sites of the inner ones.
 *
 * truth_sleep sleeps: its time on the clock is far longer than its time on the CPU.
 *
 * Files in debugfs, memslot_truth/:
 *   call       write "NAME COUNT [ARGUMENT]": calls the function COUNT times in the context of the writer. The argument
 *              is the depth of truth_recurse, or how many microseconds truth_sleep sleeps.
 *   functions  "NAME INSTRUCTIONS" a line, for those of fixed length
 *   check      measures how much longer each function is than truth_1, truth_recurse of depth 64 than of depth 0, and
 *              reads "NAME EXPECTED MEASURED" a line, both in thousandths of a tick of the TSC a call. Where a tick is an
 *              instruction (the lab's exact mode) the two are the same.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/asm.h>
#include <asm/msr.h>

void truth_1(void);
void truth_10(void);
void truth_100(void);
void truth_1000(void);
void truth_10000(void);
void truth_recurse(unsigned long depth);
void truth_sleep(unsigned long microseconds);

#define NOPS(count) asm volatile(".rept " #count "\n\tnop\n\t.endr")

/* Each function is a name to attach to: global, never inlined, never cloned. */
#define TRUTH noinline __used __noclone

TRUTH void truth_1(void)
{
	/* Without a statement of its own the compiler would take calls of it away. */
	asm volatile("");
}

TRUTH void truth_10(void)
{
	NOPS(9);
}

TRUTH void truth_100(void)
{
	NOPS(99);
}

TRUTH void truth_1000(void)
{
	NOPS(999);
}

TRUTH void truth_10000(void)
{
	NOPS(9999);
}

/* In assembly, for the compiler would turn it into a loop. It uses nothing but its argument's register. */
TRUTH void truth_recurse(unsigned long depth)
{
	asm volatile("test %%rdi, %%rdi\n\t"
		     "jz 1f\n\t"
		     "dec %%rdi\n\t"
		     "call truth_recurse\n"
		     "1:"
		     : "+D" (depth), ASM_CALL_CONSTRAINT : : "cc", "memory");
}

TRUTH void truth_sleep(unsigned long microseconds)
{
	usleep_range(microseconds, microseconds);
}

static const struct {
	const char *name;
	unsigned int instructions;
} functions[] = {
	{ "truth_1", 1 },
	{ "truth_10", 10 },
	{ "truth_100", 100 },
	{ "truth_1000", 1000 },
	{ "truth_10000", 10000 },
};

/* Depths of recursion that are checked. More levels than this would not fit the kernel's stack. */
#define DEEPEST 64UL
/* What stands in front of what is counted: the call site's nop, and endbr64 where the kernel has it. */
#define CALL_SITE (1 + IS_ENABLED(CONFIG_X86_KERNEL_IBT))
/* Calls of each function that a check makes. */
#define CHECKED_CALLS 1000

/* Direct calls, all of the same form; the loop around them costs the same for each. */
#define REPEAT(call) do {			\
	for (i = 0; i < count; i++)		\
		call;				\
} while (0)

static int call(const char *name, unsigned long count, unsigned long argument)
{
	unsigned long i;

	if (!strcmp(name, "truth_1"))
		REPEAT(truth_1());
	else if (!strcmp(name, "truth_10"))
		REPEAT(truth_10());
	else if (!strcmp(name, "truth_100"))
		REPEAT(truth_100());
	else if (!strcmp(name, "truth_1000"))
		REPEAT(truth_1000());
	else if (!strcmp(name, "truth_10000"))
		REPEAT(truth_10000());
	else if (!strcmp(name, "truth_recurse") && argument <= DEEPEST)
		REPEAT(truth_recurse(argument));
	else if (!strcmp(name, "truth_sleep"))
		REPEAT(truth_sleep(argument));
	else
		return -EINVAL;
	return 0;
}

static ssize_t call_write(struct file *file, const char __user *buffer, size_t size, loff_t *position)
{
	char text[64], name[32];
	unsigned long count, argument = 0;
	int error;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buffer, size))
		return -EFAULT;
	text[size] = '\0';
	if (sscanf(text, "%31s %lu %lu", name, &count, &argument) < 2)
		return -EINVAL;
	error = call(name, count, argument);
	return error ? error : size;
}

static const struct file_operations call_operations = {
	.owner = THIS_MODULE,
	.write = call_write,
};

static int functions_show(struct seq_file *out, void *unused)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(functions); i++)
		seq_printf(out, "%s %u\n", functions[i].name, functions[i].instructions);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(functions);

/* Ticks that `count` calls take, with nothing in between. */
static s64 ticks(const char *name, unsigned long count, unsigned long argument)
{
	unsigned long flags;
	u64 start, end;

	local_irq_save(flags);
	start = rdtsc_ordered();
	call(name, count, argument);
	end = rdtsc_ordered();
	local_irq_restore(flags);
	return end - start;
}

/* Ticks of CHECKED_CALLS calls and their loop alone: what else a run costs is in both runs. */
static s64 checked_ticks(const char *name, unsigned long argument)
{
	return ticks(name, 2 * CHECKED_CALLS, argument) - ticks(name, CHECKED_CALLS, argument);
}

static void check_one(struct seq_file *out, const char *name, unsigned long argument, unsigned int expected,
		      const char *base)
{
	s64 more = checked_ticks(name, argument) - checked_ticks(base, 0);

	seq_printf(out, "%s %u000 %lld\n", name, expected, div_s64(more * 1000, CHECKED_CALLS));
}

static int check_show(struct seq_file *out, void *unused)
{
	int i;

	for (i = 1; i < ARRAY_SIZE(functions); i++)
		check_one(out, functions[i].name, 0, functions[i].instructions - 1, "truth_1");
	check_one(out, "truth_recurse", DEEPEST, (5 + CALL_SITE) * DEEPEST, "truth_recurse");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(check);

static struct dentry *directory;

static int __init truth_init(void)
{
	directory = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("call", 0200, directory, NULL, &call_operations);
	debugfs_create_file("functions", 0400, directory, NULL, &functions_fops);
	debugfs_create_file("check", 0400, directory, NULL, &check_fops);
	return PTR_ERR_OR_ZERO(directory);
}

static void __exit truth_exit(void)
{
	debugfs_remove(directory);
}

module_init(truth_init);
module_exit(truth_exit);
MODULE_DESCRIPTION("Functions of known length, to hold a tracer's figures against");
MODULE_LICENSE("GPL");
