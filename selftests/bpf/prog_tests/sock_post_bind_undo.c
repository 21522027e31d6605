// SPDX-License-Identifier: GPL-2.0

#include "test_progs.h"
#include "cgroup_helpers.h"
#include "network_helpers.h"
#include "sock_post_bind_undo.skel.h"

#define TEST_NS "sock_post_bind_undo"

static const int zero, one = 1;

static int bind_to(int fd, int family, const char *ip)
{
	struct sockaddr_storage addr;
	socklen_t len;

	if (make_sockaddr(family, ip, 0, &addr, &len))
		return -1;
	return bind(fd, (struct sockaddr *)&addr, len);
}

static void check_name(int fd, int family, const char *ip)
{
	char name[INET6_ADDRSTRLEN] = "";
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (!ASSERT_OK(getsockname(fd, (struct sockaddr *)&addr, &len),
		       "getsockname"))
		return;
	inet_ntop(family, family == AF_INET ?
		  (void *)&((struct sockaddr_in *)&addr)->sin_addr :
		  (void *)&((struct sockaddr_in6 *)&addr)->sin6_addr,
		  name, sizeof(name));
	ASSERT_STREQ(name, ip, "name");
}

/* inet_put_port() uses the address to find the bucket of the port. */
static void test_put_port(struct sock_post_bind_undo *skel, int family,
			  const char *ip)
{
	char seen[INET6_ADDRSTRLEN] = "";
	int fd;

	fd = socket(family, SOCK_STREAM, 0);
	if (!ASSERT_OK_FD(fd, "socket"))
		return;

	skel->bss->calls = 0;
	skel->bss->tgid = getpid();
	ASSERT_EQ(bind_to(fd, family, ip), -1, "bind");
	skel->bss->tgid = 0;
	ASSERT_EQ(errno, EPERM, "errno");

	if (ASSERT_EQ(skel->bss->calls, 1, "calls")) {
		inet_ntop(family, family == AF_INET ?
			  (void *)&skel->bss->saddr4 :
			  (void *)&skel->bss->saddr6, seen, sizeof(seen));
		ASSERT_STREQ(seen, ip, "address in inet_put_port()");
	}
	close(fd);
}

/* The first bind() leaves the port for later, so that no program runs. */
static void test_keep_addr(int family, const char *first, const char *second)
{
	int fd;

	fd = socket(family, SOCK_STREAM, 0);
	if (!ASSERT_OK_FD(fd, "socket"))
		return;

	if (!ASSERT_OK(setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &one,
				  sizeof(one)), "set no_port"))
		goto out;
	if (!ASSERT_OK(bind_to(fd, family, first), "first bind"))
		goto out;
	if (!ASSERT_OK(setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &zero,
				  sizeof(zero)), "clear no_port"))
		goto out;
	ASSERT_EQ(bind_to(fd, family, second), -1, "second bind");
	ASSERT_EQ(errno, EPERM, "errno");
	check_name(fd, family, first);
out:
	close(fd);
}

void test_sock_post_bind_undo(void)
{
	struct sock_post_bind_undo *skel = NULL;
	struct netns_obj *ns = NULL;
	int cgroup_fd;

	cgroup_fd = test__join_cgroup("/sock_post_bind_undo");
	if (!ASSERT_OK_FD(cgroup_fd, "join_cgroup"))
		return;

	ns = netns_new(TEST_NS, true);
	if (!ASSERT_OK_PTR(ns, "netns_new"))
		goto out;
	SYS(out, "ip addr add dev lo 2001:db8::1/128 nodad");
	SYS(out, "ip addr add dev lo 2001:db8::2/128 nodad");

	skel = sock_post_bind_undo__open_and_load();
	if (!ASSERT_OK_PTR(skel, "open_and_load"))
		goto out;

	skel->links.refuse4 =
		bpf_program__attach_cgroup(skel->progs.refuse4, cgroup_fd);
	if (!ASSERT_OK_PTR(skel->links.refuse4, "attach refuse4"))
		goto out;
	skel->links.refuse6 =
		bpf_program__attach_cgroup(skel->progs.refuse6, cgroup_fd);
	if (!ASSERT_OK_PTR(skel->links.refuse6, "attach refuse6"))
		goto out;
	skel->links.put_port = bpf_program__attach(skel->progs.put_port);
	if (!ASSERT_OK_PTR(skel->links.put_port, "attach put_port"))
		goto out;

	if (test__start_subtest("put_port4"))
		test_put_port(skel, AF_INET, "127.0.0.2");
	if (test__start_subtest("put_port6"))
		test_put_port(skel, AF_INET6, "2001:db8::1");
	if (test__start_subtest("keep_addr4"))
		test_keep_addr(AF_INET, "127.0.0.2", "127.0.0.3");
	if (test__start_subtest("keep_addr6"))
		test_keep_addr(AF_INET6, "2001:db8::1", "2001:db8::2");

out:
	sock_post_bind_undo__destroy(skel);
	netns_free(ns);
	close(cgroup_fd);
}
