// SPDX-License-Identifier: GPL-2.0
/* All BPF code of Documentation/bpf/build_id.rst. */
#include "../../../../Documentation/bpf/build_id_exec.bpf.c"
