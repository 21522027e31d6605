// SPDX-License-Identifier: GPL-2.0
/* All BPF code of Documentation/bpf/task_vma.rst. */
#include "../../../../Documentation/bpf/task_vma_sampler.bpf.c"
