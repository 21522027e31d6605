// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int ksyms_read(struct ksyms *k, bool only_bpf)
{
	size_t used = 0, names = 0, room = 0, size = 0, i;
	char *line = NULL, type, name[512], module[64];
	unsigned long long addr, any = 0;
	int n, err = 0;
	bool is_bpf;
	FILE *f;

	memset(k, 0, sizeof(*k));
	f = fopen("/proc/kallsyms", "r");
	if (!f)
		return -errno;
	while (!err && getline(&line, &size, f) > 0) {
		*module = 0;
		n = sscanf(line, "%llx %c %511s [%63[^]]", &addr, &type, name, module);
		if (n < 3 || !strchr("tTwW", type))
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
	return lo ? &k->sym[lo - 1] : NULL;
}
