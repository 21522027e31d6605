# SPDX-License-Identifier: GPL-2.0
# bpf_event includes the code of a document.

$(OUTPUT)/bpf_event.o: $(top_srcdir)/Documentation/userspace-api/perf_bpf_event_reader.c
