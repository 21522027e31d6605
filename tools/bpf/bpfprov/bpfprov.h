/* SPDX-License-Identifier: GPL-2.0 */
/* What the commands of bpfprov share. */
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

/* Exit codes: part of the interface, see bpfprov.8. */
enum {
	BPFPROV_OK	= 0,
	BPFPROV_FAILED	= 1,	/* something that was tried did not work */
	BPFPROV_USAGE	= 2,	/* bad arguments; nothing was done */
	BPFPROV_CAP	= 3,	/* a capability is missing; nothing was done */
	BPFPROV_KERNEL	= 4,	/* the kernel has nothing to do it with */
	BPFPROV_GONE	= 5,	/* the process or cgroup is not there */
};

/* What this series adds to the kernel, as its BTF tells it. */
enum feature {
	BUILD_ID_CACHE,
	TASK_VMA_QUERY,
	BPF_SUBPROG,
	AUTOBIND,
	FEATURES,
};

/*
 * Does the kernel have it? Needs no privilege; a kernel without BTF counts as
 * one that has none of them.
 */
bool has_feature(enum feature f);

/* Say on stderr that @f is missing and what, for this command, is reduced. */
void say_reduced(enum feature f, const char *what);

/* The commands. Each gets its own argv and returns an exit code. */
int cmd_confine(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_features(int argc, char **argv);
int cmd_maps(int argc, char **argv);
int cmd_profile(int argc, char **argv);

/* Of the command that runs; NULL: none yet. */
extern const char *command_name;

/* A line on stderr, after the name of the program and the command. */
void say(const char *fmt, ...) __printf(1, 2);

/*
 * Are these capabilities, numbers that end with -1, effective? If not, one line
 * says which are missing. CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON.
 */
bool have_caps(const int *caps);

/* Is this one effective? Nothing is said. */
bool have_cap(int cap);

/* An errno that a missing capability or one that is not enough leads to. */
bool is_denied(int err);

/* argp_parse() with this program's exit codes. Ends the program on bad arguments. */
void parse_args(const struct argp *argp, int argc, char **argv);

/* A number from @min to @max; otherwise ends the program, naming @what. */
long parse_number(struct argp_state *state, const char *arg, const char *what,
		  long min, long max);

/* The argument of --ring-pages, likewise: memory per CPU that mmap() takes. */
long parse_ring_pages(struct argp_state *state, const char *arg);

/*
 * Write what stdio holds back of @f, and for anything but stdout close it.
 * Returns 0, or -1 after saying that @name could not be written, and why.
 */
int finish_output(FILE *f, const char *name);

/*
 * Open the cgroup @name, a path or one below /sys/fs/cgroup; @path gets the one that it
 * was found at. Returns a descriptor, or -1 after saying why not.
 */
int open_cgroup(const char *name, char *path, size_t size);

/*
 * Was there a SIGINT, SIGTERM or SIGHUP since catch_signals() was called; was there a
 * second one? The third ends the program, and unlinks the file that unlink_when_killed()
 * has named.
 */
void catch_signals(void);
bool exiting(void);
bool interrupted(void);
void unlink_when_killed(const char *path);

#define NSEC_PER_SEC	1000000000ULL
uint64_t clock_ns(clockid_t clock);

/* @s as a JSON string, quotes included. Bytes that are no UTF-8 become U+FFFD. */
void json_string(FILE *f, const char *s);

/* @len bytes as hexadecimal digits. */
void print_hex(FILE *f, const unsigned char *bytes, size_t len);

/* The escape sequence on a terminal that wants colours, nothing elsewhere. */
enum colour { PLAIN, BOLD, RED, GREEN, YELLOW };
const char *colour(FILE *f, enum colour c);

#endif
