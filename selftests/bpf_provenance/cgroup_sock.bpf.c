// SPDX-License-Identifier: GPL-2.0
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include "cgroup_sock.h"
#include "wait.bpf.h"

#define AF_INET 2
#define AF_INET6 10
#define ETH_P_IP 0x0800
#define IPPROTO_TEST 253
#define IPPROTO_ICMPV6 58

char _license[] SEC("license") = "GPL";

/* Set by user space. */
enum bind_address address;

/* Number of connect4 runs, last result of bpf_bind(). */
int connect4_runs;
int bind_result;

SEC("cgroup/connect4")
int bind_in_connect4(struct bpf_sock_addr *ctx)
{
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = bpf_htonl(0x7f000002),
	};

	connect4_runs++;
	if (address == V4) {
		bind_result = bpf_bind(ctx, (void *)&sin, sizeof(sin));
		return 1;
	}
	if (address == V4_MAPPED) {
		sin6.sin6_addr.in6_u.u6_addr32[2] = bpf_htonl(0xffff);
		sin6.sin6_addr.in6_u.u6_addr32[3] = sin.sin_addr.s_addr;
	} else {
		sin6.sin6_addr.in6_u.u6_addr32[3] = bpf_htonl(1);
	}
	bind_result = bpf_bind(ctx, (void *)&sin6, sizeof(sin6));
	return 1;
}

/*
 * The "one IP" policy, as a user would write it: it checks the family before it uses an
 * address, and allows unknown families.
 */
struct policy policy;
struct seen seen[HOOKS];

/* Does the policy cover this socket? Must it be refused? */
#define MINE(ctx) (policy.netns && bpf_get_netns_cookie(ctx) == policy.netns)
#define DENIED(hook) (policy.deny & (1U << (hook)))

static void see(struct bpf_sock_addr *ctx, enum hook hook)
{
	struct seen *s = &seen[hook];

	__sync_fetch_and_add(&s->runs, 1);
	s->user_family = ctx->user_family;
	s->port = ctx->user_port;
	s->family = ctx->family;
	s->type = ctx->type;
	s->protocol = ctx->protocol;
}

static void see_ip6(struct bpf_sock_addr *ctx, enum hook hook)
{
	struct seen *s = &seen[hook];

	s->ip[0] = ctx->user_ip6[0];
	s->ip[1] = ctx->user_ip6[1];
	s->ip[2] = ctx->user_ip6[2];
	s->ip[3] = ctx->user_ip6[3];
}

static bool is_mapped(struct bpf_sock_addr *ctx)
{
	return !ctx->user_ip6[0] && !ctx->user_ip6[1] &&
	       ctx->user_ip6[2] == bpf_htonl(0xffff);
}

static void pin_ip6(struct bpf_sock_addr *ctx, bool mapped)
{
	ctx->user_ip6[0] = mapped ? 0 : policy.pin6[0];
	ctx->user_ip6[1] = mapped ? 0 : policy.pin6[1];
	ctx->user_ip6[2] = mapped ? bpf_htonl(0xffff) : policy.pin6[2];
	ctx->user_ip6[3] = mapped ? policy.pin4 : policy.pin6[3];
}

/* Redirects one address to another. */
static void redirect4(struct bpf_sock_addr *ctx)
{
	if (ctx->user_ip4 == policy.from4)
		ctx->user_ip4 = policy.to4;
}

static void redirect6(struct bpf_sock_addr *ctx)
{
	if (is_mapped(ctx)) {
		if (ctx->user_ip6[3] == policy.from4)
			ctx->user_ip6[3] = policy.to4;
		return;
	}
	if (ctx->user_ip6[0] != policy.from6[0] || ctx->user_ip6[1] != policy.from6[1] ||
	    ctx->user_ip6[2] != policy.from6[2] || ctx->user_ip6[3] != policy.from6[3])
		return;
	ctx->user_ip6[0] = policy.to6[0];
	ctx->user_ip6[1] = policy.to6[1];
	ctx->user_ip6[2] = policy.to6[2];
	ctx->user_ip6[3] = policy.to6[3];
}

SEC("cgroup/bind4")
int one_ip_bind4(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, BIND4);
	seen[BIND4].ip[0] = ctx->user_ip4;
	if (ctx->user_family != AF_INET)
		return 1;
	if (DENIED(BIND4) || (policy.refuse4 && ctx->user_ip4 == policy.refuse4))
		return 0;
	if (!policy.leave)
		ctx->user_ip4 = policy.pin4;
	return 1;
}

SEC("cgroup/bind6")
int one_ip_bind6(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, BIND6);
	see_ip6(ctx, BIND6);
	if (ctx->user_family != AF_INET6)
		return 1;
	if (DENIED(BIND6))
		return 0;
	pin_ip6(ctx, is_mapped(ctx));
	return 1;
}

/* Set by user space: the thread @tid waits in hold() until @go. */
struct held_thread held_thread;

static void hold(void)
{
	if ((__u32)bpf_get_current_pid_tgid() != held_thread.tid)
		return;
	held_thread.arrived = true;
	becomes_true(&held_thread.go);
}

static int post_bind(struct bpf_sock *ctx, enum hook hook)
{
	struct seen *s = &seen[hook];

	if (!MINE(ctx))
		return 1;
	__sync_fetch_and_add(&s->runs, 1);
	s->family = ctx->family;
	s->type = ctx->type;
	s->protocol = ctx->protocol;
	hold();
	return !DENIED(hook);
}

SEC("cgroup/post_bind4")
int one_ip_post_bind4(struct bpf_sock *ctx)
{
	return post_bind(ctx, POST_BIND4);
}

SEC("cgroup/post_bind6")
int one_ip_post_bind6(struct bpf_sock *ctx)
{
	return post_bind(ctx, POST_BIND6);
}

static int bind_pin4(struct bpf_sock_addr *ctx)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = policy.port,
		.sin_addr.s_addr = policy.pin4,
	};

	return bpf_bind(ctx, (void *)&sin, sizeof(sin));
}

SEC("cgroup/connect4")
int one_ip_connect4(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, CONNECT4);
	seen[CONNECT4].ip[0] = ctx->user_ip4;
	if (ctx->user_family != AF_INET)
		return 1;
	if (DENIED(CONNECT4) || (policy.refuse4 && ctx->user_ip4 == policy.refuse4))
		return 0;
	redirect4(ctx);
	if (policy.leave)
		return 1;
	bind_result = bind_pin4(ctx);
	return !bind_result && !policy.late_deny;
}

SEC("cgroup/connect6")
int one_ip_connect6(struct bpf_sock_addr *ctx)
{
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_scope_id = policy.scope };

	if (!MINE(ctx))
		return 1;
	see(ctx, CONNECT6);
	see_ip6(ctx, CONNECT6);
	if (ctx->user_family != AF_INET6)
		return 1;
	if (DENIED(CONNECT6))
		return 0;
	if (is_mapped(ctx)) {
		sin6.sin6_addr.in6_u.u6_addr32[2] = bpf_htonl(0xffff);
		sin6.sin6_addr.in6_u.u6_addr32[3] = policy.pin4;
	} else {
		__builtin_memcpy(&sin6.sin6_addr, policy.pin6, sizeof(policy.pin6));
	}
	redirect6(ctx);
	bind_result = policy.other_family ? bind_pin4(ctx) :
					    bpf_bind(ctx, (void *)&sin6, sizeof(sin6));
	return !bind_result && !policy.late_deny;
}

SEC("cgroup/sendmsg4")
int one_ip_sendmsg4(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, SENDMSG4);
	seen[SENDMSG4].ip[0] = ctx->user_ip4;
	if (ctx->user_family != AF_INET)
		return 1;
	if (DENIED(SENDMSG4))
		return 0;
	redirect4(ctx);
	ctx->msg_src_ip4 = policy.pin4;
	return 1;
}

SEC("cgroup/sendmsg6")
int one_ip_sendmsg6(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, SENDMSG6);
	see_ip6(ctx, SENDMSG6);
	if (ctx->user_family != AF_INET6)
		return 1;
	if (DENIED(SENDMSG6))
		return 0;
	redirect6(ctx);
	ctx->msg_src_ip6[0] = policy.pin6[0];
	ctx->msg_src_ip6[1] = policy.pin6[1];
	ctx->msg_src_ip6[2] = policy.pin6[2];
	ctx->msg_src_ip6[3] = policy.pin6[3];
	return 1;
}

SEC("cgroup/autobind")
int one_ip_autobind(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, AUTOBIND);
	if (ctx->user_family == AF_INET)
		seen[AUTOBIND].ip[0] = ctx->user_ip4;
	else
		see_ip6(ctx, AUTOBIND);
	if (DENIED(AUTOBIND))
		return 0;
	/* The verifier requires a bounded error. */
	if (policy.retval < 0 && policy.retval >= -4095)
		bpf_set_retval(policy.retval);
	if (policy.leave)
		return 1;
	if (ctx->user_family == AF_INET)
		ctx->user_ip4 = policy.pin4;
	else
		pin_ip6(ctx, is_mapped(ctx) || policy.mapped);
	return 1;
}

/* L2TP/IP runs no program at bind and connect. */
SEC("cgroup/sock_create")
int no_l2tp(struct bpf_sock *ctx)
{
	return !MINE(ctx) || ctx->protocol != IPPROTO_L2TP;
}

/*
 * One address per family for dual-stack sockets. Loaded if the kernel accepts user_ip4 at
 * bind6. policy.leave: set only the IPv4 address, also next to the task's IPv6 one.
 * policy.mapped: set an address of a family that the socket does not have, or a v4-mapped
 * one next to another IPv4 address.
 */
static bool is_any(struct bpf_sock_addr *ctx)
{
	return !(ctx->user_ip6[0] | ctx->user_ip6[1] | ctx->user_ip6[2] | ctx->user_ip6[3]);
}

static void pin_both(struct bpf_sock_addr *ctx)
{
	if (!is_any(ctx) && !policy.leave) {
		pin_ip6(ctx, is_mapped(ctx));
		return;
	}
	if (!policy.leave)
		pin_ip6(ctx, policy.mapped);
	ctx->user_ip4 = policy.mapped ? ~policy.pin4 : policy.pin4;
}

SEC("?cgroup/bind6")
int dual_bind6(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, BIND6);
	see_ip6(ctx, BIND6);
	if (DENIED(BIND6))
		return 0;
	/* The task's value must not be visible. */
	if (ctx->user_ip4)
		return 0;
	pin_both(ctx);
	return 1;
}

/* Sets both addresses, also of a socket that has one. */
SEC("?cgroup/autobind")
int always_both(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx) || ctx->user_family == AF_INET)
		return 1;
	pin_ip6(ctx, false);
	ctx->user_ip4 = policy.pin4;
	return 1;
}

SEC("?cgroup/autobind")
int dual_autobind(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, AUTOBIND);
	if (DENIED(AUTOBIND))
		return 0;
	if (ctx->user_family == AF_INET) {
		if (policy.mapped)
			pin_ip6(ctx, false);
		else
			ctx->user_ip4 = policy.pin4;
	} else if (is_any(ctx)) {
		pin_both(ctx);
	}
	return 1;
}

/* Read by programs of an ancestor cgroup. */
struct seen seen_above;

SEC("?cgroup/autobind")
int autobind_above(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	__sync_fetch_and_add(&seen_above.runs, 1);
	seen_above.user_family = ctx->user_family;
	if (ctx->user_family == AF_INET) {
		seen_above.ip[0] = ctx->user_ip4;
		return 1;
	}
	seen_above.ip[0] = ctx->user_ip6[0];
	seen_above.ip[1] = ctx->user_ip6[1];
	seen_above.ip[2] = ctx->user_ip6[2];
	seen_above.ip[3] = ctx->user_ip6[3];
	return 1;
}

/* Allows a port below 1024 without CAP_NET_BIND_SERVICE. */
SEC("?cgroup/bind4")
int any_port4(struct bpf_sock_addr *ctx)
{
	return MINE(ctx) ? 3 : 1;
}

SEC("?cgroup/bind6")
int any_port6(struct bpf_sock_addr *ctx)
{
	return MINE(ctx) ? 3 : 1;
}

/* Sets an IPv4 address and port for a connection over IPv6. */
SEC("?cgroup/connect6")
int bind_ipv4_in_connect6(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, CONNECT6);
	bind_result = bind_pin4(ctx);
	return 1;
}

/* Load @size bytes at @offset of the network header. */
static int load_net(struct __sk_buff *skb, __u32 offset, void *to, __u32 size)
{
	return bpf_skb_load_bytes_relative(skb, offset, to, size, BPF_HDR_START_NET);
}

/*
 * Check the source on the wire, which no other program sees. Skip packets of the peer, whose
 * sockets this process has too.
 */
SEC("cgroup_skb/egress")
int one_ip_egress(struct __sk_buff *skb)
{
	struct seen *s = &seen[EGRESS];
	__u32 ip[4] = {};
	__u8 next, type;
	bool pinned;

	if (!MINE(skb))
		return 1;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (load_net(skb, offsetof(struct iphdr, protocol), &next, 1) ||
		    load_net(skb, sizeof(struct iphdr), &type, 1))
			return 0;
		/* Other programs handle the other protocols. */
		if (next != IPPROTO_TEST && (next != IPPROTO_ICMP || type != 8))
			return 1;
		if (load_net(skb, offsetof(struct iphdr, saddr), ip, 4))
			return 0;
		pinned = ip[0] == policy.pin4;
	} else {
		/*
		 * The kernel sends neighbour discovery on a socket of this cgroup, where the
		 * network namespace was created.
		 */
		if (load_net(skb, offsetof(struct ipv6hdr, nexthdr), &next, 1) ||
		    load_net(skb, sizeof(struct ipv6hdr), &type, 1))
			return 0;
		if (next != IPPROTO_TEST && (next != IPPROTO_ICMPV6 || type != 128))
			return 1;
		if (load_net(skb, offsetof(struct ipv6hdr, saddr), ip, 16))
			return 0;
		pinned = ip[0] == policy.pin6[0] && ip[1] == policy.pin6[1] &&
			 ip[2] == policy.pin6[2] && ip[3] == policy.pin6[3];
	}
	if (pinned)
		return 1;
	__sync_fetch_and_add(&s->runs, 1);
	s->ip[0] = ip[0];
	s->ip[1] = ip[1];
	s->ip[2] = ip[2];
	s->ip[3] = ip[3];
	return !DENIED(EGRESS);
}

struct put_port put_port;

SEC("fentry/inet_put_port")
int BPF_PROG(see_put_port, struct sock *sk)
{
	struct sock_common *c = &sk->__sk_common;

	if (bpf_get_current_pid_tgid() >> 32 != put_port.tgid)
		return 0;
	put_port.runs++;
	if (c->skc_family == AF_INET) {
		put_port.ip[0] = c->skc_rcv_saddr;
		return 0;
	}
	__builtin_memcpy(put_port.ip, &c->skc_v6_rcv_saddr, sizeof(put_port.ip));
	BPF_CORE_READ_INTO(&put_port.bucket, (struct inet_connection_sock *)sk, icsk_bind2_hash,
			   v6_rcv_saddr);
	return 0;
}

/* The requests of SYNs over IPv6, by address: their memory is used again. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, __u64);
	__type(value, __u8);
} syn_requests SEC(".maps");

struct cookie_child cookie_child;

SEC("?fentry/tcp_v6_send_synack")
int BPF_PROG(see_synack, const struct sock *sk, struct dst_entry *dst, struct flowi *fl,
	     struct request_sock *req)
{
	__u64 key = (__u64)req;
	__u8 value = 1;

	if (bpf_map_update_elem(&syn_requests, &key, &value, BPF_ANY))
		__sync_fetch_and_add(&cookie_child.lost, 1);
	return 0;
}

SEC("?fexit/tcp_get_cookie_sock")
int BPF_PROG(see_cookie, struct sock *sk, struct sk_buff *skb, struct request_sock *req,
	     struct dst_entry *dst, struct sock *child)
{
	struct cookie_child *c = &cookie_child;
	__u64 key = (__u64)req;

	if (!child || !c->port || sk->__sk_common.skc_num != c->port)
		return 0;
	c->was_syn = !!bpf_map_lookup_elem(&syn_requests, &key);
	c->rcv_saddr = child->__sk_common.skc_rcv_saddr;
	c->daddr = child->__sk_common.skc_daddr;
	c->runs++;
	return 0;
}

struct udp_lookup udp_lookup;

SEC("?sk_lookup")
int drop_lookup(struct bpf_sk_lookup *ctx)
{
	if (ctx->protocol != IPPROTO_UDP || ctx->local_port != udp_lookup.port)
		return SK_PASS;
	__sync_fetch_and_add(&udp_lookup.runs, 1);
	return SK_DROP;
}

SEC("?fentry/udp_sendmsg")
int BPF_PROG(hold_udp_sendmsg)
{
	hold();
	return 0;
}

/* A thread that has seen a port is about to lock the socket. */
SEC("?fentry/udp_connect")
int BPF_PROG(hold_udp_connect)
{
	hold();
	return 0;
}

/* A thread whose programs have run is about to lock the socket. */
SEC("?fentry/__inet6_bind")
int BPF_PROG(hold_inet6_bind)
{
	hold();
	return 0;
}

SEC("?fentry/udpv6_connect")
int BPF_PROG(hold_udpv6_connect)
{
	hold();
	return 0;
}

SEC("?fentry/ip6_sk_dst_lookup_flow")
int BPF_PROG(hold_dst_lookup)
{
	hold();
	return 0;
}

struct joining joining;

SEC("?fentry/reuseport_add_sock")
int BPF_PROG(see_join, struct sock *sk)
{
	if ((__u32)bpf_get_current_pid_tgid() != joining.tid)
		return 0;
	joining.port |= sk->__sk_common.skc_num;
	joining.runs++;
	return 0;
}

/*
 * Other uses of these hooks, following their documentation: deny bind() by family, transport
 * and port, like systemd's SocketBindDeny=; translate TCP and UDP service addresses, like a
 * socket load balancer.
 */
struct bind_rule bind_rule;

static int bind_rules(struct bpf_sock_addr *ctx)
{
	__u32 port = bpf_ntohs(ctx->user_port);

	if (!MINE(ctx) || !bind_rule.active)
		return 1;
	if (bind_rule.family && bind_rule.family != ctx->user_family)
		return 1;
	if (bind_rule.protocol && bind_rule.protocol != ctx->protocol)
		return 1;
	return bind_rule.last && (port < bind_rule.first || port > bind_rule.last);
}

SEC("cgroup/bind4")
int bind_rules4(struct bpf_sock_addr *ctx)
{
	return bind_rules(ctx);
}

SEC("cgroup/bind6")
int bind_rules6(struct bpf_sock_addr *ctx)
{
	return bind_rules(ctx);
}

/* The same, loaded without BPF_F_ALL_PROTOCOLS */
SEC("cgroup/bind4")
int old_bind_rules4(struct bpf_sock_addr *ctx)
{
	return bind_rules(ctx);
}

SEC("cgroup/bind6")
int old_bind_rules6(struct bpf_sock_addr *ctx)
{
	return bind_rules(ctx);
}

SEC("cgroup/post_bind4")
int old_post_bind4(struct bpf_sock *ctx)
{
	return !MINE(ctx) || !bind_rule.post_bind;
}

SEC("cgroup/post_bind6")
int old_post_bind6(struct bpf_sock *ctx)
{
	return !MINE(ctx) || !bind_rule.post_bind;
}

SEC("cgroup/connect4")
int balance4(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, CONNECT4);
	if (ctx->protocol == IPPROTO_TCP || ctx->protocol == IPPROTO_UDP)
		redirect4(ctx);
	return 1;
}

SEC("cgroup/connect4")
int old_balance_by_type4(struct bpf_sock_addr *ctx)
{
	if (!MINE(ctx))
		return 1;
	see(ctx, CONNECT4);
	if (ctx->type == SOCK_STREAM || ctx->type == SOCK_DGRAM)
		redirect4(ctx);
	return 1;
}
