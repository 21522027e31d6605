// SPDX-License-Identifier: GPL-2.0

/* Test that connect(AF_UNSPEC) waits for the socket lock. */

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"

#ifndef IPPROTO_L2TP
#define IPPROTO_L2TP	115
#endif

static void setup_netns(struct __test_metadata *_metadata)
{
	FILE *f;

	ASSERT_EQ(0, unshare(CLONE_NEWNET));
	ASSERT_EQ(0, system("ip link set dev lo up"));

	f = fopen("/proc/sys/net/ipv4/ping_group_range", "w");
	ASSERT_NE(NULL, f);
	ASSERT_LT(0, fprintf(f, "0 0\n"));
	ASSERT_EQ(0, fclose(f));
}

FIXTURE(disconnect_lock)
{
	int fd;
	int uffd;
	struct sock_filter *filter;
	int attach_err;
	int disconnect_err;
	pid_t tid;
	bool disconnected;
};

FIXTURE_VARIANT(disconnect_lock)
{
	int family;
	int type;
	int protocol;
};

FIXTURE_VARIANT_ADD(disconnect_lock, udp_v4)
{
	.family = AF_INET,
	.type = SOCK_DGRAM,
	.protocol = IPPROTO_UDP,
};

FIXTURE_VARIANT_ADD(disconnect_lock, udp_v6)
{
	.family = AF_INET6,
	.type = SOCK_DGRAM,
	.protocol = IPPROTO_UDP,
};

FIXTURE_VARIANT_ADD(disconnect_lock, ping_v4)
{
	.family = AF_INET,
	.type = SOCK_DGRAM,
	.protocol = IPPROTO_ICMP,
};

FIXTURE_VARIANT_ADD(disconnect_lock, ping_v6)
{
	.family = AF_INET6,
	.type = SOCK_DGRAM,
	.protocol = IPPROTO_ICMPV6,
};

FIXTURE_VARIANT_ADD(disconnect_lock, raw_v4)
{
	.family = AF_INET,
	.type = SOCK_RAW,
	.protocol = IPPROTO_UDP,
};

FIXTURE_VARIANT_ADD(disconnect_lock, raw_v6)
{
	.family = AF_INET6,
	.type = SOCK_RAW,
	.protocol = IPPROTO_UDP,
};

FIXTURE_VARIANT_ADD(disconnect_lock, l2tp_v4)
{
	.family = AF_INET,
	.type = SOCK_DGRAM,
	.protocol = IPPROTO_L2TP,
};

FIXTURE_VARIANT_ADD(disconnect_lock, l2tp_v6)
{
	.family = AF_INET6,
	.type = SOCK_DGRAM,
	.protocol = IPPROTO_L2TP,
};

FIXTURE_SETUP(disconnect_lock)
{
	struct sockaddr_storage any = { .ss_family = variant->family };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };

	setup_netns(_metadata);

	self->fd = socket(variant->family, variant->type, variant->protocol);
	if (self->fd < 0 && variant->protocol == IPPROTO_L2TP &&
	    (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT))
		SKIP(return, "No L2TP/IP");
	ASSERT_LE(0, self->fd);
	/* L2TP disconnects bound sockets only. */
	ASSERT_EQ(0, bind(self->fd, (struct sockaddr *)&any, sizeof(any)));

	self->uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (self->uffd < 0)
		SKIP(return, "No userfaultfd");
	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_API, &api));

	self->filter = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->filter);
	reg.range.start = (uintptr_t)self->filter;
	reg.range.len = getpagesize();
	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_REGISTER, &reg));
}

FIXTURE_TEARDOWN(disconnect_lock)
{
	munmap(self->filter, getpagesize());
	close(self->uffd);
	close(self->fd);
}

static void *attach_filter(void *arg)
{
	FIXTURE_DATA(disconnect_lock) *self = arg;
	struct sock_fprog prog = { .len = 1, .filter = self->filter };

	self->attach_err = setsockopt(self->fd, SOL_SOCKET, SO_ATTACH_FILTER,
				      &prog, sizeof(prog));
	return NULL;
}

static void *disconnect_socket(void *arg)
{
	FIXTURE_DATA(disconnect_lock) *self = arg;
	struct sockaddr addr = { .sa_family = AF_UNSPEC };

	__atomic_store_n(&self->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	self->disconnect_err = connect(self->fd, &addr, sizeof(addr));
	__atomic_store_n(&self->disconnected, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool is_disconnected(FIXTURE_DATA(disconnect_lock) *self)
{
	return __atomic_load_n(&self->disconnected, __ATOMIC_ACQUIRE);
}

/* It waits for a socket lock in uninterruptible sleep. */
static bool is_waiting(FIXTURE_DATA(disconnect_lock) *self)
{
	pid_t tid = __atomic_load_n(&self->tid, __ATOMIC_ACQUIRE);
	char path[64], state = 0;
	FILE *f;

	if (!tid)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'D';
}

/* setsockopt() holds the socket lock while it reads the filter, and the
 * page of the filter is missing until this test provides it.
 */
TEST_F(disconnect_lock, wait)
{
	struct sock_filter ret = BPF_STMT(BPF_RET | BPF_K, 0);
	struct uffdio_copy copy = { .len = getpagesize() };
	pthread_t attacher, disconnecter;
	struct uffd_msg msg;
	void *page;

	page = calloc(1, copy.len);
	ASSERT_NE(NULL, page);
	memcpy(page, &ret, sizeof(ret));
	copy.src = (uintptr_t)page;
	copy.dst = (uintptr_t)self->filter;

	ASSERT_EQ(0, pthread_create(&attacher, NULL, attach_filter, self));
	ASSERT_EQ(sizeof(msg), read(self->uffd, &msg, sizeof(msg)));
	ASSERT_EQ(UFFD_EVENT_PAGEFAULT, msg.event);

	ASSERT_EQ(0, pthread_create(&disconnecter, NULL, disconnect_socket,
				    self));
	while (!is_disconnected(self) && !is_waiting(self))
		sched_yield();
	EXPECT_FALSE(is_disconnected(self));

	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_COPY, &copy));
	ASSERT_EQ(0, pthread_join(attacher, NULL));
	ASSERT_EQ(0, pthread_join(disconnecter, NULL));
	EXPECT_EQ(0, self->attach_err);
	EXPECT_EQ(0, self->disconnect_err);
	free(page);
}

TEST_HARNESS_MAIN
