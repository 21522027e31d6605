// SPDX-License-Identifier: GPL-2.0
/*
 * The hooks that restrict a cgroup to its addresses.
 *
 * Each reads the policy once, through a map in a map, so replacing it is a single update:
 * a hook uses either the old or the new policy as a whole. Without a policy, hooks refuse.
 */
#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "confine.h"

#define AF_INET		2
#define AF_INET6	10
#define SOCK_DGRAM	2
#define SOCK_RAW	3

#define REFUSE		0
#define ALLOW		1

char _license[] SEC("license") = "GPL";

/* AF_INET6 sockets can have an address of each family: user_ip4 at bind6 and autobind. */
const volatile bool has_dual;

/* Programs at bind and connect run for SCTP, raw and ping sockets. */
const volatile bool has_all_protocols;

/* value_size: clang 19 emits no BTF for a struct that only an inner map uses. */
struct policy_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__uint(value_size, sizeof(struct policy));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct policy_map);
} policies SEC(".maps");

static __always_inline const struct policy *get_policy(void)
{
	__u32 zero = 0;
	void *map = bpf_map_lookup_elem(&policies, &zero);

	return map ? bpf_map_lookup_elem(map, &zero) : NULL;
}

static __always_inline bool is_localhost4(__u32 ip)
{
	return (bpf_ntohl(ip) >> 24) == 127;
}

/* Four words of an address, on the stack: contexts are read a word at a time. */
struct words {
	__u32 w[4];
};

static __always_inline bool is_mapped(const struct words *a)
{
	return !a->w[0] && !a->w[1] && a->w[2] == bpf_htonl(0xffff);
}

static __always_inline bool is_any(const struct words *a)
{
	return !a->w[0] && !a->w[1] && !a->w[2] && !a->w[3];
}

static __always_inline bool is_localhost6(const struct words *a)
{
	return !a->w[0] && !a->w[1] && !a->w[2] && a->w[3] == bpf_htonl(1);
}

static __always_inline bool is_localhost(const struct words *a)
{
	return is_mapped(a) ? is_localhost4(a->w[3]) : is_localhost6(a);
}

static __always_inline bool is_own6(const struct policy *p, const struct words *a)
{
	return p->has_ip6 && a->w[0] == p->ip6[0] && a->w[1] == p->ip6[1] &&
	       a->w[2] == p->ip6[2] && a->w[3] == p->ip6[3];
}

static __always_inline bool is_own(const struct policy *p, const struct words *a)
{
	return p && (is_mapped(a) ? a->w[3] == p->ip4 : is_own6(p, a));
}

/* Is it from the previous policy, set by a hook that ran before the update? */
static __always_inline bool was_own4(const struct policy *p, __u32 ip)
{
	return ip && ip == p->old_ip4;
}

static __always_inline bool was_own6(const struct policy *p, const struct words *a)
{
	return !is_any(a) && a->w[0] == p->old_ip6[0] && a->w[1] == p->old_ip6[1] &&
	       a->w[2] == p->old_ip6[2] && a->w[3] == p->old_ip6[3];
}

static __always_inline struct words own6(const struct policy *p)
{
	return (struct words){ { p->ip6[0], p->ip6[1], p->ip6[2], p->ip6[3] } };
}

static __always_inline struct words mapped(__u32 ip4)
{
	return (struct words){ { 0, 0, bpf_htonl(0xffff), ip4 } };
}

static __always_inline struct words user_ip6(const struct bpf_sock_addr *ctx)
{
	return (struct words){ { ctx->user_ip6[0], ctx->user_ip6[1],
				 ctx->user_ip6[2], ctx->user_ip6[3] } };
}

static __always_inline void set_user_ip6(struct bpf_sock_addr *ctx, const struct words *a)
{
	ctx->user_ip6[0] = a->w[0];
	ctx->user_ip6[1] = a->w[1];
	ctx->user_ip6[2] = a->w[2];
	ctx->user_ip6[3] = a->w[3];
}

/* Maps a socket and a redirected destination to the original one. In network byte order. */
struct reverse_key {
	__u64 cookie;
	__u32 ip[4];
	__u32 port;
	__u32 pad;
};

struct reverse_value {
	__u32 ip[4];
	__u32 port;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct reverse_key);
	__type(value, struct reverse_value);
} reverse SEC(".maps");

static __always_inline struct reverse_key reverse_key(struct bpf_sock_addr *ctx,
						      const struct words *ip, __u32 port)
{
	return (struct reverse_key){
		.cookie = bpf_get_socket_cookie(ctx),
		.ip = { ip->w[0], ip->w[1], ip->w[2], ip->w[3] },
		.port = port,
	};
}

static __always_inline void remember(struct bpf_sock_addr *ctx, const struct words *to,
				     __u32 to_port, const struct words *was, __u32 port)
{
	struct reverse_key key = reverse_key(ctx, to, to_port);
	struct reverse_value value = {
		.ip = { was->w[0], was->w[1], was->w[2], was->w[3] },
		.port = port,
	};

	bpf_map_update_elem(&reverse, &key, &value, BPF_ANY);
}

/* Not redirected: neither are the answers. */
static __always_inline void forget(struct bpf_sock_addr *ctx, const struct words *to, __u32 port)
{
	struct reverse_key key = reverse_key(ctx, to, port);

	if (bpf_map_lookup_elem(&reverse, &key))
		bpf_map_delete_elem(&reverse, &key);
}

/*
 * Sockets whose source local_source() set. It stays when the socket is disconnected, or when
 * connect() fails after that: see ingress().
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u8);
} local SEC(".maps");

/* Is it exempt by --allow-localhost? */
static __always_inline bool is_allowed(const struct policy *p, const struct words *a, __u32 port)
{
	__u32 i;

	for (i = 0; i < MAX_ALLOWED; i++) {
		const struct redirect *r = &p->allow[i];

		if (i >= p->allowed)
			break;
		if (r->ip[0] == a->w[0] && r->ip[1] == a->w[1] && r->ip[2] == a->w[2] &&
		    r->ip[3] == a->w[3] && (!r->from_port || r->from_port == port))
			return true;
	}
	return false;
}

/*
 * The destination of traffic for localhost:@port: that of --map for this family, else the
 * cgroup's own address. Returns the port.
 */
static __always_inline __u16 localhost_is(const struct policy *p, bool ip4, __u16 port,
					  struct words *to)
{
	__u32 i;

	*to = ip4 ? mapped(p->ip4) : own6(p);
	for (i = 0; i < MAX_REDIRECTS; i++) {
		const struct redirect *r = &p->redirect[i];
		struct words ip = { { r->ip[0], r->ip[1], r->ip[2], r->ip[3] } };

		if (i >= p->redirects)
			break;
		if (r->from_port != port || is_mapped(&ip) != ip4)
			continue;
		*to = ip;
		return r->to_port;
	}
	return port;
}

/*
 * As a destination, "any" is localhost, too. Returns true if it is exempt by
 * --allow-localhost.
 */
static __always_inline bool redirect4(const struct policy *p, struct bpf_sock_addr *ctx)
{
	struct words was = mapped(ctx->user_ip4), to;
	__u32 port = ctx->user_port, to_port;

	if (!was.w[3])
		was = mapped(bpf_htonl(INADDR_LOOPBACK));
	if (!is_localhost4(was.w[3])) {
		forget(ctx, &was, port);
		return false;
	}
	if (is_allowed(p, &was, port))
		return true;
	to_port = localhost_is(p, true, port, &to);
	ctx->user_port = to_port;
	ctx->user_ip4 = to.w[3];
	remember(ctx, &to, to_port, &was, port);
	return false;
}

static __always_inline bool redirect6(const struct policy *p, struct bpf_sock_addr *ctx)
{
	struct words was = user_ip6(ctx), to;
	__u32 port = ctx->user_port, to_port;
	bool ip4 = is_mapped(&was);

	if (ip4 && !was.w[3])
		was.w[3] = bpf_htonl(INADDR_LOOPBACK);
	if (is_any(&was))
		was.w[3] = bpf_htonl(1);
	if (ip4 ? !is_localhost4(was.w[3]) : !is_localhost6(&was)) {
		forget(ctx, &was, port);
		return false;
	}
	if (is_allowed(p, &was, port))
		return true;
	to_port = localhost_is(p, ip4, port, &to);
	ctx->user_port = to_port;
	set_user_ip6(ctx, &to);
	remember(ctx, &to, to_port, &was, port);
	return false;
}

/*
 * Is it the peer of a connected socket? Its connect() was redirected. Control messages make
 * send() run the hooks of sendmsg(), too.
 */
static __always_inline bool is_peer4(const struct bpf_sock_addr *ctx)
{
	const struct bpf_sock *sk = ctx->sk;

	return sk && sk->state == BPF_TCP_ESTABLISHED && sk->dst_ip4 == ctx->user_ip4 &&
	       sk->dst_port == (__u16)ctx->user_port;
}

static __always_inline bool is_peer6(const struct bpf_sock_addr *ctx)
{
	const struct bpf_sock *sk = ctx->sk;

	return sk && sk->state == BPF_TCP_ESTABLISHED && sk->dst_ip6[0] == ctx->user_ip6[0] &&
	       sk->dst_ip6[1] == ctx->user_ip6[1] && sk->dst_ip6[2] == ctx->user_ip6[2] &&
	       sk->dst_ip6[3] == ctx->user_ip6[3] && sk->dst_port == (__u16)ctx->user_port;
}

/* Report the destination that the task used as the source of an answer, and as peer. */
static __always_inline void name4(struct bpf_sock_addr *ctx)
{
	struct words from = mapped(ctx->user_ip4);
	struct reverse_key key = reverse_key(ctx, &from, ctx->user_port);
	struct reverse_value *was = bpf_map_lookup_elem(&reverse, &key);

	if (was) {
		ctx->user_ip4 = was->ip[3];
		ctx->user_port = was->port;
	}
}

static __always_inline void name6(struct bpf_sock_addr *ctx)
{
	struct words from = user_ip6(ctx);
	struct reverse_key key = reverse_key(ctx, &from, ctx->user_port);
	struct reverse_value *was = bpf_map_lookup_elem(&reverse, &key);

	if (was) {
		from = (struct words){ { was->ip[0], was->ip[1], was->ip[2], was->ip[3] } };
		set_user_ip6(ctx, &from);
		ctx->user_port = was->port;
	}
}

/*
 * For a family that the policy has no address of: as on a host without it. musl's getaddrinfo()
 * fails if connect() has another error, such as EPERM.
 */
static __always_inline int refuse_with(int err)
{
	bpf_set_retval(err);
	return REFUSE;
}

/*
 * The system call returns EADDRNOTAVAIL if the host does not have the policy's address, and
 * EPERM in all other cases.
 */
static __always_inline int bind_result(int err)
{
	if (!err)
		return ALLOW;
	if (err == -EADDRNOTAVAIL)
		bpf_set_retval(-EADDRNOTAVAIL);
	return REFUSE;
}

/*
 * Check a requested local address: "any" and localhost become the cgroup's own, others are
 * refused.
 */
static __always_inline int local4(const struct policy *p, struct bpf_sock_addr *ctx)
{
	__u32 ip = ctx->user_ip4;

	if (!p->has_ip4)
		return refuse_with(-EADDRNOTAVAIL);
	if (ip && ip != p->ip4 && !is_localhost4(ip))
		return REFUSE;
	ctx->user_ip4 = p->ip4;
	return ALLOW;
}

/*
 * A socket that is bound to any address gets one of each family. If the kernel supports only
 * one, it is the IPv6 address. Without an IPv6 address the socket is bound to the IPv4 one.
 */
static __always_inline int local6(const struct policy *p, struct bpf_sock_addr *ctx)
{
	struct words a = user_ip6(ctx), to;

	if (is_mapped(&a) || (is_any(&a) && !p->has_ip6)) {
		if (!p->has_ip4)
			return refuse_with(-EADDRNOTAVAIL);
		if (a.w[3] && a.w[3] != p->ip4 && !is_localhost4(a.w[3]))
			return REFUSE;
		to = mapped(p->ip4);
	} else {
		if (!p->has_ip6)
			return refuse_with(-EADDRNOTAVAIL);
		if (!is_any(&a) && !is_localhost6(&a) && !is_own6(p, &a))
			return REFUSE;
		to = own6(p);
		/* has_dual is constant: other kernels would refuse the access. */
		if (has_dual && p->has_ip4 && is_any(&a))
			ctx->user_ip4 = p->ip4;
	}
	set_user_ip6(ctx, &to);
	return ALLOW;
}

/* src_port of a raw socket is its protocol, and it may be bound again at any time. */
static __always_inline bool is_bound(const struct bpf_sock_addr *ctx)
{
	return ctx->sk->src_port && ctx->type != SOCK_RAW;
}

static __always_inline struct words bound6(const struct bpf_sock *sk)
{
	return (struct words){ { sk->src_ip6[0], sk->src_ip6[1], sk->src_ip6[2], sk->src_ip6[3] } };
}

/* AF_INET6 sockets have an IPv4 address in both places, except those of SCTP. */
static __always_inline bool is_bound_to4(const struct bpf_sock_addr *ctx, __u32 ip)
{
	struct words a;

	if (ctx->sk->src_ip4 == ip)
		return true;
	if (ctx->family != AF_INET6)
		return false;
	a = bound6(ctx->sk);
	return is_mapped(&a) && a.w[3] == ip;
}

/* The exemption can name a port, which a ping or raw socket does not have. */
static __always_inline bool has_ports(const struct bpf_sock_addr *ctx)
{
	return ctx->type != SOCK_RAW && ctx->protocol != IPPROTO_ICMP &&
	       ctx->protocol != IPPROTO_ICMPV6;
}

/*
 * A bound socket was bound through these hooks, or before they were attached; in the latter
 * case it may not connect.
 */
static __always_inline int source4(const struct policy *p, struct bpf_sock_addr *ctx,
				   bool from_mapped)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_addr.s_addr = p->ip4 };
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };

	if (!p->has_ip4 || !ctx->sk)
		return REFUSE;
	if (is_bound(ctx))
		return is_bound_to4(ctx, p->ip4) ? ALLOW : REFUSE;
	if (!from_mapped)
		return bind_result(bpf_bind(ctx, (void *)&sin, sizeof(sin)));
	sin6.sin6_addr.s6_addr32[2] = bpf_htonl(0xffff);
	sin6.sin6_addr.s6_addr32[3] = p->ip4;
	return bind_result(bpf_bind(ctx, (void *)&sin6, sizeof(sin6)));
}

static __always_inline int source6(const struct policy *p, struct bpf_sock_addr *ctx)
{
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };
	struct words bound;

	if (!p->has_ip6 || !ctx->sk)
		return REFUSE;
	if (is_bound(ctx)) {
		bound = bound6(ctx->sk);
		return is_own6(p, &bound) ? ALLOW : REFUSE;
	}
	sin6.sin6_addr.s6_addr32[0] = p->ip6[0];
	sin6.sin6_addr.s6_addr32[1] = p->ip6[1];
	sin6.sin6_addr.s6_addr32[2] = p->ip6[2];
	sin6.sin6_addr.s6_addr32[3] = p->ip6[3];
	return bind_result(bpf_bind(ctx, (void *)&sin6, sizeof(sin6)));
}

/*
 * Source for a destination that is exempt by --allow-localhost: localhost, which servers may
 * require. A socket that has the cgroup's own address keeps it, even if it has no port yet.
 * Datagram sockets are locked for the hook, for the port, and to connect, so another thread may be
 * about to connect it elsewhere. Any other address is from before the policy.
 */
static __always_inline int local_source(const struct policy *p, struct bpf_sock_addr *ctx,
					bool is_ip4, bool from_mapped)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = bpf_htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };
	struct words a;

	if (!ctx->sk)
		return REFUSE;
	a = bound6(ctx->sk);
	if (is_ip4 ? is_bound_to4(ctx, p->ip4) : is_own6(p, &a))
		return ALLOW;
	/* As is one that another thread connected to both families in turn. */
	if (ctx->family == AF_INET6 && !is_bound(ctx) && p->has_ip4 && p->has_ip6 &&
	    (is_ip4 ? is_own6(p, &a) : is_bound_to4(ctx, p->ip4)))
		return is_ip4 ? source4(p, ctx, from_mapped) : source6(p, ctx);
	if (is_bound(ctx)) {
		if (ctx->family == AF_INET)
			a = mapped(ctx->sk->src_ip4);
		return is_localhost(&a) ? ALLOW : REFUSE;
	}
	if (ctx->type == SOCK_DGRAM &&
	    !bpf_sk_storage_get(&local, ctx->sk, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return REFUSE;
	if (is_ip4 && !from_mapped)
		return bind_result(bpf_bind(ctx, (void *)&sin, sizeof(sin)));
	sin6.sin6_addr.s6_addr32[2] = is_ip4 ? bpf_htonl(0xffff) : 0;
	sin6.sin6_addr.s6_addr32[3] = bpf_htonl(is_ip4 ? INADDR_LOOPBACK : 1);
	return bind_result(bpf_bind(ctx, (void *)&sin6, sizeof(sin6)));
}

/*
 * Refuse protocols for which no other hook runs. L2TP over IP needs no capability to send from
 * any address, and neither do SCTP and ping sockets: without has_all_protocols, these can be
 * bound to any address, too.
 */
SEC("cgroup/sock_create")
int create(struct bpf_sock *ctx)
{
	if (ctx->type == SOCK_RAW)
		return has_all_protocols;
	switch (ctx->protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_MPTCP:
	case IPPROTO_SMC:
		return ALLOW;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
	case IPPROTO_SCTP:
		return has_all_protocols;
	}
	return REFUSE;
}

/*
 * user_family is not checked: older kernels pass the family that the task wrote to bind4
 * and sendmsg4, which can be AF_UNSPEC.
 */
SEC("cgroup/bind4")
int bind4(struct bpf_sock_addr *ctx)
{
	const struct policy *p = get_policy();

	return p ? local4(p, ctx) : REFUSE;
}

SEC("cgroup/bind6")
int bind6(struct bpf_sock_addr *ctx)
{
	const struct policy *p = get_policy();

	return p ? local6(p, ctx) : REFUSE;
}

/*
 * bind() never sets a localhost address: local_source() did. A TCP socket may use it to
 * connect, but not to listen after the connection has failed. SCTP runs autobind to listen
 * only. ingress() restricts the others.
 */
static __always_inline int local_autobind(const struct policy *p, const struct bpf_sock_addr *ctx)
{
	if (!p->allowed)
		return REFUSE;
	if (ctx->type == SOCK_DGRAM)
		return ALLOW;
	return ctx->protocol == IPPROTO_TCP && ctx->sk && ctx->sk->state == BPF_TCP_SYN_SENT;
}

/* Sockets that the kernel binds without bind(). */
SEC("cgroup/autobind")
int autobind(struct bpf_sock_addr *ctx)
{
	const struct policy *p = get_policy();
	struct words a;

	if (!p)
		return REFUSE;
	if (ctx->user_family == AF_INET) {
		if (is_localhost4(ctx->user_ip4) && ctx->user_ip4 != p->ip4)
			return local_autobind(p, ctx);
		return was_own4(p, ctx->user_ip4) ? ALLOW : local4(p, ctx);
	}
	a = user_ip6(ctx);
	if (is_mapped(&a) ? is_localhost4(a.w[3]) && a.w[3] != p->ip4 :
			    is_localhost6(&a) && !is_own6(p, &a))
		return local_autobind(p, ctx);
	if (is_mapped(&a) ? was_own4(p, a.w[3]) : was_own6(p, &a))
		return ALLOW;
	return local6(p, ctx);
}

/* Check the resulting address, which programs of other owners may have changed. */
SEC("cgroup/post_bind4")
int post_bind4(struct bpf_sock *ctx)
{
	const struct policy *p = get_policy();

	if (!p)
		return REFUSE;
	return (p->has_ip4 && ctx->src_ip4 == p->ip4) || was_own4(p, ctx->src_ip4);
}

SEC("cgroup/post_bind6")
int post_bind6(struct bpf_sock *ctx)
{
	struct words a = { { ctx->src_ip6[0], ctx->src_ip6[1],
			     ctx->src_ip6[2], ctx->src_ip6[3] } };
	const struct policy *p = get_policy();

	if (!p)
		return REFUSE;
	if (is_mapped(&a))
		return (p->has_ip4 && a.w[3] == p->ip4) || was_own4(p, a.w[3]);
	return is_own6(p, &a) || was_own6(p, &a);
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *ctx)
{
	const struct policy *p = get_policy();

	if (!p)
		return REFUSE;
	if (!p->has_ip4)
		return refuse_with(-ENETUNREACH);
	if (redirect4(p, ctx) && has_ports(ctx))
		return local_source(p, ctx, true, false);
	return source4(p, ctx, false);
}

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *ctx)
{
	const struct policy *p = get_policy();
	struct words a = user_ip6(ctx);
	bool ip4 = is_mapped(&a);

	if (!p)
		return REFUSE;
	if (ip4 ? !p->has_ip4 : !p->has_ip6)
		return refuse_with(-ENETUNREACH);
	if (redirect6(p, ctx) && has_ports(ctx))
		return local_source(p, ctx, ip4, true);
	return ip4 ? source4(p, ctx, true) : source6(p, ctx);
}

/*
 * Is it the source that local_source() set? A socket that is connected to an exempt address
 * can also send to other destinations.
 */
static __always_inline bool is_local_source4(const struct policy *p,
					     const struct bpf_sock_addr *ctx, __u32 src)
{
	return p->allowed && src == bpf_htonl(INADDR_LOOPBACK) && ctx->sk &&
	       is_bound_to4(ctx, src);
}

static __always_inline bool is_local_source6(const struct policy *p,
					     const struct bpf_sock_addr *ctx,
					     const struct words *src)
{
	struct words bound;

	if (!p->allowed || !is_localhost6(src) || !ctx->sk)
		return false;
	bound = bound6(ctx->sk);
	return is_localhost6(&bound);
}

/*
 * The source must be the cgroup's address, and is set if there is none. A socket that is
 * bound to the address of the previous policy can still send from there. The source of
 * local_source() is kept for exempt destinations only.
 */
SEC("cgroup/sendmsg4")
int sendmsg4(struct bpf_sock_addr *ctx)
{
	const struct policy *p = get_policy();
	__u32 src = ctx->msg_src_ip4;
	bool local, own;

	if (!p)
		return REFUSE;
	if (!p->has_ip4)
		return refuse_with(-ENETUNREACH);
	own = !src || src == p->ip4;
	local = !own && is_local_source4(p, ctx, src);
	if (!own && !local && (!was_own4(p, src) || !ctx->sk || !is_bound_to4(ctx, src)))
		return REFUSE;
	if (!is_peer4(ctx) && !redirect4(p, ctx) && local)
		own = true;
	if (own)
		ctx->msg_src_ip4 = p->ip4;
	return ALLOW;
}

SEC("cgroup/sendmsg6")
int sendmsg6(struct bpf_sock_addr *ctx)
{
	struct words src = { { ctx->msg_src_ip6[0], ctx->msg_src_ip6[1],
			       ctx->msg_src_ip6[2], ctx->msg_src_ip6[3] } };
	const struct policy *p = get_policy();
	struct words bound;
	bool local, own;

	if (!p)
		return REFUSE;
	if (!p->has_ip6)
		return refuse_with(-ENETUNREACH);
	own = is_any(&src) || is_own6(p, &src);
	local = !own && is_local_source6(p, ctx, &src);
	if (!own && !local) {
		if (!was_own6(p, &src) || !ctx->sk)
			return REFUSE;
		bound = bound6(ctx->sk);
		if (!was_own6(p, &bound))
			return REFUSE;
	}
	if (!is_peer6(ctx) && !redirect6(p, ctx) && local)
		own = true;
	if (own) {
		ctx->msg_src_ip6[0] = p->ip6[0];
		ctx->msg_src_ip6[1] = p->ip6[1];
		ctx->msg_src_ip6[2] = p->ip6[2];
		ctx->msg_src_ip6[3] = p->ip6[3];
	}
	return ALLOW;
}

/*
 * A datagram socket with the source that local_source() set receives from its peer only: without a
 * peer it would be a server on localhost. Sockets that were bound to localhost before the policy
 * keep receiving, and so do those that have the cgroup's own address, which can be one of
 * localhost.
 */
SEC("cgroup_skb/ingress")
int ingress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct words a;

	if (!sk || sk->state == BPF_TCP_ESTABLISHED)
		return ALLOW;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->type != SOCK_DGRAM)
		return ALLOW;
	a = sk->family == AF_INET6 ? bound6(sk) : mapped(sk->src_ip4);
	if (!is_localhost(&a) || is_own(get_policy(), &a))
		return ALLOW;
	return !bpf_sk_storage_get(&local, sk, NULL, 0);
}

SEC("cgroup/recvmsg4")
int recvmsg4(struct bpf_sock_addr *ctx)
{
	name4(ctx);
	return ALLOW;
}

SEC("cgroup/recvmsg6")
int recvmsg6(struct bpf_sock_addr *ctx)
{
	name6(ctx);
	return ALLOW;
}

SEC("cgroup/getpeername4")
int getpeername4(struct bpf_sock_addr *ctx)
{
	name4(ctx);
	return ALLOW;
}

SEC("cgroup/getpeername6")
int getpeername6(struct bpf_sock_addr *ctx)
{
	name6(ctx);
	return ALLOW;
}
