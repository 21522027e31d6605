// SPDX-License-Identifier: GPL-2.0
/*
 * Deliberate faults, one at a time, that flavours with detectors and vmtest.sh must report.
 * Loading the module with fault=NAME causes it. Never part of the series.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *fault = "";
module_param(fault, charp, 0);
MODULE_PARM_DESC(fault, "which fault to commit");

static void splat(void)
{
	WARN(1, "planted");
}

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);

static void lock_inversion(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static void sleep_in_atomic(void)
{
	static DEFINE_SPINLOCK(lock);

	spin_lock(&lock);
	msleep(1);
	spin_unlock(&lock);
}

/* Many, because the address of the last may stand on a stack for a while. */
static void leak(void)
{
	void *p;
	int i;

	for (i = 0; i < 32; i++) {
		p = kmalloc(4000, GFP_KERNEL);
		OPTIMIZER_HIDE_VAR(p);
	}
}

static void use_after_free(void)
{
	char *p = kmalloc(64, GFP_KERNEL);

	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	WRITE_ONCE(p[8], 1);
}

static void refcount(void)
{
	refcount_t r = REFCOUNT_INIT(1);

	refcount_dec(&r);
	refcount_dec(&r);
}

static unsigned long counter;

static void increment(void)
{
	counter++;
	/* Or the compiler keeps it in a register all the time. */
	barrier();
}

/* A race only in the memory model, where increments may be after the store to locked. */
static noinline void increment_without_release(void)
{
	static int locked;
	int i;

	if (cmpxchg_acquire(&locked, 0, 1))
		return;
	for (i = 0; i < 100; i++)
		increment();
	WRITE_ONCE(locked, 0);
	/* KCSAN delays an access until the function returns. */
	udelay(10);
}

static void (*step)(void);

static int racer(void *unused)
{
	while (!kthread_should_stop()) {
		step();
		cond_resched();
	}
	return 0;
}

static void step_twice(void (*function)(void))
{
	unsigned long end = jiffies + 5 * HZ;
	struct task_struct *task;

	step = function;
	task = kthread_run(racer, NULL, "racer");
	if (WARN_ON(IS_ERR(task)))
		return;
	while (time_before(jiffies, end)) {
		step();
		cond_resched();
	}
	kthread_stop(task);
}

static void race(void)
{
	step_twice(increment);
}

static void missing_release(void)
{
	step_twice(increment_without_release);
}

/* Such a lock sleeps in a PREEMPT_RT kernel. */
static void spinlock_in_atomic(void)
{
	static DEFINE_SPINLOCK(lock);

	preempt_disable();
	spin_lock(&lock);
	spin_unlock(&lock);
	preempt_enable();
}

static void hang(void)
{
	local_irq_disable();
	for (;;)
		cpu_relax();
}

/* What the function that sends NMIs does instead: return to its caller. */
static noinline notrace void just_return(void)
{
}

static int skip(struct kprobe *kp, struct pt_regs *regs)
{
	regs->ip = (unsigned long)just_return;
	return 1;
}

/* A probe with a post-handler is not made a jump, which could not skip. */
static void after(struct kprobe *kp, struct pt_regs *regs, unsigned long flags)
{
}

/* The NMIs that the tests ask for do not come. */
static struct kprobe no_nmi_probe = {
	.symbol_name = "nmi_trigger_cpumask_backtrace",
	.pre_handler = skip,
	.post_handler = after,
};

static void no_nmi(void)
{
	WARN_ON(register_kprobe(&no_nmi_probe));
}

static const struct {
	const char *name;
	void (*commit)(void);
} faults[] = {
	{ "splat", splat },
	{ "lock_inversion", lock_inversion },
	{ "sleep_in_atomic", sleep_in_atomic },
	{ "leak", leak },
	{ "use_after_free", use_after_free },
	{ "refcount", refcount },
	{ "race", race },
	{ "missing_release", missing_release },
	{ "spinlock_in_atomic", spinlock_in_atomic },
	{ "hang", hang },
	{ "no_nmi", no_nmi },
};

static int __init planted_faults_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(faults[i].name, fault))
			continue;
		faults[i].commit();
		return 0;
	}
	return -EINVAL;
}
module_init(planted_faults_init);

MODULE_DESCRIPTION("Faults that the VM runner has to notice");
MODULE_LICENSE("GPL");
