# SPDX-License-Identifier: GPL-2.0
# task_vma_doc includes the code of a document.

TASK_VMA_DOC := $(top_srcdir)/Documentation/bpf

$(OUTPUT)/task_vma_doc.bpf.o: $(TASK_VMA_DOC)/task_vma_sampler.bpf.c
$(OUTPUT)/task_vma_doc.o: $(TASK_VMA_DOC)/task_vma_resolve.c
