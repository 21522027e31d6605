// SPDX-License-Identifier: GPL-2.0
/* bpfprov - say where code came from and where traffic goes. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/capability.h>

#include "bpfprov.h"

const char *argp_program_version = "bpfprov " BPFPROV_VERSION;

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *doc;
} commands[] = {
	{ "confine", cmd_confine, "hold a cgroup to its IP addresses" },
	{ "events", cmd_events, "BPF programs as they come and go" },
	{ "features", cmd_features, "what this kernel has for the other commands" },
	{ "maps", cmd_maps, "the mappings of a process, with build IDs" },
	{ "profile", cmd_profile, "where the time goes, in user and kernel code" },
};

static const struct command *command;

static bool signalled;

void say(const char *fmt, ...)
{
	va_list ap;

	/* In order with what was printed, where both go to one place. */
	fflush(stdout);
	fprintf(stderr, "bpfprov%s%s: ", command ? " " : "", command ? command->name : "");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void on_signal(int sig)
{
	__atomic_store_n(&signalled, true, __ATOMIC_RELAXED);
}

bool exiting(void)
{
	return __atomic_load_n(&signalled, __ATOMIC_RELAXED);
}

uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

void catch_signals(void)
{
	/* Without SA_RESTART: what waits is to end. A second one kills. */
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
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
		return true;	/* it is for the kernel to refuse then */
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

bool is_denied(int err)
{
	return err == EPERM || err == EACCES;
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
		argp_error(state, "%s: %s is no number from %ld to %ld", what, arg, min, max);
	return n;
}

long parse_ring_pages(struct argp_state *state, const char *arg)
{
	long n = parse_number(state, arg, "--ring-pages", 1, 65536);

	if (n & (n - 1))
		argp_error(state, "--ring-pages: %s is no power of two", arg);
	return n;
}

int finish_output(FILE *f, const char *name)
{
	/* ferror() remembers no errno, and the last write sets a new one. */
	bool failed = ferror(f);

	errno = 0;
	failed |= fflush(f) != 0;
	if (f != stdout)
		failed |= fclose(f) != 0;
	if (failed)
		say("writing %s: %s", name, errno ? strerror(errno) : "not all could be written");
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
	/* Longer than needed, a surrogate, or beyond U+10FFFF. */
	if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f) ||
	    (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

void json_string(FILE *f, const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	int len;

	fputc('"', f);
	for (; *p; p += len ? len : 1) {
		len = utf8_len(p);
		if (*p == '"' || *p == '\\')
			fprintf(f, "\\%c", *p);
		else if (*p < 0x20)
			fprintf(f, "\\u%04x", *p);
		else if (!len)
			fputs("\\ufffd", f);
		else
			fwrite(p, 1, len, f);
	}
	fputc('"', f);
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

static const char doc[] =
	"Say where code came from and where traffic goes.\n"
	"\v\"bpfprov COMMAND --help\" explains a command, with an example.\n"
	"\n"
	"Exit codes: 0 done, 1 failed, 2 bad arguments, 3 a capability is missing,\n"
	"4 the kernel has nothing to do it with, 5 the process or cgroup is not there.";

static char *help_filter(int key, const char *text, void *input)
{
	size_t size, i;
	char *out;
	FILE *f;

	if (key != ARGP_KEY_HELP_PRE_DOC)
		return (char *)text;
	f = open_memstream(&out, &size);
	if (!f)
		return (char *)text;
	fprintf(f, "%s\nCommands:\n", text);
	for (i = 0; i < ARRAY_LEN(commands); i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].doc);
	return fclose(f) ? (char *)text : out;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	size_t i;

	switch (key) {
	case ARGP_KEY_ARG:
		for (i = 0; i < ARRAY_LEN(commands); i++)
			if (!strcmp(arg, commands[i].name))
				command = &commands[i];
		if (!command)
			argp_error(state, "there is no command \"%s\"", arg);
		*(int *)state->input = state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
	}
	return ARGP_ERR_UNKNOWN;
}

static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	/* The commands say themselves what failed; this is for who debugs them. */
	return getenv("BPFPROV_DEBUG") ? vfprintf(stderr, fmt, ap) : 0;
}

int main(int argc, char **argv)
{
	const struct argp argp = {
		.parser = parse,
		.args_doc = "COMMAND [ARGUMENT...]",
		.doc = doc,
		.help_filter = help_filter,
	};
	char name[64];
	int first = 0;

	libbpf_set_print(print_libbpf);
	argp_err_exit_status = BPFPROV_USAGE;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &first))
		return BPFPROV_USAGE;
	snprintf(name, sizeof(name), "bpfprov %s", command->name);
	argv[first] = name;
	return command->run(argc - first, argv + first);
}
