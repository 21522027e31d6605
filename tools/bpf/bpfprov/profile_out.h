/* SPDX-License-Identifier: GPL-2.0 */
#ifndef __BPFPROV_PROFILE_OUT_H
#define __BPFPROV_PROFILE_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Look up the names, and write all stacks; @hz is the sampling frequency. */
void profile_write(FILE *out, bool json, long hz);

/* Summarize on stderr: @seconds of sampling took @cpu to read, and @irq in interrupts. */
void profile_report(double seconds, double cpu, double irq);

#endif
