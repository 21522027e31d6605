// SPDX-License-Identifier: GPL-2.0
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "apart.h"
#include "bpfprov.h"
#include "symbols.h"

#define BUCKETS		4096
/* Bounds the memory. */
#define MAX_BINARIES	65536
/* In bytes: of the paths after the first one of a file. */
#define MAX_PATHS	(64U << 20)
/* A larger debug file without a build ID is not read for its checksum. */
#define MAX_CRC_FILE	(1ULL << 30)
#define DEBUG_DIR	"/usr/lib/debug"

/* Where a process mapped a file. */
struct place {
	char *path;
	struct file_key key;		/* of the file at @path; ino 0: not known */
	int pid;			/* -1: not known, or it hangs */
};

struct binary {
	struct binary *next;
	uint8_t id[BUILD_ID_MAX];	/* padded with zeroes */
	size_t len;			/* of the build ID; 0: id is a struct file_key */
	char *name;
	/*
	 * The first one, which is shown, the latest, and one in between. Any user can copy a file
	 * and remove the copy. The path is NULL if there is none.
	 */
	struct place places[3];
	uint32_t number;		/* see binary_number() */
	enum { UNTRIED, NOT_FOUND, NOT_READABLE, TOO_LARGE, FOUND } state;
	bool hangs;			/* a process that mapped it does */
	uint64_t samples;		/* see binary_samples() */
};

/* The file whose symbols are looked up. One at a time bounds memory and descriptors. */
static struct {
	struct binary *binary;
	Dwfl *dwfl;
	Dwfl_Module *mod;
	Elf *elf;
	GElf_Addr bias;
	bool debug_only;
} current;

/* Where to continue when a file that libdw has mapped is truncated. */
static sigjmp_buf truncated;

static bool leaked;

static struct binary *binaries[BUCKETS];
static size_t count, path_bytes;
static uint64_t dropped;

/* The place that the child process looks at, or NULL: the parent reads it after the child hung. */
static const struct place **at_place;

/*
 * /proc does not show the inode's generation, which is 0 then: compare it only if both
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

	memcpy(padded, id, len ? len : BUILD_ID_MAX);
	bucket = &binaries[hash_bytes(padded, len ? BUILD_ID_MAX : KEY_SIZE, !len) % BUCKETS];
	for (b = *bucket; b; b = b->next) {
		if (!b->len != !len)
			continue;
		if (len ? memcmp(b->id, padded, BUILD_ID_MAX) : !is_same_key(b->id, padded))
			continue;
		if (!len)
			learn_generation(b, padded);
		/* A stack has the padded ID. */
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

/*
 * Make room for another place at index 1. At the end, a process that still runs gives access to
 * the file. That can be an earlier one only, as a server in a container for which programs run
 * now and then.
 */
static void make_room(struct binary *b)
{
	struct place *last = &b->places[1], *between = &b->places[2], old = *last;

	if (last->path && (!between->path || process_ended(between->pid))) {
		old = *between;
		*between = *last;
	}
	if (old.path)
		path_bytes -= strlen(old.path);
	free(old.path);
	*last = (struct place){};
}

void binary_path(struct binary *b, const char *path, int pid, const struct file_key *key)
{
	static const char deleted[] = " (deleted)";
	struct place new = { .pid = pid };
	size_t i, len = strlen(path);
	char *name;

	if (len >= sizeof(deleted) && !strcmp(path + len - sizeof(deleted) + 1, deleted))
		len -= sizeof(deleted) - 1;
	for (i = 0; i < ARRAY_LEN(b->places); i++)
		if (b->places[i].path && b->places[i].pid == pid &&
		    strlen(b->places[i].path) == len && !memcmp(b->places[i].path, path, len))
			return;
	if (b->places[0].path) {
		make_room(b);
		if (path_bytes + len > MAX_PATHS)
			return;
	}
	new.path = strndup(path, len);
	if (!new.path)
		return;
	if (key)
		new.key = *key;
	if (b->places[0].path) {
		path_bytes += len;
		b->places[1] = new;
		return;
	}
	name = strdup(strrchr(new.path, '/') ? strrchr(new.path, '/') + 1 : new.path);
	if (!name) {
		free(new.path);
		return;
	}
	free(b->name);
	b->name = name;
	b->places[0] = new;
}

const char *binary_name(const struct binary *b)
{
	return b->name;
}

const char *binary_where(const struct binary *b)
{
	return b->places[0].path;
}

uint32_t *binary_number(struct binary *b)
{
	return &b->number;
}

void binary_id(const struct binary *b, char *hex, size_t size)
{
	size_t i;

	*hex = 0;
	for (i = 0; i < b->len && 2 * i + 2 < size; i++)
		sprintf(hex + 2 * i, "%02x", b->id[i]);
}

uint64_t *binary_samples(struct binary *b)
{
	return &b->samples;
}

void binary_watch(void)
{
	void *page = mmap(NULL, sizeof(*at_place), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	at_place = page == MAP_FAILED ? NULL : page;
}

/*
 * A read of the files of a process in /proc may never return, nor may that of a file system.
 * NULL: neither is read from here on.
 */
static void watch(const struct place *at)
{
	if (at_place)
		__atomic_store_n(at_place, at, __ATOMIC_RELAXED);
}

bool binary_avoid(struct binary *b, bool everywhere)
{
	const struct place *at = at_place ? __atomic_load_n(at_place, __ATOMIC_RELAXED) : NULL;
	struct binary *other;
	size_t i, j;
	int pid = -1;

	/* The child could write anything there. */
	for (i = 0; i < ARRAY_LEN(b->places); i++)
		if (at == &b->places[i])
			pid = at->pid;
	if (pid <= 0)
		return false;
	/* It may have mapped many files, and each of them would take the time again. */
	for (i = 0; i < BUCKETS; i++) {
		for (other = binaries[i]; other; other = other->next) {
			for (j = 0; j < ARRAY_LEN(other->places); j++) {
				if (other->places[j].pid != pid || !(everywhere || other == b))
					continue;
				other->places[j].pid = -1;
				other->hangs = true;
			}
		}
	}
	return true;
}

/*
 * Open @path, as open_file() does, if it is the file with the key @key, which may be NULL, and
 * has the build ID if there is one; else -1.
 */
static int open_if(struct binary *b, int pid, const char *path, const struct file_key *key)
{
	uint8_t id[BUILD_ID_MAX] = {};
	int fd;

	errno = 0;
	fd = open_file(pid, path, key, b->len);
	/* If it was found, this is a debug file. */
	if (fd < 0 && b->state != FOUND &&
	    (is_denied(errno) || errno == EMFILE || errno == ENFILE))
		b->state = NOT_READABLE;
	if (fd >= 0 && b->len && (!fd_build_id(fd, id) || memcmp(id, b->id, BUILD_ID_MAX))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Open @path if it is still the file that was mapped at @at; else -1. */
static int open_if_it(struct binary *b, int pid, const char *path, const struct place *at)
{
	struct file_key key;

	memcpy(&key, b->id, sizeof(key));
	return open_if(b, pid, path, !b->len ? &key : at->key.ino ? &at->key : NULL);
}

/*
 * Run debuginfod-find, and store the first line of its output: the path of the file.
 * @kind is "executable" or "debuginfo". With libdebuginfod instead, the tool would need its
 * header to be built. Through dwfl_standard_find_debuginfo() it is called only after other
 * paths were opened, see find_debuginfo().
 */
static bool ask_debuginfod(const char *kind, const char *hex, char *path, size_t size)
{
	char *argv[] = { "debuginfod-find", (char *)kind, (char *)hex, NULL };
	static const int signals[] = { SIGHUP, SIGINT, SIGTERM, SIGPIPE };
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct pollfd p = { .events = POLLIN };
	int fds[2], status = -1;
	ssize_t n;
	size_t i, got = 0;
	pid_t pid;

	if (!urls || !*urls || pipe2(fds, O_CLOEXEC))
		return false;
	pid = fork();
	if (!pid) {
		/* It must not outlive this process, nor ignore the signals that this one does. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (i = 0; i < ARRAY_LEN(signals); i++)
			signal(signals[i], SIG_DFL);
		/* stdin and stderr are /dev/null, see apart.c. */
		dup2(fds[1], STDOUT_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	close(fds[1]);
	p.fd = fds[0];
	/* A signal right before poll() does not interrupt it: hence the timeout. */
	while (pid > 0 && got < size - 1 && !interrupted()) {
		apart_alive(true);
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
	apart_alive(false);
	return pid > 0 && !status && *path;
}

/*
 * libdw would also decompress a file that is not ELF, to any size. For libelf, neither is one
 * with another value of these.
 */
static bool is_elf(int fd)
{
	unsigned char e[EI_NIDENT];

	return pread(fd, e, sizeof(e), 0) == sizeof(e) && !memcmp(e, ELFMAG, SELFMAG) &&
	       (e[EI_CLASS] == ELFCLASS32 || e[EI_CLASS] == ELFCLASS64) &&
	       (e[EI_DATA] == ELFDATA2LSB || e[EI_DATA] == ELFDATA2MSB) &&
	       e[EI_VERSION] == EV_CURRENT;
}

/* Open the debug file with this build ID. Returns a descriptor and its path, or -1. */
static int open_debug(struct binary *b, char *path, size_t size)
{
	char hex[2 * BUILD_ID_MAX + 1];
	int fd;

	if (!b->len)
		return -1;
	binary_id(b, hex, sizeof(hex));
	snprintf(path, size, DEBUG_DIR "/.build-id/%.2s/%s.debug", hex, hex + 2);
	fd = open_if(b, 0, path, NULL);
	if (fd < 0 && ask_debuginfod("debuginfo", hex, path, size))
		fd = open_if(b, 0, path, NULL);
	return fd;
}

/*
 * May the paths be opened here, without the processes that mapped them? Not while one of them
 * runs that has other mounts.
 */
static bool are_here(const struct binary *b)
{
	bool here = true;
	size_t i;

	for (i = 0; i < ARRAY_LEN(b->places) && here; i++) {
		if (!b->places[i].path || b->places[i].pid <= 0)
			continue;
		watch(&b->places[i]);
		here = is_path_here(b->places[i].pid);
	}
	watch(NULL);
	return here;
}

/* Open the file that the process mapped at @at. Returns a descriptor and its path, or -1. */
static int find_mapped(struct binary *b, const struct place *at, char *path, size_t size)
{
	int fd;

	if (at->pid <= 0)
		return -1;
	watch(at);
	snprintf(path, size, "%s", at->path);
	fd = open_if_it(b, at->pid, path, at);
	/* Deleted and still running. */
	if (fd < 0) {
		snprintf(path, size, "/proc/%d/exe", live_thread(at->pid));
		fd = open_if_it(b, 0, path, at);
	}
	if (fd < 0)
		fd = open_mapped(at->pid, b->id, !b->len);
	watch(NULL);
	return fd;
}

/* Open the file, or its debug file. Returns a descriptor and its path, or -1. */
static int find_file(struct binary *b, char *path, size_t size)
{
	char hex[2 * BUILD_ID_MAX + 1];
	const struct place *at;
	bool here;
	int fd = -1;

	for (at = b->places; at < b->places + ARRAY_LEN(b->places) && fd < 0; at++)
		if (at->path)
			fd = find_mapped(b, at, path, size);
	here = fd < 0 && are_here(b);
	for (at = b->places; here && at < b->places + ARRAY_LEN(b->places) && fd < 0; at++) {
		if (!at->path || at->pid <= 0)
			continue;
		snprintf(path, size, "%s", at->path);
		watch(at);
		fd = open_if_it(b, 0, path, at);
		watch(NULL);
	}
	if (fd >= 0 || !b->len)
		return fd;
	binary_id(b, hex, sizeof(hex));
	snprintf(path, size, DEBUG_DIR "/.build-id/%.2s/%s", hex, hex + 2);
	fd = open_if(b, 0, path, NULL);
	if (fd < 0 && ask_debuginfod("executable", hex, path, size))
		fd = open_if(b, 0, path, NULL);
	/* The debug file may have the symbols. */
	return fd < 0 ? open_debug(b, path, size) : fd;
}

/* Does the file have the checksum from .gnu_debuglink? */
static bool has_crc(int fd, GElf_Word want)
{
	uint8_t buf[65536];
	uLong crc = crc32(0, NULL, 0);
	struct stat st;
	off_t at = 0;
	ssize_t n;

	if (fstat(fd, &st) || (uint64_t)st.st_size > MAX_CRC_FILE)
		return false;
	while (at <= st.st_size && (n = pread(fd, buf, sizeof(buf), at)) > 0 && !interrupted()) {
		crc = crc32(crc, buf, n);
		at += n;
	}
	return !n && crc == want;
}

/* Open the debug file @link of a file that was mapped at @at. Returns it and its path, or -1. */
static int open_link(struct binary *b, const struct place *at, const char *link, GElf_Word crc,
		     char *path, size_t size)
{
	/* The last two are those of the process. */
	static const char * const formats[] = { DEBUG_DIR "%.*s/%s", "%.*s/.debug/%s", "%.*s/%s" };
	int fd = -1, dir = strrchr(at->path, '/') - at->path;
	size_t i;

	for (i = 0; fd < 0 && i < ARRAY_LEN(formats); i++) {
		snprintf(path, size, formats[i], dir, at->path, link);
		watch(at);
		if (i && at->pid > 0)
			fd = open_if(b, at->pid, path, NULL);
		if (fd < 0 && (!i || (at->pid > 0 && are_here(b)))) {
			watch(i ? at : NULL);
			fd = open_if(b, 0, path, NULL);
		}
		watch(NULL);
		if (fd >= 0 && !b->len && !(is_elf(fd) && has_crc(fd, crc))) {
			close(fd);
			fd = -1;
		}
	}
	return fd;
}

/*
 * dwfl_standard_find_debuginfo() opens any path that the file's .gnu_debuglink leads to,
 * and any user can own the file. This one opens only a regular file, with the build ID or,
 * if the file has none, with the checksum.
 */
static int find_debuginfo(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
			  const char *file, const char *link, GElf_Word crc, char **found)
{
	struct binary *b = *userdata;
	char path[2 * PATH_MAX];
	int fd;
	size_t i;

	fd = open_debug(b, path, sizeof(path));
	if (link && *link && !strchr(link, '/'))
		for (i = 0; i < ARRAY_LEN(b->places) && fd < 0; i++)
			if (b->places[i].path)
				fd = open_link(b, &b->places[i], link, crc, path, sizeof(path));
	if (fd >= 0 && !apart_allow(fd, true)) {
		close(fd);
		fd = -1;
	}
	*found = fd < 0 ? NULL : strdup(path);
	return fd;
}

/*
 * Was the text removed, with program headers that no longer have its offset? objcopy
 * --only-keep-debug changes them; eu-strip -f does not.
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

/* The segments of a debug file so far: the end of the last one, in the file. */
struct layout {
	bool any;
	GElf_Addr base;
	GElf_Off end;
};

/*
 * Reconstruct the file offset of a segment of a debug file. A linker places a segment at
 * the lowest aligned offset after the previous one, or at the same distance as in memory.
 * These are mostly the same. If not, return false: a wrong name is worse than none.
 */
static bool place_segment(GElf_Phdr *p, struct layout *l)
{
	GElf_Off gap;

	if (!l->any) {
		/* The first one has the ELF header, and its offset is kept. */
		if (p->p_offset || !p->p_filesz)
			return false;
		l->any = true;
		l->base = p->p_vaddr;
	}
	/* The size of .bss is not known, so neither are this end and later offsets. */
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

static void close_current(void)
{
	if (current.dwfl)
		dwfl_end(current.dwfl);
	memset(&current, 0, sizeof(current));
}

static void open_current(struct binary *b)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_build_id_find_elf,
		.find_debuginfo = find_debuginfo,
		.section_address = dwfl_offline_section_address,
	};
	char path[PATH_MAX + 32];
	void **userdata;
	int fd;

	current.binary = b;
	if (b->state == UNTRIED)
		b->state = NOT_FOUND;
	watch(NULL);
	fd = find_file(b, path, sizeof(path));
	if (fd < 0)
		return;
	b->state = FOUND;
	if (!apart_allow(fd, false)) {
		b->state = TOO_LARGE;
		close(fd);
		return;
	}
	current.dwfl = is_elf(fd) ? dwfl_begin(&callbacks) : NULL;
	if (!current.dwfl) {
		close(fd);
		return;
	}
	dwfl_report_begin(current.dwfl);
	current.mod = dwfl_report_offline(current.dwfl, b->name, path, fd);
	dwfl_report_end(current.dwfl, NULL, NULL);
	apart_mapped();
	if (!current.mod) {
		close(fd);
		return;
	}
	dwfl_module_info(current.mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = b;
	current.elf = dwfl_module_getelf(current.mod, &current.bias);
	current.debug_only = current.elf && has_no_text(current.elf);
	/* Now find_debuginfo() is called. */
	dwfl_module_getsymtab(current.mod);
	apart_mapped();
}

/*
 * Symbols without a size that mark code ($x, $a, $t) and data ($d) in these files. Another name can
 * follow after a dot, and the instruction set on RISC-V.
 */
static bool is_mapping_symbol(const char *name)
{
	GElf_Ehdr e;

	if (*name != '$' || !name[1] || !strchr("adtx", name[1]) || !gelf_getehdr(current.elf, &e))
		return false;
	if (e.e_machine == EM_RISCV && !strncmp(name, "$xrv", 4))
		return true;
	return (!name[2] || name[2] == '.') &&
	       (e.e_machine == EM_AARCH64 || e.e_machine == EM_ARM || e.e_machine == EM_RISCV);
}

/* The symbol at @offset of the current file. */
static const char *find_symbol(uint64_t offset, bool is_return)
{
	struct layout layout = {};
	const char *name;
	GElf_Off into;
	GElf_Phdr p;
	GElf_Sym sym;
	size_t i, n;

	if (!current.elf || elf_getphdrnum(current.elf, &n))
		return NULL;
	for (i = 0; i < n; i++) {
		if (!gelf_getphdr(current.elf, i, &p) || p.p_type != PT_LOAD)
			continue;
		if (current.debug_only && !place_segment(&p, &layout))
			return NULL;
		if (offset < p.p_offset || offset - p.p_offset >= p.p_filesz)
			continue;
		/* dwfl_module_addrinfo() ignores sized symbols that end before the address. */
		name = dwfl_module_addrinfo(current.mod, offset - p.p_offset + p.p_vaddr +
					    current.bias - is_return, &into, &sym, NULL, NULL,
					    NULL);
		if (name && !sym.st_size && is_mapping_symbol(name))
			return NULL;
		if (name)
			return name;
	}
	return NULL;
}

static void on_sigbus(int sig)
{
	siglongjmp(truncated, 1);
}

char *binary_symbol(struct binary *b, uint64_t offset, bool is_return, enum outcome *outcome)
{
	struct sigaction sa = { .sa_handler = on_sigbus }, old;
	const char *found;
	char *name = NULL;

	/*
	 * libdw maps the file, and its owner can truncate it. The longjmp() leaves libdw
	 * in the middle of a lookup, so its data of this file is not used again.
	 */
	errno = 0;
	sigaction(SIGBUS, &sa, &old);
	if (sigsetjmp(truncated, 1)) {
		name = NULL;
		leaked = true;
		memset(&current, 0, sizeof(current));
		current.binary = b;
		b->state = NOT_READABLE;
	} else {
		if (current.binary != b) {
			close_current();
			open_current(b);
		}
		found = find_symbol(offset, is_return);
		/* Copy it: it points into the file. */
		name = found ? strndup(found, MAX_NAME) : NULL;
	}
	/* libdw does not report it: it continues without the symbols that need the memory. */
	if (!name && errno == ENOMEM && b->state == FOUND)
		b->state = TOO_LARGE;
	sigaction(SIGBUS, &old, NULL);
	if (name)
		*outcome = SYMBOLIZED;
	else if (b->state == FOUND)
		*outcome = NO_SYMBOL;
	else if (b->state == TOO_LARGE)
		*outcome = OVER_LIMIT;
	else if (b->state == NOT_READABLE)
		*outcome = UNREADABLE;
	else if (b->hangs)
		*outcome = OVER_LIMIT;
	return name;
}

bool binary_leaked(void)
{
	return leaked;
}

uint64_t binary_dropped(void)
{
	return dropped;
}

void binary_free_all(void)
{
	struct binary *b, *next;
	size_t i, j;

	close_current();
	for (i = 0; i < BUCKETS; i++) {
		for (b = binaries[i]; b; b = next) {
			next = b->next;
			for (j = 0; j < ARRAY_LEN(b->places); j++)
				free(b->places[j].path);
			free(b->name);
			free(b);
		}
		binaries[i] = NULL;
	}
}
