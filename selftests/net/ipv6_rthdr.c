// SPDX-License-Identifier: GPL-2.0
/* Routing headers, in setsockopt() and in a message, need CAP_NET_RAW. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <netinet/in.h>
#include <linux/capability.h>
#include <linux/ipv6.h>

#include "kselftest_harness.h"

/* The layout of type 2, and of type 4 with one segment */
struct header {
	struct ipv6_rt_hdr hdr;
	__u32 zero;
	struct in6_addr addr;
};

static int set_net_raw(bool on)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &hdr, data))
		return -errno;
	if (on)
		data[0].effective |= 1U << CAP_NET_RAW;
	else
		data[0].effective &= ~(1U << CAP_NET_RAW);
	return syscall(SYS_capset, &hdr, data) ? -errno : 0;
}

FIXTURE(rthdr)
{
	struct header header;
	int fd;
};

FIXTURE_SETUP(rthdr)
{
	if (unshare(CLONE_NEWNET))
		SKIP(return, "needs CAP_SYS_ADMIN for a network namespace");
	ASSERT_EQ(0, system("ip link set dev lo up"));
	self->header.hdr.hdrlen = 2;
	self->header.addr = in6addr_loopback;
	self->fd = socket(AF_INET6, SOCK_DGRAM, 0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(rthdr)
{
	close(self->fd);
}

static int set(FIXTURE_DATA(rthdr) *self, size_t len)
{
	return setsockopt(self->fd, IPPROTO_IPV6, IPV6_RTHDR, &self->header, len) ? -errno : 0;
}

TEST_F(rthdr, setsockopt)
{
	size_t len = sizeof(self->header);

	self->header.hdr.type = IPV6_SRCRT_TYPE_4;
	ASSERT_EQ(0, set(self, len));
	ASSERT_EQ(0, set(self, 0));
	ASSERT_EQ(0, set_net_raw(false));
	EXPECT_EQ(-EPERM, set(self, len));
	/* Without a header, nothing is routed. */
	EXPECT_EQ(0, set(self, 0));
	/* A wrong header is not a question of privilege. */
	self->header.hdr.hdrlen = 1;
	EXPECT_EQ(-EINVAL, set(self, len));
	ASSERT_EQ(0, set_net_raw(true));
}

TEST_F(rthdr, message)
{
	char control[CMSG_SPACE(sizeof(self->header))] = {};
	struct iovec iov = { .iov_base = "x", .iov_len = 1 };
	struct sockaddr_in6 to = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(9),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	struct msghdr msg = {
		.msg_name = &to,
		.msg_namelen = sizeof(to),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	int ret;

	self->header.hdr.type = IPV6_SRCRT_TYPE_2;
	self->header.hdr.segments_left = 1;
	cmsg->cmsg_level = IPPROTO_IPV6;
	cmsg->cmsg_type = IPV6_RTHDR;
	cmsg->cmsg_len = CMSG_LEN(sizeof(self->header));
	memcpy(CMSG_DATA(cmsg), &self->header, sizeof(self->header));

	ret = sendmsg(self->fd, &msg, 0);
	if (ret < 0 && errno == EINVAL)
		SKIP(return, "needs CONFIG_IPV6_MIP6");
	ASSERT_EQ(1, ret);
	/* The same control message, for all packets of the socket. */
	ASSERT_EQ(0, setsockopt(self->fd, IPPROTO_IPV6, IPV6_2292PKTOPTIONS,
				control, sizeof(control)));
	ASSERT_EQ(0, setsockopt(self->fd, IPPROTO_IPV6, IPV6_2292PKTOPTIONS,
				NULL, 0));
	ASSERT_EQ(0, set_net_raw(false));
	EXPECT_EQ(-1, sendmsg(self->fd, &msg, 0));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-1, setsockopt(self->fd, IPPROTO_IPV6, IPV6_2292PKTOPTIONS,
				 control, sizeof(control)));
	EXPECT_EQ(EPERM, errno);
	ASSERT_EQ(0, set_net_raw(true));
}

TEST_HARNESS_MAIN
