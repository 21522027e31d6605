/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the commands of bpfprov. */
#ifndef __BPFPROV_H
#define __BPFPROV_H

#include <argp.h>
#include <linux/compiler.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define CGROUPFS "/sys/fs/cgroup"

/* Exit codes: part of the interface, see bpfprov.8. */
enum {
	BPFPROV_OK	= 0,
	BPFPROV_FAILED	= 1,	/* an operation failed */
	BPFPROV_USAGE	= 2,	/* bad arguments; nothing was done */
	BPFPROV_CAP	= 3,	/* a capability is missing; nothing was done */
	BPFPROV_KERNEL	= 4,	/* the kernel lacks a feature that is needed */
	BPFPROV_GONE	= 5,	/* no such process or cgroup */
};

/* Kernel features, found in the kernel's BTF. A sysctl can switch one off. */
enum feature {
	BUILD_ID_CACHE,
	TASK_VMA_QUERY,
	BPF_SUBPROG,
	AUTOBIND,
	FEATURES,
};

/* Does the kernel have @f, not switched off? Needs no privilege. False for a kernel without BTF. */
bool has_feature(enum feature f);

/* Report on stderr that @f is missing or off, and @what is reduced without it. */
void say_reduced(enum feature f, const char *what);

/* The commands. Each gets its own argv and returns an exit code. */
int cmd_confine(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_features(int argc, char **argv);
int cmd_maps(int argc, char **argv);
int cmd_profile(int argc, char **argv);

/* The name of the running command; NULL: not known yet. */
extern const char *command_name;

/*
 * Print a line to stderr, prefixed with the names of the program and the command. Control
 * characters become \ooo, except the colours of "reduced:" at the beginning.
 */
void say(const char *fmt, ...) __printf(1, 2);

/* From hold_messages() on, say() prints nothing until release_messages(). */
void hold_messages(void);
void release_messages(void);

/*
 * Are the capabilities in @caps, which ends with -1, effective? If not, print the missing
 * ones. CAP_SYS_ADMIN implies CAP_BPF and CAP_PERFMON.
 */
bool have_caps(const int *caps);

/* Is @cap effective? Prints nothing. */
bool have_cap(int cap);

/* Is @err the result of a missing capability? */
bool is_denied(int err);

/* The exit code if a program cannot be loaded. */
int load_status(int err);

/* Does /proc show the PID namespace of this process? */
bool is_own_proc(void);

/* Does /proc show the PID namespace of this process? If not, print that. */
bool have_own_proc(void);

/* argp_parse() with this program's exit codes. Ends the program on bad arguments. */
void parse_args(const struct argp *argp, int argc, char **argv);

/* A number from @min to @max; otherwise ends the program, naming @what. */
long parse_number(struct argp_state *state, const char *arg, const char *what,
		  long min, long max);

/* Rings take a descriptor per CPU: raise the soft limit of open files to the hard one. */
void raise_file_limit(void);

/* The argument of --ring-pages, likewise: a power of two, as mmap() of a ring needs it. */
long parse_ring_pages(struct argp_state *state, const char *arg);

/*
 * Flush @f and, unless it is stdout, close it. Returns 0, or -1 after printing why @name
 * could not be written.
 */
int finish_output(FILE *f, const char *name);

/*
 * Open the cgroup @name, a path below /sys/fs/cgroup or, if it begins with "/" or ".", one of its
 * own in the first place, and store the path in @path. Returns a descriptor, or a negative exit
 * code after printing the reason: the root cgroup is refused.
 */
int open_cgroup(const char *name, char *path, size_t size);

/*
 * exiting(): was there a SIGINT, SIGTERM or SIGHUP since catch_signals()? interrupted():
 * was there a second one? A third one ends the program, after unlinking the path given to
 * unlink_when_killed(). After interrupt_at_once(), the next signal counts as the second one, even
 * if there was none before.
 */
void catch_signals(void);
bool exiting(void);
bool interrupted(void);
void interrupt_at_once(void);
void unlink_when_killed(const char *path);

#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL
uint64_t clock_ns(clockid_t clock);

/*
 * SipHash-1-3 of @len bytes and @more, with a random key: whoever chooses the bytes cannot make
 * them collide.
 */
uint64_t hash_bytes(const void *p, size_t len, uint64_t more);

/*
 * @s as a JSON string, with quotes. Bytes that are not UTF-8 become U+FFFD: the JSON writer of
 * bpftool writes them as they are, which is not JSON, and is not in a library.
 */
void json_string(FILE *f, const char *s);

/* All but CHAR_TEXT can change a terminal. CHAR_INVALID is a byte that is not UTF-8. */
enum char_type { CHAR_TEXT, CHAR_CONTROL, CHAR_INVALID };

/* The length and the type of the character at @s. */
int char_len(const char *s, enum char_type *type);

/* @s with control characters as \ooo, as in /proc. */
void print_clean(FILE *f, const char *s);

/* @len bytes as hexadecimal digits. */
void print_hex(FILE *f, const unsigned char *bytes, size_t len);

/* The escape sequence if @f is a terminal with colours, otherwise "". */
enum colour { PLAIN, BOLD, RED, GREEN, YELLOW };
const char *colour(FILE *f, enum colour c);

#endif
