// SPDX-License-Identifier: GPL-2.0
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpfprov.h"
#include "symbols.h"

#include <linux/types.h>
#include <linux/bpf.h>
#include "profile.h"

#define BUCKETS		1024
#define DEBUG_DIR	"/usr/lib/debug"

struct binary {
	struct binary *next;
	uint8_t id[BUILD_ID_MAX];	/* with zeroes behind it */
	size_t len;			/* of the build ID; 0: id is a struct file_key */
	char *path, *name;
	int pid;
	bool tried;
	Dwfl *dwfl;
	Dwfl_Module *mod;
	Elf *elf;
	GElf_Addr bias;
	bool debug_only;
};

static struct binary *binaries[BUCKETS];

struct binary *binary_get(const uint8_t *id, size_t len)
{
	uint8_t padded[BUILD_ID_MAX] = {};
	char hex[2 * BUILD_ID_MAX + 1];
	struct binary **bucket, *b;
	unsigned int hash = !len;
	size_t i;

	memcpy(padded, id, len ? len : BUILD_ID_MAX);
	for (i = 0; i < BUILD_ID_MAX; i++)
		hash = hash * 31 + padded[i];
	bucket = &binaries[hash % BUCKETS];
	for (b = *bucket; b; b = b->next) {
		if (!b->len != !len || memcmp(b->id, padded, BUILD_ID_MAX))
			continue;
		/* Of a stack, only the padded ID is known. */
		if (len < b->len)
			b->len = len;
		return b;
	}
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->len = len;
	memcpy(b->id, padded, BUILD_ID_MAX);
	binary_id(b, hex, sizeof(hex));
	hex[12] = 0;
	b->name = strdup(*hex ? hex : "unknown-file");
	if (!b->name) {
		free(b);
		return NULL;
	}
	b->next = *bucket;
	*bucket = b;
	return b;
}

void binary_path(struct binary *b, const char *path, int pid)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(path);
	char *copy, *name;

	b->pid = pid;	/* the latest is the one that may still be there */
	if (b->path)
		return;
	copy = strdup(path);
	if (!copy)
		return;
	if (len >= sizeof(deleted) && !strcmp(copy + len - sizeof(deleted) + 1, deleted))
		copy[len - sizeof(deleted) + 1] = 0;
	name = strdup(strrchr(copy, '/') ? strrchr(copy, '/') + 1 : copy);
	if (!name) {
		free(copy);
		return;
	}
	free(b->name);
	b->path = copy;
	b->name = name;
}

const char *binary_name(const struct binary *b)
{
	return b->name;
}

const char *binary_where(const struct binary *b)
{
	return b->path;
}

void binary_id(const struct binary *b, char *hex, size_t size)
{
	size_t i;

	*hex = 0;
	for (i = 0; i < b->len && 2 * i + 2 < size; i++)
		sprintf(hex + 2 * i, "%02x", b->id[i]);
}

/* Is this still the file that was mapped? */
static bool is_it(const struct binary *b, const char *path)
{
	uint8_t id[BUILD_ID_MAX] = {};
	struct file_key key;
	struct stat st;

	if (b->len)
		return file_build_id(path, id) && !memcmp(id, b->id, BUILD_ID_MAX);
	memcpy(&key, b->id, sizeof(key));
	return !stat(path, &st) && S_ISREG(st.st_mode) && st.st_ino == key.ino &&
	       major(st.st_dev) == key.dev_major && minor(st.st_dev) == key.dev_minor;
}

/*
 * The first line of what debuginfod-find prints: where it has put the file of this
 * kind, "executable" or "debuginfo".
 */
static bool ask_debuginfod(const char *kind, const char *hex, char *path, size_t size)
{
	char *argv[] = { "debuginfod-find", (char *)kind, (char *)hex, NULL };
	const char *urls = getenv("DEBUGINFOD_URLS");
	posix_spawn_file_actions_t actions;
	int fds[2], status = -1;
	ssize_t n = 0;
	size_t got = 0;
	pid_t pid;

	if (!urls || !*urls || pipe2(fds, O_CLOEXEC))
		return false;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ))
		pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	while (pid > 0 && got < size - 1 && (n = read(fds[0], path + got, size - 1 - got)) > 0)
		got += n;
	close(fds[0]);
	path[got] = 0;
	path[strcspn(path, "\n")] = 0;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && !status && *path;
}

static bool find_file(const struct binary *b, char *path, size_t size)
{
	char hex[2 * BUILD_ID_MAX + 1];

	if (b->path) {
		snprintf(path, size, "%s", b->path);
		if (is_it(b, path))
			return true;
		/* In another mount namespace, or deleted and still running. */
		snprintf(path, size, "/proc/%d/root%s", b->pid, b->path);
		if (is_it(b, path))
			return true;
		snprintf(path, size, "/proc/%d/exe", b->pid);
		if (is_it(b, path))
			return true;
	}
	if (!b->len)
		return false;
	binary_id(b, hex, sizeof(hex));
	snprintf(path, size, DEBUG_DIR "/.build-id/%.2s/%s", hex, hex + 2);
	if (is_it(b, path))
		return true;
	if (ask_debuginfod("executable", hex, path, size) && is_it(b, path))
		return true;
	/* Only what was stripped off it is left, and that may have the names. */
	snprintf(path, size, DEBUG_DIR "/.build-id/%.2s/%s.debug", hex, hex + 2);
	if (is_it(b, path))
		return true;
	return ask_debuginfod("debuginfo", hex, path, size) && is_it(b, path);
}

/*
 * Was the text left out, and do the program headers tell no more where it was? So it
 * is after objcopy --only-keep-debug; eu-strip -f leaves them as they were.
 */
static bool has_no_text(Elf *elf)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr s = {};
	GElf_Phdr p;
	size_t i, n;

	while (!(s.sh_flags & SHF_EXECINSTR)) {
		scn = elf_nextscn(elf, scn);
		if (!scn || !gelf_getshdr(scn, &s))
			return false;
	}
	if (s.sh_type != SHT_NOBITS || elf_getphdrnum(elf, &n))
		return false;
	for (i = 0; i < n; i++)
		if (gelf_getphdr(elf, i, &p) && p.p_type == PT_LOAD && p.p_flags & PF_X &&
		    p.p_filesz < p.p_memsz)
			return true;
	return false;
}

/* Those of a file's segments that were seen: where the last one ended, in the file. */
struct layout {
	bool any;
	GElf_Addr base;
	GElf_Off end;
};

/*
 * Say where in the file a segment of a debug file was. A linker puts a segment as near
 * behind the last one as the alignment allows, or as far behind as it is in memory.
 * Mostly these are the same. Where they are not, it could be either, and a wrong name
 * is worse than none: false.
 */
static bool place_segment(GElf_Phdr *p, struct layout *l)
{
	GElf_Off gap;

	if (!l->any) {
		/* It has the ELF header, and keeps it. */
		if (p->p_offset || !p->p_filesz)
			return false;
		l->any = true;
		l->base = p->p_vaddr;
	}
	/* Some of it may be in memory only: nothing behind it can be placed, nor its end. */
	if (p->p_flags & PF_W)
		return false;
	gap = p->p_vaddr - l->base - l->end;
	if (gap && gap >= p->p_align)
		return false;
	p->p_offset = l->end + gap;
	if (p->p_align && (p->p_vaddr - p->p_offset) % p->p_align)
		return false;
	p->p_filesz = p->p_memsz;
	l->end = p->p_offset + p->p_memsz;
	return true;
}

static void open_binary(struct binary *b)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_build_id_find_elf,
		/* .gnu_debuglink and build ID below /usr/lib/debug, and debuginfod. */
		.find_debuginfo = dwfl_standard_find_debuginfo,
		.section_address = dwfl_offline_section_address,
	};
	char path[PATH_MAX + 32];

	b->tried = true;
	if (!find_file(b, path, sizeof(path)))
		return;
	b->dwfl = dwfl_begin(&callbacks);
	if (!b->dwfl)
		return;
	dwfl_report_begin(b->dwfl);
	b->mod = dwfl_report_offline(b->dwfl, b->name, path, -1);
	dwfl_report_end(b->dwfl, NULL, NULL);
	if (b->mod)
		b->elf = dwfl_module_getelf(b->mod, &b->bias);
	b->debug_only = b->elf && has_no_text(b->elf);
}

const char *binary_symbol(struct binary *b, uint64_t offset, bool is_return,
			  enum outcome *outcome)
{
	struct layout layout = {};
	const char *name = NULL;
	GElf_Off into;
	GElf_Sym sym;
	GElf_Phdr p;
	size_t i, n;

	if (!b->tried)
		open_binary(b);
	*outcome = NO_FILE;
	if (!b->elf || elf_getphdrnum(b->elf, &n))
		return NULL;
	*outcome = NO_SYMBOL;
	for (i = 0; i < n && !name; i++) {
		if (!gelf_getphdr(b->elf, i, &p) || p.p_type != PT_LOAD)
			continue;
		if (b->debug_only && !place_segment(&p, &layout))
			break;
		if (offset < p.p_offset || offset - p.p_offset >= p.p_filesz)
			continue;
		name = dwfl_module_addrinfo(b->mod,
					    offset - p.p_offset + p.p_vaddr + b->bias - is_return,
					    &into, &sym, NULL, NULL, NULL);
		/* The nearest one below, which can have ended before. */
		if (name && sym.st_size && into >= sym.st_size)
			name = NULL;
	}
	if (name)
		*outcome = SYMBOLIZED;
	return name;
}

void binary_free_all(void)
{
	struct binary *b, *next;
	int i;

	for (i = 0; i < BUCKETS; i++) {
		for (b = binaries[i]; b; b = next) {
			next = b->next;
			if (b->dwfl)
				dwfl_end(b->dwfl);
			free(b->path);
			free(b->name);
			free(b);
		}
		binaries[i] = NULL;
	}
}
