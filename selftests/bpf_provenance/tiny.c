// SPDX-License-Identifier: GPL-2.0
/* The smallest possible program, executed by bench. Linked with nolibc. */

int main(void)
{
	return 0;
}
