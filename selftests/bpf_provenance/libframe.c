// SPDX-License-Identifier: GPL-2.0
/* A file whose functions stand on the stacks that bench takes. */
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

/* Where the stack is taken: at this system call, and at leaf itself. */
long leaf(void)
{
#ifdef __x86_64__
	long ret;

	/* Not through libc, which would be one file more on the stack. */
	asm volatile("syscall"
		     : "=a"(ret) : "0"(SYS_getppid) : "rcx", "r11", "memory");
	return ret;
#else
	return syscall(SYS_getppid);
#endif
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
