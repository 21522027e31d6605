// SPDX-License-Identifier: GPL-2.0
/* The helpers that the commands share. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "bpfprov.h"

static int signals;
static char unlink_path[PATH_MAX];

const char *command_name;

/* Messages that are printed later; NULL: at once. */
static FILE *held;
static char *held_text;
static size_t held_size;

void hold_messages(void)
{
	held = open_memstream(&held_text, &held_size);
}

void release_messages(void)
{
	FILE *f = held;

	held = NULL;
	if (f && !fclose(f))
		fputs(held_text, stderr);
	free(held_text);
	held_text = NULL;
}

void say(const char *fmt, ...)
{
	char text[2 * PATH_MAX], mark[32], *line = NULL, *rest = text;
	FILE *f, *to;
	size_t size;
	va_list ap;

	/* Keep the order where stdout and stderr are the same file. */
	fflush(stdout);
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* Print it at once: other processes may write there, too. */
	f = open_memstream(&line, &size);
	to = f ?: held ?: stderr;
	fprintf(to, "bpfprov%s%s: ", command_name ? " " : "", command_name ?: "");
	/* The mark of a warning has colours. Nothing else in it may change a terminal. */
	snprintf(mark, sizeof(mark), "%sreduced:%s", colour(stderr, YELLOW), colour(stderr, PLAIN));
	if (!strncmp(text, mark, strlen(mark))) {
		fputs(mark, to);
		rest += strlen(mark);
	}
	print_clean(to, rest);
	fputc('\n', to);
	if (f && !fclose(f))
		fputs(line, held ?: stderr);
	free(line);
}

static void on_signal(int sig)
{
	int err = errno;

	if (__atomic_add_fetch(&signals, 1, __ATOMIC_RELAXED) > 2) {
		if (*unlink_path)
			unlink(unlink_path);
		_exit(128 + sig);
	}
	errno = err;
}

bool exiting(void)
{
	return __atomic_load_n(&signals, __ATOMIC_RELAXED) > 0;
}

bool interrupted(void)
{
	return __atomic_load_n(&signals, __ATOMIC_RELAXED) > 1;
}

void interrupt_at_once(void)
{
	int none = 0;

	__atomic_compare_exchange_n(&signals, &none, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void unlink_when_killed(const char *path)
{
	char first = *path;

	/* A signal may come in between: write the first byte last. */
	*unlink_path = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (first)
		snprintf(unlink_path + 1, sizeof(unlink_path) - 1, "%s", path + 1);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	*unlink_path = first;
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

static uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_round(v);
	v[0] ^= word;
}

uint64_t hash_bytes(const void *p, size_t len, uint64_t more)
{
	static uint64_t key[2];
	static bool has_key;
	uint64_t v[4], word;
	size_t i;

	if (!has_key)
		has_key = getrandom(key, sizeof(key), 0) == sizeof(key);
	v[0] = key[0] ^ 0x736f6d6570736575ULL;
	v[1] = key[1] ^ 0x646f72616e646f6dULL;
	v[2] = key[0] ^ 0x6c7967656e657261ULL;
	v[3] = key[1] ^ 0x7465646279746573ULL;
	sip_word(v, more);
	for (i = 0; i + sizeof(word) <= len; i += sizeof(word)) {
		memcpy(&word, p + i, sizeof(word));
		sip_word(v, word);
	}
	word = (uint64_t)len << 56;
	memcpy(&word, p + i, len - i);
	sip_word(v, word);
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void catch_signals(void)
{
	/* Without SA_RESTART: blocking system calls must end. */
	struct sigaction sa = { .sa_handler = on_signal }, old;

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	/* nohup(1) ignores SIGHUP: keep it ignored. */
	if (!sigaction(SIGHUP, NULL, &old) && old.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &sa, NULL);
}

static const char *cap_name(int cap)
{
	switch (cap) {
	case CAP_BPF:
		return "CAP_BPF";
	case CAP_PERFMON:
		return "CAP_PERFMON";
	case CAP_NET_ADMIN:
		return "CAP_NET_ADMIN";
	case CAP_SYS_ADMIN:
		return "CAP_SYS_ADMIN";
	case CAP_SYS_PTRACE:
		return "CAP_SYS_PTRACE";
	default:
		return "a capability";
	}
}

static bool has_cap(const struct __user_cap_data_struct *data, int cap)
{
	return data[CAP_TO_INDEX(cap)].effective & CAP_TO_MASK(cap);
}

bool have_caps(const int *caps)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
	char missing[128] = "";

	if (syscall(SYS_capget, &hdr, data))
		return true;	/* let the kernel refuse */
	for (; *caps >= 0; caps++) {
		if (has_cap(data, *caps) ||
		    ((*caps == CAP_BPF || *caps == CAP_PERFMON) && has_cap(data, CAP_SYS_ADMIN)))
			continue;
		if (*missing)
			strcat(missing, " and ");
		strcat(missing, cap_name(*caps));
	}
	if (*missing)
		say("needs %s", missing);
	return !*missing;
}

bool have_cap(int cap)
{
	struct __user_cap_header_struct hdr = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};

	return syscall(SYS_capget, &hdr, data) || has_cap(data, cap);
}

bool is_denied(int err)
{
	return err == EPERM || err == EACCES;
}

int load_status(int err)
{
	if (is_denied(err))
		return BPFPROV_CAP;
	return err == ENOMEM || err == EMFILE || err == ENFILE ? BPFPROV_FAILED : BPFPROV_KERNEL;
}

bool is_own_proc(void)
{
	char self[16];
	ssize_t len = readlink("/proc/self", self, sizeof(self) - 1);

	if (len < 0)
		return false;
	self[len] = 0;
	return atoi(self) == getpid();
}

bool have_own_proc(void)
{
	if (is_own_proc())
		return true;
	say("/proc shows another PID namespace: mount proc in this one");
	return false;
}

void parse_args(const struct argp *argp, int argc, char **argv)
{
	argp_err_exit_status = BPFPROV_USAGE;
	if (argp_parse(argp, argc, argv, 0, NULL, NULL))
		exit(BPFPROV_USAGE);
}

long parse_number(struct argp_state *state, const char *arg, const char *what,
		  long min, long max)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(arg, &end, 10);
	if (errno || end == arg || *end || n < min || n > max)
		argp_error(state, "%s: %s is not a number from %ld to %ld", what, arg, min, max);
	return n;
}

void raise_file_limit(void)
{
	struct rlimit files;

	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

long parse_ring_pages(struct argp_state *state, const char *arg)
{
	long n = parse_number(state, arg, "--ring-pages", 1, 65536);

	if (n & (n - 1))
		argp_error(state, "--ring-pages: %s is not a power of two", arg);
	return n;
}

int finish_output(FILE *f, const char *name)
{
	/* ferror() has no errno; the last write may set one. */
	bool failed = ferror(f);

	errno = 0;
	failed |= fflush(f) != 0;
	if (f != stdout)
		failed |= fclose(f) != 0;
	if (failed)
		say("writing %s: %s", name, errno ? strerror(errno) : "incomplete");
	return failed ? -1 : 0;
}

/* The length of the UTF-8 sequence at @s; 0 if there is none. */
static int utf8_len(const unsigned char *s)
{
	int i, len;

	if (*s < 0x80)
		return 1;
	if (*s < 0xc2 || *s > 0xf4)
		return 0;
	len = *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;
	for (i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* An overlong form, a surrogate, or above U+10FFFF. */
	if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) ||
	    (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/* The character at @s, whose UTF-8 has @len bytes. */
static unsigned int code_point(const char *s, int len)
{
	static const unsigned char first[] = { 0x7f, 0x1f, 0x0f, 0x07 };
	unsigned int c = *s & first[len - 1];

	while (--len)
		c = c << 6 | (*++s & 0x3f);
	return c;
}

/* Also those that change the direction of text, and so the order of what a line shows. */
static bool is_control(unsigned int c)
{
	return c < ' ' || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

int char_len(const char *s, enum char_type *type)
{
	const unsigned char *p = (const unsigned char *)s;
	int len = utf8_len(p);

	*type = CHAR_TEXT;
	/* Terminals may take the single bytes 0x80 to 0x9f as U+0080 to U+009F. */
	if (!len)
		*type = CHAR_INVALID;
	else if (is_control(code_point(s, len)))
		*type = CHAR_CONTROL;
	return len ? len : 1;
}

void json_string(FILE *f, const char *s)
{
	enum char_type type;
	int len;

	fputc('"', f);
	for (; *s; s += len) {
		len = char_len(s, &type);
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if (type == CHAR_INVALID)
			fputs("\\ufffd", f);
		else if (type == CHAR_CONTROL)
			fprintf(f, "\\u%04x", code_point(s, len));
		else
			fwrite(s, 1, len, f);
	}
	fputc('"', f);
}

void print_clean(FILE *f, const char *s)
{
	enum char_type type;
	int len;

	while (*s) {
		for (len = char_len(s, &type); len; len--, s++)
			fprintf(f, type == CHAR_TEXT ? "%c" : "\\%03o", (unsigned char)*s);
	}
}

void print_hex(FILE *f, const unsigned char *bytes, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		fprintf(f, "%02x", bytes[i]);
}

const char *colour(FILE *f, enum colour c)
{
	static const char * const seq[] = {
		[PLAIN] = "\033[m", [BOLD] = "\033[1m", [RED] = "\033[31m",
		[GREEN] = "\033[32m", [YELLOW] = "\033[33m",
	};
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if ((no && *no) || !term || !strcmp(term, "dumb") || !isatty(fileno(f)))
		return "";
	return seq[c];
}

/* The inode of the root of the hierarchy, whatever its name is, in whatever namespace. */
#define ROOT_CGROUP	1

/* The descriptor of a cgroup v2 at @path; or -1 with errno, ENOTSUP if it is not one. */
static int try_cgroup(const char *path)
{
	struct statfs fs;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && (fstatfs(fd, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC)) {
		close(fd);
		errno = ENOTSUP;
		return -1;
	}
	return fd;
}

/* Is @err the result of a path that leads to no cgroup? */
static bool is_absent(int err)
{
	return !err || err == ENOENT || err == ENOTDIR || err == ENOTSUP;
}

int open_cgroup(const char *name, char *path, size_t size)
{
	int fd, err = 0, other;
	struct stat st;
	bool is_path;

	if ((size_t)snprintf(path, size, CGROUPFS "/%s", name) >= size) {
		say("%.40s...: a path of less than %zu bytes is needed", name, size);
		return -BPFPROV_FAILED;
	}
	/* A name is not searched in the current directory: another user may own that. */
	is_path = *name == '/' || *name == '.';
	snprintf(path, size, is_path ? "%s" : CGROUPFS "/%s", name);
	fd = try_cgroup(path);
	if (fd < 0 && is_path) {
		err = errno;
		snprintf(path, size, CGROUPFS "/%s", name);
		fd = try_cgroup(path);
	}
	if (fd < 0) {
		other = errno;
		/* With any other error, there may be such a cgroup. */
		if (!is_absent(err) || !is_absent(other)) {
			err = is_absent(err) ? other : err;
			say("%s: %s", name, strerror(err));
			return is_denied(err) ? -BPFPROV_CAP : -BPFPROV_FAILED;
		}
		if (err == ENOTSUP || other == ENOTSUP)
			say("%s is not a cgroup v2", name);
		else
			say("there is no cgroup %s", name);
		return -BPFPROV_GONE;
	}
	/* "" or "/" comes from an unset variable. */
	if (!fstat(fd, &st) && st.st_ino == ROOT_CGROUP) {
		say("%s: this is the root cgroup, which has all processes", name);
		close(fd);
		return -BPFPROV_GONE;
	}
	return fd;
}
