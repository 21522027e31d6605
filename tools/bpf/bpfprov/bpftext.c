// SPDX-License-Identifier: GPL-2.0
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpfprov.h"
#include "bpftext.h"

/* The kernel's limit is 256 subprograms, plus those it adds. */
#define MAX_SUBPROGS	512

/* The name is at @off and ends before the ring_id at the end of the record. */
static void copy_name(struct bpf_text *t, const struct perf_event_header *h, size_t off)
{
	const char *name = (const char *)h + off;
	size_t max;

	if (off + sizeof(struct ring_id) >= h->size)
		return;
	max = h->size - off - sizeof(struct ring_id);
	if (max > sizeof(t->name) - 1)
		max = sizeof(t->name) - 1;
	snprintf(t->name, sizeof(t->name), "%.*s", (int)max, name);
}

bool bpf_text_of_subprog(const struct perf_event_header *h, struct bpf_text *t)
{
	const struct subprog_record *r = (const void *)h;

	if (h->size < sizeof(*r) + sizeof(struct ring_id))
		return false;
	*t = (struct bpf_text){
		.addr = r->addr,
		.len = r->len,
		.prefix = r->prefix_len,
		.id = r->id,
		.sub_id = r->sub_id,
		.sub_cnt = r->sub_cnt,
		.prog_type = r->prog_type,
		.load_time = r->load_time,
	};
	memcpy(t->tag, r->tag, sizeof(t->tag));
	copy_name(t, h, r->name_off);
	return true;
}

bool bpf_text_of_ksymbol(const struct perf_event_header *h, struct bpf_text *t)
{
	const struct ksymbol_record *r = (const void *)h;

	if (h->size < sizeof(*r) + sizeof(struct ring_id))
		return false;
	*t = (struct bpf_text){ .addr = r->addr, .len = r->len };
	copy_name(t, h, sizeof(*r));
	/* Kernels without bpf_subprog report one page for each image. */
	t->len_is_guess = *t->name && strncmp(t->name, "bpf_prog_", 9) &&
			  t->len == sysconf(_SC_PAGESIZE);
	return true;
}

/* As in kallsyms, without the name of the function, which is in the program's BTF. */
static void sub_name(struct bpf_text *t)
{
	int len = snprintf(t->name, sizeof(t->name), "bpf_prog_");
	size_t i;

	for (i = 0; i < sizeof(t->tag); i++)
		len += sprintf(t->name + len, "%02x", t->tag[i]);
}

int bpf_text_of(uint32_t id, const struct ksyms *k, bpf_text_fn fn, void *ctx)
{
	uint32_t lens[MAX_SUBPROGS] = {}, len = sizeof(struct bpf_prog_info), i;
	uint64_t addrs[MAX_SUBPROGS] = {};
	uint8_t tags[MAX_SUBPROGS][BPF_TAG_SIZE] = {};
	struct bpf_prog_info info = {
		.nr_prog_tags = MAX_SUBPROGS,
		.prog_tags = (uintptr_t)tags,
		.nr_jited_ksyms = MAX_SUBPROGS,
		.jited_ksyms = (uintptr_t)addrs,
		.nr_jited_func_lens = MAX_SUBPROGS,
		.jited_func_lens = (uintptr_t)lens,
	};
	const struct ksym *s;
	struct bpf_text t;
	int fd, err;

	fd = bpf_prog_get_fd_by_id(id);
	if (fd < 0)
		return -errno;
	err = bpf_prog_get_info_by_fd(fd, &info, &len) ? -errno : 0;
	close(fd);
	if (err)
		return err;
	/* For a program on a device, the kernel does not set these. */
	if (info.ifindex) {
		info.nr_jited_ksyms = 0;
		info.nr_jited_func_lens = 0;
	}

	t = (struct bpf_text){
		.id = id,
		.sub_cnt = info.nr_jited_ksyms ? info.nr_jited_ksyms : 1,
		.prog_type = info.type,
		.uid = info.created_by_uid,
		.load_time = info.load_time,
	};
	for (i = 0; i < t.sub_cnt && i < MAX_SUBPROGS; i++) {
		t.sub_id = i;
		t.len = i < info.nr_jited_func_lens ? lens[i] : 0;
		/* An interpreted program has no text of its own. */
		t.addr = t.len ? addrs[i] : 0;
		memcpy(t.tag, i ? tags[i] : info.tag, sizeof(t.tag));
		/* Symbols begin at the text, which is a few bytes after the start of the image. */
		s = k && t.addr ? ksyms_find(k, t.addr) : NULL;
		if (s && s->is_bpf && s->addr == t.addr)
			snprintf(t.name, sizeof(t.name), "%s", s->name);
		else if (i)
			sub_name(&t);
		else
			snprintf(t.name, sizeof(t.name), "%s", info.name);
		fn(ctx, &t);
	}
	return 0;
}

int bpf_text_all(const struct ksyms *k, bpf_text_fn fn, void *ctx)
{
	uint32_t id = 0;
	int err;

	while (!exiting()) {
		if (bpf_prog_get_next_id(id, &id))
			return errno == ENOENT ? 0 : -errno;
		err = bpf_text_of(id, k, fn, ctx);
		if (err && err != -ENOENT && err != -ENODEV)
			return err;
	}
	return -EINTR;
}
