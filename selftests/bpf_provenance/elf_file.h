/* SPDX-License-Identifier: GPL-2.0 */
/* An ELF file with up to two notes, and nothing else. */
#ifndef __BPF_PROVENANCE_ELF_FILE_H
#define __BPF_PROVENANCE_ELF_FILE_H

#include <elf.h>
#include <sys/types.h>

#define BUILD_ID_SIZE 20

struct elf_file {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[2];
};

struct elf_note {
	Elf64_Nhdr nhdr;
	char name[4];
	unsigned char id[BUILD_ID_SIZE];
};

/* Both return 0 or a negative errno. */

/* Write the headers, and a first note with a build ID at @note_at. */
int write_elf(int fd, const unsigned char *id, off_t note_at);

/* Write note @n with a build ID: its program header, and the note itself. */
int write_note(int fd, int n, const unsigned char *id, off_t note_at);

#endif
