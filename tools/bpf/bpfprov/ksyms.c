// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ksyms.h"

/*
 * Names are stored one after the other, each followed by its module, which may be "".
 * While the buffer grows, sym.name is an offset into it.
 */
static int add(struct ksyms *k, uint64_t addr, const char *name, const char *module,
	       size_t *used, size_t *size, size_t *room)
{
	size_t name_len = strlen(name) + 1, len = name_len + strlen(module) + 1;
	void *p;

	if (k->count == *room) {
		*room = *room ? *room * 2 : 1024;
		p = realloc(k->sym, *room * sizeof(*k->sym));
		if (!p)
			return -ENOMEM;
		k->sym = p;
	}
	if (*used + len > *size) {
		*size = (*size + len) * 2 + 4096;
		p = realloc(k->names, *size);
		if (!p)
			return -ENOMEM;
		k->names = p;
	}
	memcpy(k->names + *used, name, name_len);
	memcpy(k->names + *used + name_len, module, len - name_len);
	k->sym[k->count++] = (struct ksym){
		.addr = addr,
		.end = UINT64_MAX,
		.name = (const char *)*used,
		.is_bpf = !strcmp(module, "bpf"),
	};
	*used += len;
	return 0;
}

static int by_addr(const void *a, const void *b)
{
	const struct ksym *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* The end of the text, of the text that is used at boot, and of all that was loaded at boot. */
static bool is_end(const char *name)
{
	return !strcmp(name, "_etext") || !strcmp(name, "_einittext") || !strcmp(name, "_end");
}

/* The last symbol of the kernel before an address is not that of text that is elsewhere. */
static void end_kernel(struct ksyms *k)
{
	uint64_t end = UINT64_MAX;
	size_t i;

	for (i = k->count; i-- > 0;) {
		struct ksym *s = &k->sym[i];

		if (s->module)
			continue;
		if (is_end(s->name))
			end = s->addr;
		s->end = end;
	}
}

struct range {
	uint64_t addr, end;
};

static int by_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/*
 * The modules, from the address of their text on. NULL: there are none, or the kernel hides the
 * addresses.
 */
static struct range *read_modules(size_t *count)
{
	FILE *f = fopen("/proc/modules", "r");
	unsigned long long addr, len, any = 0;
	struct range *m = NULL;
	char *line = NULL;
	size_t size = 0;
	void *p;

	*count = 0;
	while (f && getline(&line, &size, f) > 0) {
		if (sscanf(line, "%*s %llu %*s %*s %*s %llx", &len, &addr) != 2)
			continue;
		any |= addr;
		p = realloc(m, (*count + 1) * sizeof(*m));
		if (!p) {
			any = 0;
			break;
		}
		m = p;
		m[(*count)++] = (struct range){ addr, addr + len };
	}
	free(line);
	if (f)
		fclose(f);
	if (!any) {
		free(m);
		return NULL;
	}
	qsort(m, *count, sizeof(*m), by_start);
	return m;
}

/*
 * A module may have been unloaded, and another one loaded after it: its last symbol is not that
 * of the other one's text. The size of a module includes its data, which is elsewhere, so the
 * next module ends it, too.
 */
static void end_modules(struct ksyms *k)
{
	size_t i, at = 0, count, page = sysconf(_SC_PAGESIZE);
	struct range *m = read_modules(&count);
	struct ksym *s;

	for (i = 0; m && i < k->count; i++) {
		s = &k->sym[i];
		while (at < count && m[at].addr <= s->addr)
			at++;
		if (!s->module || s->is_bpf)
			continue;
		/* One page: of a kprobe, or a trampoline of ftrace. Or it was unloaded by now. */
		s->end = (s->addr / page + 1) * page;
		if (at && s->addr < m[at - 1].end)
			s->end = m[at - 1].end;
		if (at < count && m[at].addr < s->end)
			s->end = m[at].addr;
	}
	free(m);
}

/*
 * A BPF symbol ends where the next one begins, at the latest. The prefix that a program has with
 * FineIBT is such an end, but not an image.
 */
static void end_bpf(struct ksyms *k)
{
	size_t i, left = 0;
	struct ksym s;

	for (i = 0; i < k->count; i++) {
		s = k->sym[i];
		if (s.is_bpf && i + 1 < k->count)
			s.end = k->sym[i + 1].addr;
		if (!s.is_bpf || strncmp(s.name, "__cfi_", 6))
			k->sym[left++] = s;
	}
	k->count = left;
}

/*
 * Take apart "address type name", followed by "\t[module]" if it is not of the kernel itself.
 * sscanf() takes as long as the kernel takes to write the line.
 */
static bool parse(char *line, uint64_t *addr, char *type, const char **name, const char **module)
{
	char *p;

	*addr = strtoull(line, &p, 16);
	if (p == line || *p != ' ' || !p[1] || p[2] != ' ')
		return false;
	*type = p[1];
	*name = p += 3;
	p += strcspn(p, "\t\n");
	*module = "";
	if (!strncmp(p, "\t[", 2)) {
		*module = p + 2;
		p[2 + strcspn(*module, "]")] = 0;
	}
	*p = 0;
	return **name;
}

int ksyms_read(struct ksyms *k, bool only_bpf)
{
	size_t used = 0, names = 0, room = 0, size = 0, i;
	const char *name, *module;
	uint64_t addr, any = 0;
	char *line = NULL, type;
	bool is_bpf;
	int err = 0;
	FILE *f;

	memset(k, 0, sizeof(*k));
	f = fopen("/proc/kallsyms", "r");
	if (!f)
		return -errno;
	while (!err && getline(&line, &size, f) > 0) {
		if (!parse(line, &addr, &type, &name, &module) ||
		    (!strchr("tTwW", type) && (*module || !is_end(name))))
			continue;
		any |= addr;
		is_bpf = !strcmp(module, "bpf");
		if (is_bpf || !only_bpf)
			err = add(k, addr, name, module, &used, &names, &room);
	}
	free(line);
	fclose(f);
	if (err)
		return err;
	for (i = 0; i < k->count; i++) {
		struct ksym *sym = &k->sym[i];

		sym->name = k->names + (size_t)sym->name;
		sym->module = sym->name + strlen(sym->name) + 1;
		if (!*sym->module)
			sym->module = NULL;
	}
	if (!any)
		return -EACCES;
	if (k->count)
		qsort(k->sym, k->count, sizeof(*k->sym), by_addr);
	end_bpf(k);
	if (!only_bpf) {
		end_kernel(k);
		end_modules(k);
	}
	return 0;
}

void ksyms_free(struct ksyms *k)
{
	free(k->sym);
	free(k->names);
	memset(k, 0, sizeof(*k));
}

const struct ksym *ksyms_find(const struct ksyms *k, uint64_t addr)
{
	size_t lo = 0, hi = k->count, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (k->sym[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && addr < k->sym[lo - 1].end ? &k->sym[lo - 1] : NULL;
}
