# SPDX-License-Identifier: GPL-2.0
# buildid runs the code of a document.

$(OUTPUT)/buildid_doc.bpf.o: $(top_srcdir)/Documentation/bpf/build_id_exec.bpf.c
$(OUTPUT)/buildid.o: $(OUTPUT)/buildid_doc.skel.h
