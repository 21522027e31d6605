// SPDX-License-Identifier: GPL-2.0

/* Test calls that wait for the socket lock while IPV6_ADDRFORM changes the
 * socket to AF_INET.
 */

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

FIXTURE(tcp_udp_addrform)
{
	int server;
	int fd;
	int uffd;
	struct sock_filter *filter;
};

FIXTURE_SETUP(tcp_udp_addrform)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };

	self->server = -1;
	self->fd = -1;

	ASSERT_EQ(0, unshare(CLONE_NEWNET));
	ASSERT_EQ(0, system("ip link set dev lo up"));

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

FIXTURE_TEARDOWN(tcp_udp_addrform)
{
	munmap(self->filter, getpagesize());
	close(self->uffd);
	close(self->fd);
	close(self->server);
}

/* Connect a socket to ::ffff:127.0.0.1. */
static void connect_socket(struct __test_metadata *_metadata,
			   FIXTURE_DATA(tcp_udp_addrform) *self, int type)
{
	struct sockaddr_in6 addr = { .sin6_family = AF_INET6 };
	socklen_t len = sizeof(addr);

	addr.sin6_addr.s6_addr32[2] = htonl(0xffff);
	addr.sin6_addr.s6_addr32[3] = htonl(INADDR_LOOPBACK);
	self->server = socket(AF_INET6, type, 0);
	ASSERT_LE(0, self->server);
	ASSERT_EQ(0, bind(self->server, (struct sockaddr *)&addr, len));
	if (type == SOCK_STREAM)
		ASSERT_EQ(0, listen(self->server, 1));
	ASSERT_EQ(0, getsockname(self->server, (struct sockaddr *)&addr, &len));
	self->fd = socket(AF_INET6, type, 0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, connect(self->fd, (struct sockaddr *)&addr, len));
}

struct call {
	ssize_t (*func)(int fd, void *arg);
	void *arg;
	int fd;
	pthread_t thread;
	ssize_t ret;
	int err;
	pid_t tid;
	bool done;
};

static ssize_t attach_filter(int fd, void *filter)
{
	struct sock_fprog prog = { .len = 1, .filter = filter };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

static ssize_t make_ipv4(int fd, void *arg)
{
	int form = AF_INET;

	return setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &form, sizeof(form));
}

static ssize_t disconnect(int fd, void *arg)
{
	struct sockaddr addr = { .sa_family = AF_UNSPEC };

	return connect(fd, &addr, sizeof(addr));
}

static ssize_t bind_ipv6(int fd, void *arg)
{
	struct sockaddr_in6 addr = {
		.sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};

	return bind(fd, (struct sockaddr *)&addr, sizeof(addr));
}

/* From ::1: the address of the socket is not one for IPv6. */
static ssize_t send_more(int fd, void *arg)
{
	struct in6_pktinfo info = { .ipi6_addr = IN6ADDR_LOOPBACK_INIT };
	struct iovec iov = { .iov_base = "a", .iov_len = 1 };
	struct sockaddr_in6 addr = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(9),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	union {
		char buf[CMSG_SPACE(sizeof(info))];
		struct cmsghdr hdr;
	} control = {
		.hdr.cmsg_level = IPPROTO_IPV6,
		.hdr.cmsg_type = IPV6_PKTINFO,
		.hdr.cmsg_len = CMSG_LEN(sizeof(info)),
	};
	struct msghdr msg = {
		.msg_name = &addr,
		.msg_namelen = sizeof(addr),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.buf),
	};

	memcpy(CMSG_DATA(&control.hdr), &info, sizeof(info));
	return sendmsg(fd, &msg, MSG_MORE);
}

static void *run_call(void *arg)
{
	struct call *call = arg;

	__atomic_store_n(&call->tid, syscall(SYS_gettid), __ATOMIC_RELEASE);
	call->ret = call->func(call->fd, call->arg);
	call->err = errno;
	__atomic_store_n(&call->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool is_done(struct call *call)
{
	return __atomic_load_n(&call->done, __ATOMIC_ACQUIRE);
}

/* Does the thread sleep uninterruptibly, as in lock_sock()? */
static bool is_waiting(struct call *call)
{
	pid_t tid = __atomic_load_n(&call->tid, __ATOMIC_ACQUIRE);
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

/* Run calls that wait for the lock, and get it in this order. setsockopt() holds
 * it while it reads the filter, whose page is missing until all of them wait.
 */
static void run_calls(struct __test_metadata *_metadata,
		      FIXTURE_DATA(tcp_udp_addrform) *self, struct call *calls,
		      int nr)
{
	struct call holder = {
		.func = attach_filter, .arg = self->filter, .fd = self->fd,
	};
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, ~0U);
	struct uffdio_copy copy = { .len = getpagesize() };
	struct uffd_msg msg;
	void *page;
	int i;

	page = calloc(1, copy.len);
	ASSERT_NE(NULL, page);
	memcpy(page, &all, sizeof(all));
	copy.src = (uintptr_t)page;
	copy.dst = (uintptr_t)self->filter;

	ASSERT_EQ(0, pthread_create(&holder.thread, NULL, run_call, &holder));
	ASSERT_EQ(sizeof(msg), read(self->uffd, &msg, sizeof(msg)));
	ASSERT_EQ(UFFD_EVENT_PAGEFAULT, msg.event);
	for (i = 0; i < nr; i++) {
		calls[i].fd = self->fd;
		ASSERT_EQ(0, pthread_create(&calls[i].thread, NULL, run_call,
					    &calls[i]));
		while (!is_done(&calls[i]) && !is_waiting(&calls[i]))
			sched_yield();
		ASSERT_FALSE(is_done(&calls[i]));
	}
	ASSERT_EQ(0, ioctl(self->uffd, UFFDIO_COPY, &copy));
	ASSERT_EQ(0, pthread_join(holder.thread, NULL));
	ASSERT_EQ(0, holder.ret);
	for (i = 0; i < nr; i++)
		ASSERT_EQ(0, pthread_join(calls[i].thread, NULL));
	free(page);
}

/* An AF_INET socket can't be bound to an IPv6 address. */
static void test_bind(struct __test_metadata *_metadata,
		      FIXTURE_DATA(tcp_udp_addrform) *self, int type)
{
	struct call calls[] = {
		{ .func = make_ipv4 },
		{ .func = disconnect },
		{ .func = bind_ipv6 },
	};

	connect_socket(_metadata, self, type);
	run_calls(_metadata, self, calls, 3);
	ASSERT_EQ(0, calls[0].ret);
	ASSERT_EQ(0, calls[1].ret);
	EXPECT_EQ(-1, calls[2].ret);
	EXPECT_EQ(EAFNOSUPPORT, calls[2].err);
}

TEST_F(tcp_udp_addrform, bind_tcp)
{
	test_bind(_metadata, self, SOCK_STREAM);
}

TEST_F(tcp_udp_addrform, bind_udp)
{
	test_bind(_metadata, self, SOCK_DGRAM);
}

/* IPv6 data can't be pending on an AF_INET socket. */
TEST_F(tcp_udp_addrform, send_more)
{
	struct call calls[] = {
		{ .func = make_ipv4 },
		{ .func = send_more },
	};

	connect_socket(_metadata, self, SOCK_DGRAM);
	run_calls(_metadata, self, calls, 2);
	ASSERT_EQ(0, calls[0].ret);
	EXPECT_EQ(-1, calls[1].ret);
	EXPECT_EQ(EAFNOSUPPORT, calls[1].err);
	EXPECT_EQ(1, send(self->fd, "b", 1, 0));
}

TEST_HARNESS_MAIN
