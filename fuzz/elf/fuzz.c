// SPDX-License-Identifier: GPL-2.0
/*
 * Parses any file with lib/buildid.c and mm/filemap_copy.c in three ways: by a read, from a
 * page cache that has all of it, and from one with missing and pinned pages. The first two
 * results must be the same, and the third may be -EFAULT or -EBUSY instead. The result is
 * compared with that of libelf: if they differ, the file must be of a class that is listed
 * here, otherwise this is a crash. The counts of the classes are printed at the end.
 */
#include "shim/kernel.h"
#include <gelf.h>
#include <stdio.h>
#include <linux/buildid.h>
#include "buildid.h"

struct folio *xas_load(const struct xa_state *xas)
{
	const struct folios *pages = &xas->pages->now;
	pgoff_t index = xas->index;

	for (size_t i = 0; i < pages->nr; i++) {
		struct folio *f = &pages->folio[i];

		if (f->data && index >= f->pos >> PAGE_SHIFT &&
		    index < (f->pos + f->size) >> PAGE_SHIFT)
			return f;
	}
	return NULL;
}

void folio_put(struct folio *f)
{
	struct folios now = f->in->now;

	if (--f->refs)
		return;
	f->in->now = f->in->then;
	f->in->then = now;
}

/* The page that is mapped of a folio of which only one can be. */
static u8 *mapped;

void *kmap_local_folio(struct folio *f, size_t off)
{
	if (!f->partial_kmap)
		return f->data + off;
	if (mapped)
		abort();	/* the reader has one at a time */
	mapped = malloc(PAGE_SIZE);
	memcpy(mapped, f->data + round_down(off, PAGE_SIZE), PAGE_SIZE);
	return mapped + off % PAGE_SIZE;
}

void kunmap_local(const void *addr)
{
	(void)addr;
	free(mapped);
	mapped = NULL;
}

/* Only asked for: __kernel_read() takes its place. */
static ssize_t read_iter(void)
{
	abort();
}

ssize_t __kernel_read(struct file *file, void *buf, size_t count, loff_t *pos)
{
	loff_t left = i_size_read(file->inode) - *pos;

	if (*pos < 0)
		return -EINVAL;
	if (left <= 0)
		return 0;
	count = min_t(size_t, count, left);
	memcpy(buf, file->data + *pos, count);
	return count;
}

/* Of the same file always the same. */
static u32 next_random(u32 *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 16;
}

/* Folios of 1 to 8 pages, where some of them may lack. */
static struct folios fill(struct xarray *in, const u8 *data, size_t size, u32 *random, bool all)
{
	struct folios pages = { .folio = calloc(size / PAGE_SIZE + 1, sizeof(*pages.folio)) };
	size_t pos = 0;

	while (pos < size) {
		struct folio *f = &pages.folio[pages.nr++];
		u32 r = next_random(random);

		f->in = in;
		f->pos = pos;
		f->size = PAGE_SIZE << (r & 3);
		/* Folios are aligned to their size. */
		while (pos % f->size)
			f->size /= 2;
		f->uptodate = all || r & 0x1c;
		f->pinned = !all && !(r & 0x60);
		f->partial_kmap = r & 0x400;
		if (all || r & 0x380) {
			f->data = calloc(1, f->size);
			memcpy(f->data, data + pos, min_t(size_t, f->size, size - pos));
		}
		pos += f->size;
	}
	return pages;
}

static void empty(struct folios *pages)
{
	for (size_t i = 0; i < pages->nr; i++) {
		if (pages->folio[i].refs)
			abort();	/* a reference was leaked, or put twice */
		free(pages->folio[i].data);
	}
	free(pages->folio);
}

struct result {
	int err;
	u32 size;
	u8 id[BUILD_ID_SIZE_MAX];
};

static struct result parse(const u8 *data, size_t size, bool may_fault, u32 random, bool all)
{
	struct inode inode = { .i_mode = S_IFREG, .i_size = size };
	struct address_space mapping = { .host = &inode };
	static const struct file_operations fops = { .read_iter = read_iter };
	struct file file = {
		.f_op = &fops,
		.f_mode = FMODE_READ | FMODE_OPENED,
		.inode = &inode,
		.f_mapping = &mapping,
		.data = data,
	};
	struct build_id_from from = {
		.mapping = may_fault ? NULL : &mapping,
		.file = &file,
		.unpinned = true,
	};
	struct result r = {};

	mapping.i_pages.now = fill(&mapping.i_pages, data, size, &random, all);
	mapping.i_pages.then = fill(&mapping.i_pages, data, size, &random, all);
	r.err = build_id_read(&from, r.id, &r.size);
	empty(&mapping.i_pages.now);
	empty(&mapping.i_pages.then);
	if (mapped)
		abort();

	if (r.err > 0 || (!r.err && (!r.size || r.size > BUILD_ID_SIZE_MAX)))
		abort();
	for (u32 i = r.size; !r.err && i < BUILD_ID_SIZE_MAX; i++) {
		if (r.id[i])
			abort();	/* what is not used of it is zero */
	}
	return r;
}

static bool same(const struct result *a, const struct result *b)
{
	return a->err == b->err &&
	       (a->err || (a->size == b->size && !memcmp(a->id, b->id, sizeof(a->id))));
}

/* --- libelf ------------------------------------------------------------------ */

/* The same rules, from libelf's view of the file. */
static bool build_id_of(Elf *elf, struct result *r)
{
	GElf_Ehdr ehdr;
	size_t nr;

	if (!gelf_getehdr(elf, &ehdr) || (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN) ||
	    elf_getphdrnum(elf, &nr))
		return false;

	for (size_t i = 0; i < nr; i++) {
		size_t off = 0, next, name, desc;
		GElf_Phdr phdr;
		GElf_Nhdr note;
		Elf_Data *data;

		if (!gelf_getphdr(elf, i, &phdr) || phdr.p_type != PT_NOTE)
			continue;
		data = elf_getdata_rawchunk(elf, phdr.p_offset, phdr.p_filesz, ELF_T_NHDR);
		while (data && (next = gelf_getnote(data, off, &note, &name, &desc)) > 0) {
			if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
			    !memcmp((u8 *)data->d_buf + name, "GNU", 4) &&
			    note.n_descsz > 0 && note.n_descsz <= BUILD_ID_SIZE_MAX) {
				r->size = note.n_descsz;
				memcpy(r->id, (u8 *)data->d_buf + desc, note.n_descsz);
				return true;
			}
			off = next;
		}
	}
	return false;
}

enum {
	NOT_FOR_LIBELF, OTHER_BYTE_ORDER, PHENTSIZE, MANY_PHDRS, PHDRS_BEYOND_END,
	NOTE_BEYOND_END, NR_CLASSES
};

static struct {
	const char *why;
	unsigned long nr;
} classes[NR_CLASSES] = {
	[NOT_FOR_LIBELF]   = { "libelf does not take it for an ELF file" },
	[OTHER_BYTE_ORDER] = { "the byte order is not that of this machine" },
	[PHENTSIZE]	   = { "e_phentsize is not the size of a program header, or e_ehsize of the header" },
	[MANY_PHDRS]	   = { "more program headers than the kernel looks at, 256" },
	[PHDRS_BEYOND_END] = { "program headers lie beyond the end of the file, or are not aligned" },
	[NOTE_BEYOND_END]  = { "a PT_NOTE segment reaches beyond the end of the file" },
};

static unsigned long files, with_id, agree, missing_pages;

/* What the headers say, read without either of the two: a class, or NR_CLASSES. */
#define CLASS_OF(bits)								\
static int class_of_##bits(const u8 *data, size_t size)			\
{										\
	Elf##bits##_Ehdr e;							\
	Elf##bits##_Phdr p;							\
	u64 end;								\
										\
	if (size < sizeof(e))							\
		return NOT_FOR_LIBELF;						\
	memcpy(&e, data, sizeof(e));						\
	if (e.e_ident[EI_DATA] != ELFDATA2LSB)					\
		return OTHER_BYTE_ORDER;					\
	if (e.e_phnum > 256)							\
		return MANY_PHDRS;						\
	if (e.e_phentsize != sizeof(p) || e.e_ehsize != sizeof(e))		\
		return PHENTSIZE;						\
	if (e.e_phoff > size || e.e_phnum * sizeof(p) > size - e.e_phoff ||	\
	    e.e_phoff % sizeof(e.e_phoff))					\
		return PHDRS_BEYOND_END;					\
	for (int i = 0; i < e.e_phnum; i++) {					\
		memcpy(&p, data + e.e_phoff + i * sizeof(p), sizeof(p));	\
		if (p.p_type == PT_NOTE &&					\
		    (__builtin_add_overflow(p.p_offset, p.p_filesz, &end) || end > size)) \
			return NOTE_BEYOND_END;					\
	}									\
	return NR_CLASSES;							\
}

CLASS_OF(32)
CLASS_OF(64)

static void print_counts(void)
{
	fprintf(stderr, "%lu files, %lu with a build ID; libelf agrees in %lu; %lu lacked a page\n",
		files, with_id, agree, missing_pages);
	for (int i = 0; i < NR_CLASSES; i++)
		fprintf(stderr, "%10lu differ: %s\n", classes[i].nr, classes[i].why);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	elf_version(EV_CURRENT);
	atexit(print_counts);
	return 0;
}

/* --- what to try ---------------------------------------------------------------- */

size_t LLVMFuzzerMutate(u8 *data, size_t size, size_t max_size);

/* Where the headers and notes of a file are, if it has any: a field of one of them. */
#define FIELD_OF(bits)								\
static size_t field_of_##bits(const u8 *data, size_t size, u32 *random, size_t *width) \
{										\
	static const struct { u8 off, width; } ehdr[] = {			\
		{ offsetof(Elf##bits##_Ehdr, e_phoff), sizeof(((Elf##bits##_Ehdr *)0)->e_phoff) }, \
		{ offsetof(Elf##bits##_Ehdr, e_phnum), 2 },			\
		{ offsetof(Elf##bits##_Ehdr, e_type), 2 },			\
		{ EI_CLASS, 1 },						\
	}, phdr[] = {								\
		{ offsetof(Elf##bits##_Phdr, p_type), 4 },			\
		{ offsetof(Elf##bits##_Phdr, p_offset), sizeof(((Elf##bits##_Phdr *)0)->p_offset) }, \
		{ offsetof(Elf##bits##_Phdr, p_filesz), sizeof(((Elf##bits##_Phdr *)0)->p_filesz) }, \
	};									\
	u32 what = next_random(random) % 4, which = next_random(random);	\
	Elf##bits##_Ehdr e;							\
	Elf##bits##_Phdr p;							\
	u64 at;									\
										\
	memcpy(&e, data, sizeof(e));						\
	if (!what || !e.e_phnum) {						\
		*width = ehdr[which % 4].width;					\
		return ehdr[which % 4].off;					\
	}									\
	at = e.e_phoff + next_random(random) % e.e_phnum * sizeof(p);		\
	if (at > size - sizeof(p))						\
		return size;							\
	memcpy(&p, data + at, sizeof(p));					\
	if (what == 1 || p.p_type != PT_NOTE) {					\
		*width = phdr[which % 3].width;					\
		return at + phdr[which % 3].off;				\
	}									\
	/* The type, a size, or the name, of its first note. */			\
	*width = 4;								\
	return p.p_offset < size ? p.p_offset + which % 4 * 4 : size;		\
}

FIELD_OF(32)
FIELD_OF(64)

/* Half of the time: a value that hurts, where it matters. */
size_t LLVMFuzzerCustomMutator(u8 *data, size_t size, size_t max_size, unsigned int seed)
{
	const u64 hurts[] = {
		0, 1, 3, 4, 16, 20, 21, 64, 65, 255, 256, 257, 4095, 4096, size, size - 1,
		size + 1, size / 2, 0x7fffffff, 0xffffffff, 1ULL << 32, INT64_MAX,
		1ULL << 63, ~0ULL, ~0ULL - 63, ET_DYN, PT_NOTE,
	};
	u32 random = seed;
	size_t width, at;
	u64 value;

	if (size < sizeof(Elf64_Ehdr) || next_random(&random) & 1)
		return LLVMFuzzerMutate(data, size, max_size);

	at = data[EI_CLASS] == ELFCLASS32 ? field_of_32(data, size, &random, &width) :
					    field_of_64(data, size, &random, &width);
	if (at > size - 8)
		return LLVMFuzzerMutate(data, size, max_size);
	memcpy(&value, data + at, 8);
	if (next_random(&random) % 3)
		value = hurts[next_random(&random) % (sizeof(hurts) / sizeof(hurts[0]))];
	else
		value += (int)(next_random(&random) % 9) - 4;
	memcpy(data + at, &value, width);
	return size;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct result read, cached, lacking, ref = {};
	u32 random = size;
	int class;
	char *copy;
	Elf *elf;

	for (size_t i = 0; i < size; i++)
		random = random * 31 + data[i];

	read = parse(data, size, true, random, true);
	cached = parse(data, size, false, random, true);
	lacking = parse(data, size, false, random, false);
	if (!same(&read, &cached)) {
		fprintf(stderr, "read: %d, page cache: %d\n", read.err, cached.err);
		abort();
	}
	if (lacking.err == -EFAULT || lacking.err == -EBUSY) {
		missing_pages++;
	} else if (!same(&read, &lacking)) {
		fprintf(stderr, "read: %d, with pages missing: %d\n", read.err, lacking.err);
		abort();
	}
	files++;
	with_id += !read.err;

	/* libelf may write to it. */
	copy = malloc(size);
	memcpy(copy, data, size);
	elf = elf_memory(copy, size);
	/* Why there is none, libelf does not say. */
	if (!elf || elf_kind(elf) != ELF_K_ELF || !build_id_of(elf, &ref))
		ref.err = read.err ?: -ENOENT;
	class = !elf || elf_kind(elf) != ELF_K_ELF ? NOT_FOR_LIBELF :
		size > EI_CLASS && data[EI_CLASS] == ELFCLASS32 ? class_of_32(data, size) :
								  class_of_64(data, size);
	elf_end(elf);
	free(copy);

	if (same(&read, &ref)) {
		agree++;
		return 0;
	}
	if (class == NR_CLASSES) {
		fprintf(stderr, "libelf: %d, this: %d, and no class has it\n", ref.err, read.err);
		abort();
	}
	classes[class].nr++;
	return 0;
}
