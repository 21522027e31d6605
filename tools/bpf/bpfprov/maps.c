// SPDX-License-Identifier: GPL-2.0
/*
 * bpfprov maps - list the mappings of a task, with the build IDs of the files.
 *
 * With PROCMAP_QUERY the kernel reads the build ID, even of a file that was deleted or is
 * not in this mount namespace. Without it, the text of /proc/PID/maps is parsed, and files
 * are opened through /proc/PID/map_files. Either may wait for a FUSE server that does not
 * answer, so it is done in a child process.
 */
#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "apart.h"
#include "bpfprov.h"
#include "maps.h"

/* After that many build IDs of a process that could not be read in time, none is read. */
#define MAX_FAILURES	2
/* Seconds: likewise after waiting for all of them that long. */
#define TIME_IDS	20

/* Of all note segments of a file. Those that exceed it are not read. */
#define MAX_NOTES	(1 << 20)

static struct {
	long pid;
	uint64_t *addrs;
	size_t count;
	bool no_query, json;
} env;

enum { OPT_NO_QUERY = 1, OPT_JSON };

static const struct argp_option options[] = {
	{ "json", OPT_JSON, NULL, 0, "a JSON object per line", 0 },
	{ "no-query", OPT_NO_QUERY, NULL, 0, "do not use PROCMAP_QUERY, as on kernels before 6.11", 0 },
	{}
};

static const char doc[] =
	"Print the mappings of a process, or those at ADDR, with build IDs.\n"
	"\vExamples:\n"
	"  bpfprov maps 1\n"
	"  bpfprov maps $$ 0x55d4c8a01234\n"
	"\n"
	"The columns are those of /proc/PID/maps, with the build ID, or -, before the\n"
	"path. Needs CAP_SYS_PTRACE for processes of others.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	uint64_t addr;
	char *end;

	switch (key) {
	case OPT_JSON:
		env.json = true;
		return 0;
	case OPT_NO_QUERY:
		env.no_query = true;
		return 0;
	case ARGP_KEY_ARG:
		if (!state->arg_num) {
			env.pid = parse_number(state, arg, "PID", 1, INT_MAX);
			return 0;
		}
		errno = 0;
		addr = strtoull(arg, &end, 16);
		/* strtoull() skips blanks, and takes a sign. */
		if (errno || *end || !isxdigit((unsigned char)*arg))
			argp_error(state, "%s is not a hexadecimal address", arg);
		if (!env.addrs)
			env.addrs = calloc(state->argc, sizeof(*env.addrs));
		if (!env.addrs)
			argp_failure(state, BPFPROV_FAILED, ENOMEM, "addresses");
		env.addrs[env.count++] = addr;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "PID is missing");
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- build IDs of files ----------------------------------------------------- */

/* The build ID among the notes of @data. */
static size_t note_build_id(Elf_Data *data, uint8_t *id)
{
	size_t pos = 0, name, desc;
	GElf_Nhdr n;

	while (data && (pos = gelf_getnote(data, pos, &n, &name, &desc)) > 0) {
		if (n.n_type != NT_GNU_BUILD_ID || n.n_namesz != sizeof(ELF_NOTE_GNU) ||
		    memcmp((char *)data->d_buf + name, ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) ||
		    !n.n_descsz || n.n_descsz > BUILD_ID_MAX)
			continue;
		memcpy(id, (char *)data->d_buf + desc, n.n_descsz);
		return n.n_descsz;
	}
	return 0;
}

static bool is_key(const struct stat *st, const struct file_key *key)
{
	return st->st_ino == key->ino && major(st->st_dev) == key->dev_major &&
	       minor(st->st_dev) == key->dev_minor;
}

/*
 * File systems whose regular files only hold data. Those of others act on open() or read(),
 * as in /proc, functionfs and efivarfs. Not all numbers are in linux/magic.h.
 */
static bool is_of_data(int fd)
{
	static const uint32_t types[] = {
		EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
		TMPFS_MAGIC, RAMFS_MAGIC, OVERLAYFS_SUPER_MAGIC, SQUASHFS_MAGIC,
		EROFS_SUPER_MAGIC_V1, CRAMFS_MAGIC, FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC,
		SMB2_SUPER_MAGIC, CIFS_SUPER_MAGIC, V9FS_MAGIC, CEPH_SUPER_MAGIC, AFS_FS_MAGIC,
		HUGETLBFS_MAGIC, ISOFS_SUPER_MAGIC, MSDOS_SUPER_MAGIC, EXFAT_SUPER_MAGIC,
		UDF_SUPER_MAGIC, NILFS_SUPER_MAGIC, OCFS2_SUPER_MAGIC,
		ECRYPTFS_SUPER_MAGIC, 0x3153464a /* jfs */,
		0x01161970 /* gfs2 */, 0xca451a4e /* bcachefs */, 0x2fc12fc1 /* zfs */,
		0x7366746e /* ntfs3 */,
	};
	struct statfs fs;
	size_t i;

	if (fstatfs(fd, &fs))
		return false;
	for (i = 0; i < ARRAY_LEN(types); i++)
		if ((uint32_t)fs.f_type == types[i])
			return true;
	return false;
}

/* Does stat() report another device than /proc/PID/maps? */
static bool has_other_device(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) &&
	       (fs.f_type == BTRFS_SUPER_MAGIC || fs.f_type == OVERLAYFS_SUPER_MAGIC);
}

/* Was the inode reused for another file? Few file systems report the generation. */
static bool is_reused(int fd, const struct file_key *key)
{
	/* The type is long, and file systems store an int. */
	uint32_t version[2];

	return key->generation && !ioctl(fd, FS_IOC_GETVERSION, version) &&
	       *version != key->generation;
}

/* The first mount of the namespace of a process that its root directory reaches, "" if none. */
static int first_mount(const char *pid, char *line, size_t size)
{
	char path[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/mountinfo", pid);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	if (!fgets(line, size, f))
		*line = 0;
	fclose(f);
	return 0;
}

/* The ID of a mount is unique in all namespaces. Reading /proc/PID/ns needs more privilege. */
bool is_path_here(int pid)
{
	char self[1024], other[1024], name[16];
	int err;

	if (pid < 0)
		return false;
	snprintf(name, sizeof(name), "%d", live_thread(pid));
	err = first_mount(name, other, sizeof(other));
	/* -EINVAL: all threads are zombies. */
	if (err)
		return err == -ENOENT || err == -ESRCH || err == -EINVAL;
	return !first_mount("self", self, sizeof(self)) && *self && !strcmp(self, other);
}

/* The state of a task, as in /proc/PID/stat; 'X' if it has ended. */
static char state_of(int pid)
{
	char path[32], text[128] = "", *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 'X';
	/* Not a line: the name of a task can have a newline. No field after it has a bracket. */
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	end = strrchr(text, ')');
	fclose(f);
	return end && end[1] ? end[2] : 'X';
}

int live_thread(int pid)
{
	struct dirent *e;
	int tid, live = pid;
	char path[32];
	DIR *d;

	if (state_of(pid) != 'Z')
		return pid;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	d = opendir(path);
	while (d && live == pid && (e = readdir(d))) {
		tid = atoi(e->d_name);
		if (tid > 0 && tid != pid && !strchr("ZX", state_of(tid)))
			live = tid;
	}
	if (d)
		closedir(d);
	return live;
}

bool has_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Not by the states of its threads: it can have thousands of zombies. */
bool process_ended(int pid)
{
	int fd = syscall(SYS_pidfd_open, pid, 0);
	bool ended = fd < 0 || has_ended(fd);

	if (fd >= 0)
		close(fd);
	return ended;
}

/* As the process sees it: its symbolic links must not lead out of its root directory. */
static int open_path(int pid, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	char root[32];
	int dir, fd;

	if (!pid)
		return open(path, O_PATH | O_CLOEXEC);
	snprintf(root, sizeof(root), "/proc/%d/root", live_thread(pid));
	dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
	close(dir);
	return fd;
}

/*
 * O_PATH refers to the file without calling the open() of its driver or file system;
 * /proc/self/fd then opens the file that was checked, even if the path leads to another
 * file by then.
 */
int open_file(int pid, const char *path, const struct file_key *key, bool has_id)
{
	int fd, at = open_path(pid, path);
	char self[32];
	struct stat st;

	if (at < 0)
		return -1;
	if (fstat(at, &st) || !S_ISREG(st.st_mode) || !is_of_data(at) ||
	    (key && !is_key(&st, key) && !(has_id && has_other_device(at)))) {
		close(at);
		errno = ENOENT;
		return -1;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
	/* O_NONBLOCK: do not wait for the holder of a lease. */
	fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	close(at);
	if (fd >= 0 && key && !has_id && is_reused(fd, key)) {
		close(fd);
		errno = ENOENT;
		return -1;
	}
	return fd;
}

/* The header of an ELF file, and a segment of notes: for libelf a file of its own. */
struct image {
	union {
		unsigned char ident[EI_NIDENT];
		Elf32_Ehdr e32;
		Elf64_Ehdr e64;
	} header;
	char notes[MAX_NOTES];
};

/* Program header @i of @fd, with the header @e, which is in @elf. */
static bool read_phdr(int fd, Elf *elf, const GElf_Ehdr *e, size_t i, GElf_Phdr *p)
{
	bool is64 = e->e_ident[EI_CLASS] == ELFCLASS64;
	union {
		Elf32_Phdr p32;
		Elf64_Phdr p64;
	} raw, native;
	ssize_t size = is64 ? sizeof(raw.p64) : sizeof(raw.p32);
	Elf_Data from = {
		.d_buf = &raw,
		.d_type = ELF_T_PHDR,
		.d_version = EV_CURRENT,
		.d_size = size,
	}, to = from;

	to.d_buf = &native;
	if (pread(fd, &raw, size, e->e_phoff + i * size) != size ||
	    !gelf_xlatetom(elf, &to, &from, e->e_ident[EI_DATA]))
		return false;
	if (is64) {
		*p = native.p64;
		return true;
	}
	*p = (GElf_Phdr){
		.p_type = native.p32.p_type,
		.p_offset = native.p32.p_offset,
		.p_filesz = native.p32.p_filesz,
		.p_align = native.p32.p_align,
	};
	return true;
}

static size_t image_build_id(struct image *m, const GElf_Phdr *p, uint8_t *id)
{
	Elf_Type type = p->p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
	Elf *elf = elf_memory((char *)m, sizeof(*m));
	size_t len;

	len = note_build_id(elf_getdata_rawchunk(elf, offsetof(struct image, notes), p->p_filesz,
						 type), id);
	elf_end(elf);
	return len;
}

/*
 * libelf reads all program headers at once, allocates memory for each section, and keeps all
 * data until elf_end(). The owner of the file chooses their numbers and sizes, and can change
 * them after a check. So libelf gets only memory, with the bytes that were read and checked here.
 */
size_t fd_build_id(int fd, uint8_t *id)
{
	struct image *m = malloc(sizeof(*m));
	size_t i, left = MAX_NOTES, len = 0;
	Elf *elf = NULL;
	GElf_Ehdr e;
	GElf_Phdr p;

	if (!m || pread(fd, &m->header, sizeof(m->header), 0) != sizeof(m->header))
		goto out;
	/* No sections. 0 is the same in both byte orders. */
	if (m->header.ident[EI_CLASS] == ELFCLASS64) {
		m->header.e64.e_shoff = 0;
		m->header.e64.e_shnum = 0;
	} else {
		m->header.e32.e_shoff = 0;
		m->header.e32.e_shnum = 0;
	}
	elf_version(EV_CURRENT);
	elf = elf_memory((char *)m, sizeof(*m));
	/* With PN_XNUM there are more, up to 2^32: executables do not need that. */
	if (!elf || elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &e) || e.e_phnum == PN_XNUM)
		goto out;
	for (i = 0; i < e.e_phnum && !len && read_phdr(fd, elf, &e, i, &p); i++) {
		if (p.p_type != PT_NOTE || p.p_filesz > left)
			continue;
		left -= p.p_filesz;
		if (pread(fd, m->notes, p.p_filesz, p.p_offset) == (ssize_t)p.p_filesz)
			len = image_build_id(m, &p, id);
	}
out:
	elf_end(elf);
	free(m);
	return len;
}

size_t file_build_id(int pid, const char *path, const struct file_key *key, uint8_t *id)
{
	int fd = open_file(pid, path, key, false);
	size_t len;

	if (fd < 0)
		return 0;
	len = fd_build_id(fd, id);
	close(fd);
	return len;
}

/* --- mappings ------------------------------------------------------------------ */

int maps_open(struct maps *m, int pid, bool no_query)
{
	char path[32];

	memset(m, 0, sizeof(*m));
	m->pid = live_thread(pid);
	m->text = no_query;
	snprintf(path, sizeof(path), "/proc/%d/maps", m->pid);
	m->fd = open(path, O_RDONLY | O_CLOEXEC);
	return m->fd < 0 ? -errno : 0;
}

void maps_close(struct maps *m)
{
	if (m->f)
		fclose(m->f);
	else if (m->fd >= 0)
		close(m->fd);
	free(m->line);
}

static int query(struct maps *m, uint64_t addr, enum which which, struct mapping *v)
{
	static const uint64_t flags[] = {
		[MAP_NEXT] = PROCMAP_QUERY_COVERING_OR_NEXT_VMA,
		[MAP_NEXT_CODE] = PROCMAP_QUERY_COVERING_OR_NEXT_VMA |
				  PROCMAP_QUERY_VMA_EXECUTABLE | PROCMAP_QUERY_FILE_BACKED_VMA,
	};
	struct procmap_query q = {
		.size = sizeof(q),
		.query_flags = flags[which],
		.query_addr = addr,
		.vma_name_size = sizeof(v->path),
		.vma_name_addr = (uintptr_t)v->path,
		.build_id_size = m->no_id ? 0 : sizeof(v->build_id),
		.build_id_addr = m->no_id ? 0 : (uintptr_t)v->build_id,
	};

	if (ioctl(m->fd, PROCMAP_QUERY, &q)) {
		if (errno != E2BIG && errno != ENAMETOOLONG)
			return -errno;
		/* The name is longer than PATH_MAX: omit it. */
		q.vma_name_size = 0;
		q.vma_name_addr = 0;
		q.build_id_size = m->no_id ? 0 : sizeof(v->build_id);
		if (ioctl(m->fd, PROCMAP_QUERY, &q))
			return -errno;
	}
	v->start = q.vma_start;
	v->end = q.vma_end;
	v->offset = q.vma_offset;
	v->inode = q.inode;
	v->dev_major = q.dev_major;
	v->dev_minor = q.dev_minor;
	v->build_id_len = q.build_id_size;
	if (!q.vma_name_size)
		*v->path = 0;
	snprintf(v->perms, sizeof(v->perms), "%c%c%c%c",
		 q.vma_flags & PROCMAP_QUERY_VMA_READABLE ? 'r' : '-',
		 q.vma_flags & PROCMAP_QUERY_VMA_WRITABLE ? 'w' : '-',
		 q.vma_flags & PROCMAP_QUERY_VMA_EXECUTABLE ? 'x' : '-',
		 q.vma_flags & PROCMAP_QUERY_VMA_SHARED ? 's' : 'p');
	return 0;
}

/*
 * After the end of the text: is it empty now? It is if the process is a zombie or exiting, which
 * may have cut it short, or a kernel thread.
 */
static bool is_empty(struct maps *m)
{
	rewind(m->f);
	return getline(&m->line, &m->size, m->f) < 0;
}

/* The inode number in /proc/PID/maps, since Linux 5.14; 0 before that. */
static unsigned long long inode_of(int fd)
{
	unsigned long long ino = 0;
	char path[40], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "ino: %llu", &ino);
	if (f)
		fclose(f);
	return ino;
}

/* Does the line @v describe this file? */
static bool is_file_of_line(int fd, const struct mapping *v)
{
	const struct file_key key = {
		.ino = v->inode, .dev_major = v->dev_major, .dev_minor = v->dev_minor,
	};
	struct stat st;

	if (fstat(fd, &st))
		return false;
	return is_key(&st, &key) ||
	       (has_other_device(fd) && (st.st_ino == key.ino || inode_of(fd) == key.ino));
}

/* Since @v was read, another file may have been mapped there. */
static size_t build_id_of_line(int pid, struct mapping *v)
{
	char file[80];
	size_t len = 0;
	int fd;

	snprintf(file, sizeof(file), "/proc/%d/map_files/%llx-%llx", pid, v->start, v->end);
	fd = open_file(0, file, NULL, false);
	if (fd < 0)
		return 0;
	if (is_file_of_line(fd, v))
		len = fd_build_id(fd, v->build_id);
	close(fd);
	return len;
}

/* The same from the text of /proc/PID/maps. */
static int read_text(struct maps *m, uint64_t addr, enum which which, struct mapping *v)
{
	int name = 0;
	char *p;

	if (!m->f)
		m->f = fdopen(m->fd, "r");
	if (!m->f)
		return -errno;
	/* A walk continues from the last line; any other lookup starts again. */
	if (addr < m->last_end || which == MAP_AT)
		rewind(m->f);
	/* [vsyscall] is not a mapping: a query does not find it. */
	do {
		errno = 0;
		if (getline(&m->line, &m->size, m->f) < 0)
			return errno ? -errno : is_empty(m) ? -ESRCH : -ENOENT;
		if (sscanf(m->line, "%llx-%llx %4s %llx %x:%x %llu %n",
			   &v->start, &v->end, v->perms, &v->offset, &v->dev_major,
			   &v->dev_minor, &v->inode, &name) < 7)
			return -EPROTO;
	} while (v->end <= addr || v->start >= 1ULL << 63 ||
		 (which == MAP_NEXT_CODE && (v->perms[2] != 'x' || !v->inode)));
	m->last_end = v->end;
	if (which == MAP_AT && v->start > addr)
		return -ENOENT;
	snprintf(v->path, sizeof(v->path), "%s", m->line + name);
	v->path[strcspn(v->path, "\n")] = 0;
	/* The file may be opened by this path. The kernel escapes no other character. */
	while ((p = strstr(v->path, "\\012"))) {
		*p = '\n';
		memmove(p + 1, p + 4, strlen(p + 4) + 1);
	}
	v->build_id_len = v->inode && !m->no_id ? build_id_of_line(m->pid, v) : 0;
	return 0;
}

int maps_find(struct maps *m, uint64_t addr, enum which which, struct mapping *v)
{
	int err;

	if (!m->text) {
		err = query(m, addr, which, v);
		if (err != -ENOTTY)
			return err;
		m->text = true;
	}
	return read_text(m, addr, which, v);
}

bool mapping_is_valid(const struct mapping *v)
{
	return v->build_id_len <= BUILD_ID_MAX && memchr(v->perms, 0, sizeof(v->perms)) &&
	       !v->perms[strspn(v->perms, "rwxsp-")] && memchr(v->path, 0, sizeof(v->path));
}

static bool is_of_file(const struct mapping *v, const uint8_t id[BUILD_ID_MAX], bool by_key)
{
	uint8_t padded[BUILD_ID_MAX] = {};
	struct file_key key;

	if (by_key) {
		memcpy(&key, id, sizeof(key));
		return v->inode == key.ino && v->dev_major == key.dev_major &&
		       v->dev_minor == key.dev_minor;
	}
	memcpy(padded, v->build_id, v->build_id_len);
	return v->build_id_len && !memcmp(padded, id, sizeof(padded));
}

static bool may_be(int fd, const struct file_key *key)
{
	struct stat st;

	return !fstat(fd, &st) && (is_key(&st, key) || has_other_device(fd)) && !is_reused(fd, key);
}

static bool has_build_id(int fd, const uint8_t id[BUILD_ID_MAX])
{
	uint8_t own[BUILD_ID_MAX] = {};

	return fd_build_id(fd, own) && !memcmp(own, id, sizeof(own));
}

/* Open the file that is mapped there, if it is the one that open_mapped() searches. */
static int open_range(struct maps *m, uint64_t start, uint64_t end,
		      const uint8_t id[BUILD_ID_MAX], bool by_key)
{
	static struct mapping v;
	struct file_key key;
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, m->pid, start, end);
	fd = open_file(0, path, NULL, false);
	memcpy(&key, id, sizeof(key));
	/* Check that it was not replaced in between, or the inode used again. */
	if (fd >= 0 && (maps_find(m, start, MAP_AT, &v) || !is_of_file(&v, id, by_key) ||
			(by_key ? !may_be(fd, &key) : !has_build_id(fd, id)))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int open_mapped(int pid, const uint8_t id[BUILD_ID_MAX], bool by_key)
{
	static struct mapping v;
	uint64_t addr = 0;
	struct maps m;
	int fd = -1;

	if (maps_open(&m, pid, false))
		return -1;
	while (!maps_find(&m, addr, MAP_NEXT, &v)) {
		addr = v.end;
		if (is_of_file(&v, id, by_key)) {
			fd = open_range(&m, v.start, v.end, id, by_key);
			break;
		}
	}
	maps_close(&m);
	return fd;
}

size_t mapped_build_id(int pid, uint64_t start, uint64_t end, const struct file_key *key,
		       uint8_t *id)
{
	struct maps m;
	size_t len = 0;
	int fd;

	if (maps_open(&m, pid, false))
		return 0;
	/* Another file may be mapped there by now. */
	m.no_id = true;
	fd = open_range(&m, start, end, (const uint8_t *)key, true);
	if (fd >= 0) {
		len = fd_build_id(fd, id);
		close(fd);
	}
	maps_close(&m);
	return len;
}

/* --- output ---------------------------------------------------------------------- */

static void print_json(const struct mapping *v)
{
	printf("{\"start\":\"0x%llx\",\"end\":\"0x%llx\",\"perms\":\"%s\"", v->start, v->end,
	       v->perms);
	if (v->inode)
		printf(",\"offset\":\"0x%llx\",\"dev\":\"%u:%u\",\"inode\":%llu", v->offset,
		       v->dev_major, v->dev_minor, v->inode);
	if (v->build_id_len) {
		printf(",\"build_id\":\"");
		print_hex(stdout, v->build_id, v->build_id_len);
		putchar('"');
	}
	if (*v->path) {
		printf(",\"path\":");
		json_string(stdout, v->path);
	}
	printf("}\n");
}

static void print_mapping(const struct mapping *v)
{
	if (env.json) {
		print_json(v);
		return;
	}
	printf("%08llx-%08llx %s %08llx %02x:%02x %llu ", v->start, v->end, v->perms, v->offset,
	       v->dev_major, v->dev_minor, v->inode);
	if (v->build_id_len)
		print_hex(stdout, v->build_id, v->build_id_len);
	else
		putchar('-');
	if (*v->path)
		putchar(' ');
	print_clean(stdout, v->path);
	putchar('\n');
}

/* Print why reading failed. Returns the exit code. */
static int explain(int err)
{
	if (err == -ENOENT || err == -ESRCH) {
		if (kill(env.pid, 0) && errno == ESRCH)
			say("there is no process %ld", env.pid);
		else
			say("process %ld has no memory: it is exiting, or is a kernel thread", env.pid);
		return BPFPROV_GONE;
	}
	if (is_denied(-err)) {
		say("process %ld: needs CAP_SYS_PTRACE", env.pid);
		return BPFPROV_CAP;
	}
	say("process %ld: %s", env.pid, strerror(-err));
	return BPFPROV_FAILED;
}

/* Where to continue. */
struct walk {
	size_t at;		/* index of the next address */
	uint64_t addr;		/* without addresses: the end of the last mapping */
	bool no_id;		/* do not read the build ID of the next one */
	int failures;
};

struct found {
	int err;
	bool text;		/* struct maps.text */
	struct mapping v;
};

/* In a child process. */
static void send_mappings(int fd, void *ctx)
{
	static struct found f;
	struct walk *w = ctx;
	struct maps m;

	f.err = maps_open(&m, env.pid, env.no_query);
	if (f.err) {
		/* -ENOENT: nothing is mapped there. */
		if (f.err == -ENOENT)
			f.err = -ESRCH;
		send(fd, &f, sizeof(f), MSG_NOSIGNAL);
		return;
	}
	m.no_id = w->no_id;
	do {
		if (env.count)
			f.err = maps_find(&m, env.addrs[w->at++], MAP_AT, &f.v);
		else
			f.err = maps_find(&m, w->addr, MAP_NEXT, &f.v);
		f.text = m.text;
		w->addr = f.v.end;
		m.no_id = w->failures >= MAX_FAILURES;
	} while (send(fd, &f, sizeof(f), MSG_NOSIGNAL) > 0 &&
		 (env.count ? w->at < env.count : !f.err));
}

/* Of a process or a thread, or -1. Threads since 6.9, with PIDFD_THREAD. */
static int pidfd_of(int pid)
{
	int fd;

	if (!is_own_proc())
		return -1;
	fd = syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? syscall(SYS_pidfd_open, pid, O_EXCL) : fd;
}

/* Print the mappings. Returns the exit code. */
static int list(bool *text)
{
	static struct found f;
	int pidfd = pidfd_of(env.pid), err, rc = BPFPROV_OK;
	struct apart a = {};
	struct walk w = {};
	bool failed = false;

	while (!env.count || w.at < env.count) {
		/* Each of them can be in time, and all of them together take days. */
		if (a.waited > TIME_IDS * NSEC_PER_SEC && w.failures < MAX_FAILURES) {
			say("process %ld: reading its build IDs takes too long: no further ones are read",
			    env.pid);
			apart_end(&a);
			rc = BPFPROV_FAILED;
			w.failures = MAX_FAILURES;
			w.no_id = true;
		}
		err = a.pid ? 0 : apart_start(&a, send_mappings, &w);
		if (err) {
			say("a child process, to read files: %s", strerror(-err));
			rc = BPFPROV_FAILED;
			break;
		}
		if (apart_receive(&a, &f, sizeof(f)) != sizeof(f) || f.err > 0 ||
		    !mapping_is_valid(&f.v)) {
			apart_end(&a);
			rc = BPFPROV_FAILED;
			if (w.no_id) {
				say("process %ld: reading its mappings took too long, or failed",
				    env.pid);
				break;
			}
			w.no_id = true;
			failed = true;
			w.failures++;
			continue;
		}
		*text = f.text;
		/*
		 * From then on, the PID may be that of another one, whose files are in
		 * map_files, and whose mappings a second child process finds.
		 */
		if ((f.text || w.failures) && (!f.err || f.err == -ENOENT) && has_ended(pidfd)) {
			say("process %ld has ended", env.pid);
			rc = BPFPROV_GONE;
			break;
		}
		if (f.err == -ENOENT && !env.count)
			break;
		if (f.err && f.err != -ENOENT) {
			rc = explain(f.err);
			break;
		}
		if (f.err) {
			say("process %ld has no mapping at %llx", env.pid,
			    (unsigned long long)env.addrs[w.at]);
			rc = BPFPROV_FAILED;
		} else {
			print_mapping(&f.v);
			if (failed)
				say("%llx-%llx: reading the build ID took too long, or failed%s",
				    f.v.start, f.v.end, w.failures < MAX_FAILURES ? "" :
				    ": no further ones are read");
		}
		w.at++;
		w.addr = f.v.end;
		w.no_id = w.failures >= MAX_FAILURES;
		failed = false;
	}
	apart_end(&a);
	if (pidfd >= 0)
		close(pidfd);
	return rc;
}

int cmd_maps(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "PID [ADDR...]",
		.doc = doc,
	};
	bool text = false;
	int rc;

	parse_args(&argp, argc, argv);
	rc = list(&text);
	if (text)
		say("%sreduced:%s %s: build IDs are read from the files that can be opened",
		    colour(stderr, YELLOW), colour(stderr, PLAIN),
		    env.no_query ? "without PROCMAP_QUERY" : "this kernel has no PROCMAP_QUERY");
	free(env.addrs);
	if (finish_output(stdout, "standard output"))
		return BPFPROV_FAILED;
	return rc;
}
