// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "elf_file.h"

int write_note(int fd, int n, const unsigned char *id, off_t note_at)
{
	const Elf64_Phdr phdr = {
		.p_type = PT_NOTE,
		.p_offset = note_at,
		.p_filesz = sizeof(struct elf_note),
		.p_memsz = sizeof(struct elf_note),
		.p_align = 4,
	};
	struct elf_note note = {
		.nhdr = { .n_namesz = 4, .n_descsz = BUILD_ID_SIZE, .n_type = NT_GNU_BUILD_ID },
		.name = "GNU",
	};

	memcpy(note.id, id, BUILD_ID_SIZE);
	errno = 0;
	if (pwrite(fd, &phdr, sizeof(phdr), offsetof(struct elf_file, phdr[n])) != sizeof(phdr) ||
	    pwrite(fd, &note, sizeof(note), note_at) != sizeof(note))
		return -errno ?: -EIO;
	return 0;
}

int write_elf(int fd, const unsigned char *id, off_t note_at)
{
	const struct elf_file elf = {
		.ehdr = {
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_phoff = offsetof(struct elf_file, phdr),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = ARRAY_LEN(elf.phdr),
		},
	};

	errno = 0;
	if (pwrite(fd, &elf, sizeof(elf), 0) != sizeof(elf))
		return -errno ?: -EIO;
	return write_note(fd, 0, id, note_at);
}
