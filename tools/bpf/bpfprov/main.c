// SPDX-License-Identifier: GPL-2.0
/* bpfprov - origin of code and destination of traffic. This file only dispatches. */
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpfprov.h"

const char *argp_program_version = "bpfprov " BPFPROV_VERSION;

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *doc;
} commands[] = {
	{ "confine", cmd_confine, "restrict a cgroup to its IP addresses" },
	{ "events", cmd_events, "BPF programs as they are loaded and unloaded" },
	{ "features", cmd_features, "features of this kernel that the other commands use" },
	{ "maps", cmd_maps, "the mappings of a process, with build IDs" },
	{ "profile", cmd_profile, "stacks of user and kernel code, sampled" },
};

static const struct command *command;

static const char doc[] =
	"Show where code comes from, and restrict where traffic goes.\n"
	"\v\"bpfprov COMMAND --help\" explains a command, with an example.\n"
	"\n"
	"Exit codes: 0 done, 1 failed, 2 bad arguments, 3 a capability is missing,\n"
	"4 the kernel lacks a feature that is needed, 5 no such process or cgroup.";

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
	/* The commands report errors themselves; this is for debugging them. */
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
	int fd, first = 0;

	/*
	 * A file must not get the number of a standard stream that is closed: it would get the
	 * messages. Reading and writing still fail.
	 */
	do
		fd = open("/dev/null", fcntl(STDIN_FILENO, F_GETFD) < 0 ? O_WRONLY : O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	close(fd);
	/* A parent may ignore it. Then children are reaped by themselves, and have no status. */
	signal(SIGCHLD, SIG_DFL);
	libbpf_set_print(print_libbpf);
	argp_err_exit_status = BPFPROV_USAGE;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &first))
		return BPFPROV_USAGE;
	snprintf(name, sizeof(name), "bpfprov %s", command->name);
	argv[first] = name;
	command_name = command->name;
	return command->run(argc - first, argv + first);
}
