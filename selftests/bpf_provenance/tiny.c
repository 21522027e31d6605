// SPDX-License-Identifier: GPL-2.0
/* The smallest program there is: what bench executes. Linked with nolibc. */

int main(void)
{
	return 0;
}
