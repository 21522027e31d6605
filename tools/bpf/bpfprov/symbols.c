// SPDX-License-Identifier: GPL-2.0
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "bpfprov.h"
#include "symbols.h"

#define BUCKETS		4096
/* What bounds the memory. */
#define MAX_BINARIES	65536
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
static size_t count;
static uint64_t dropped;

/*
 * The inode's generation, which /proc does not show, is 0 then: it is compared where both
 * have one.
 */
#define KEY_SIZE offsetof(struct file_key, generation)

static bool is_same_key(const uint8_t *a, const uint8_t *b)
{
	struct file_key x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return !memcmp(&x, &y, KEY_SIZE) &&
	       (!x.generation || !y.generation || x.generation == y.generation);
}

static void learn_generation(struct binary *b, const uint8_t *id)
{
	struct file_key key;

	memcpy(&key, id, sizeof(key));
	if (key.generation)
		memcpy(b->id, id, sizeof(key));
}

struct binary *binary_get(const uint8_t *id, size_t len)
{
	uint8_t padded[BUILD_ID_MAX] = {};
	char hex[2 * BUILD_ID_MAX + 1];
	struct binary **bucket, *b;
	unsigned int hash = !len;
	size_t i;

	memcpy(padded, id, len ? len : BUILD_ID_MAX);
	for (i = 0; i < (len ? BUILD_ID_MAX : KEY_SIZE); i++)
		hash = hash * 31 + padded[i];
	bucket = &binaries[hash % BUCKETS];
	for (b = *bucket; b; b = b->next) {
		if (!b->len != !len)
			continue;
		if (len ? memcmp(b->id, padded, BUILD_ID_MAX) : !is_same_key(b->id, padded))
			continue;
		if (!len)
			learn_generation(b, padded);
		/* Of a stack, only the padded ID is known. */
		if (len < b->len)
			b->len = len;
		return b;
	}
	b = count < MAX_BINARIES ? calloc(1, sizeof(*b)) : NULL;
	if (!b) {
		dropped++;
		return NULL;
	}
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
	count++;
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

/* Open @path if it is still the file that was mapped; else -1. */
static int open_if_it(const struct binary *b, const char *path)
{
	uint8_t id[BUILD_ID_MAX] = {};
	struct file_key key;
	int fd;

	if (!b->len) {
		memcpy(&key, b->id, sizeof(key));
		return open_file(path, &key);
	}
	fd = open_file(path, NULL);
	if (fd >= 0 && (!fd_build_id(fd, id) || memcmp(id, b->id, BUILD_ID_MAX))) {
		close(fd);
		return -1;
	}
	return fd;
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
	struct pollfd p = { .events = POLLIN };
	int fds[2], status = -1;
	ssize_t n;
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
	p.fd = fds[0];
	/* A signal can come right before poll(), which then does not return for it. */
	while (pid > 0 && got < size - 1 && !interrupted()) {
		if (poll(&p, 1, 200) <= 0)
			continue;
		n = read(fds[0], path + got, size - 1 - got);
		if (n <= 0)
			break;
		got += n;
	}
	if (pid > 0 && interrupted())
		kill(pid, SIGKILL);
	close(fds[0]);
	path[got] = 0;
	path[strcspn(path, "\n")] = 0;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && !status && *path;
}

/* Where debug files with this build ID are, if there are any. */
static int open_debug(const struct binary *b, char *path, size_t size)
{
	char hex[2 * BUILD_ID_MAX + 1];
	int fd;

	if (!b->len)
		return -1;
	binary_id(b, hex, sizeof(hex));
	snprintf(path, size, DEBUG_DIR "/.build-id/%.2s/%s.debug", hex, hex + 2);
	fd = open_if_it(b, path);
	if (fd < 0 && ask_debuginfod("debuginfo", hex, path, size))
		fd = open_if_it(b, path);
	return fd;
}

/* The file, or what there is of it. Returns a descriptor and its path, or -1. */
static int find_file(const struct binary *b, char *path, size_t size)
{
	char hex[2 * BUILD_ID_MAX + 1];
	struct file_key key;
	int fd = -1;

	if (b->path) {
		snprintf(path, size, "%s", b->path);
		fd = open_if_it(b, path);
		/* In another mount namespace, or deleted and still running. */
		if (fd < 0) {
			snprintf(path, size, "/proc/%d/root%s", b->pid, b->path);
			fd = open_if_it(b, path);
		}
		if (fd < 0) {
			snprintf(path, size, "/proc/%d/exe", b->pid);
			fd = open_if_it(b, path);
		}
		if (fd < 0 && !b->len) {
			memcpy(&key, b->id, sizeof(key));
			fd = open_mapped(b->pid, &key);
		}
	}
	if (fd >= 0 || !b->len)
		return fd;
	binary_id(b, hex, sizeof(hex));
	snprintf(path, size, DEBUG_DIR "/.build-id/%.2s/%s", hex, hex + 2);
	fd = open_if_it(b, path);
	if (fd < 0 && ask_debuginfod("executable", hex, path, size))
		fd = open_if_it(b, path);
	/* Only what was stripped off it is left, and that may have the names. */
	return fd < 0 ? open_debug(b, path, size) : fd;
}

/* Does the file have the checksum that a .gnu_debuglink demands? */
static bool has_crc(int fd, GElf_Word want)
{
	uint8_t buf[65536];
	uLong crc = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		crc = crc32(crc, buf, n);
		at += n;
	}
	return !n && crc == want;
}

/*
 * dwfl_standard_find_debuginfo() opens whatever the file's .gnu_debuglink and the
 * directories beside it lead to; the file may be anybody's. Here it is a regular file,
 * with the build ID or, for a file that has none, with the checksum.
 */
static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **found)
{
	static const char * const places[] = { DEBUG_DIR "%.*s/%s", "%.*s/.debug/%s", "%.*s/%s" };
	const struct binary *b = *userdata;
	char path[2 * PATH_MAX];
	int fd, dir;
	size_t i;

	fd = open_debug(b, path, sizeof(path));
	if (fd < 0 && link && *link && !strchr(link, '/') && b->path) {
		dir = strrchr(b->path, '/') - b->path;
		for (i = 0; fd < 0 && i < ARRAY_LEN(places); i++) {
			snprintf(path, sizeof(path), places[i], dir, b->path, link);
			fd = b->len ? open_if_it(b, path) : open_file(path, NULL);
			if (fd >= 0 && !b->len && !has_crc(fd, crc)) {
				close(fd);
				fd = -1;
			}
		}
	}
	*found = fd < 0 ? NULL : strdup(path);
	return fd;
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
		.find_debuginfo = find_debuginfo,
		.section_address = dwfl_offline_section_address,
	};
	char path[PATH_MAX + 32];
	void **userdata;
	int fd;

	b->tried = true;
	fd = find_file(b, path, sizeof(path));
	if (fd < 0)
		return;
	b->dwfl = dwfl_begin(&callbacks);
	if (!b->dwfl) {
		close(fd);
		return;
	}
	dwfl_report_begin(b->dwfl);
	b->mod = dwfl_report_offline(b->dwfl, b->name, path, fd);
	dwfl_report_end(b->dwfl, NULL, NULL);
	if (!b->mod) {
		close(fd);
		return;
	}
	dwfl_module_info(b->mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = b;
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

uint64_t binary_dropped(void)
{
	return dropped;
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
