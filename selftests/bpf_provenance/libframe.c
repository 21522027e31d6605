// SPDX-License-Identifier: GPL-2.0
/* A file whose functions are on the stacks that bench and buildid take. */
#include <linux/compiler.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "common.h"

/* The stack is taken at this system call, and at leaf() itself. */
long leaf(void)
{
#ifdef __x86_64__
	long ret;

	/* Not through libc, which would add a file to the stack. */
	asm volatile("syscall"
		     : "=a"(ret) : "0"(SYS_getppid) : "rcx", "r11", "memory");
	return ret;
#else
	return syscall(SYS_getppid);
#endif
}

/* For interrupts on a thread that spins in a separate file. */
void spin_in_library(struct spinner *s)
{
	while (!READ_ONCE(s->stop))
		WRITE_ONCE(s->rounds, s->rounds + 1);
}

long frame(struct bench_chain *c)
{
	long ret;

	if (c->depth-- > 0)
		ret = c->frame[c->depth % c->files](c);
	else
		ret = c->leaf();
	/* No tail call: each frame stays on the stack. */
	asm volatile("" : "+r"(ret));
	return ret;
}
