// SPDX-License-Identifier: GPL-2.0
/*
 * One test of tools/testing/radix-tree/maple.c: readers without a lock beside a writer. The
 * other tests are about the tree itself. Some of them depend on the speed of the machine.
 */
#define main all_tests
#include "all_tests.c"
#undef main

int main(void)
{
	DEFINE_MTREE(tree);

	maple_tree_init();
	rcu_register_thread();
	mt_init_flags(&tree, MT_FLAGS_ALLOC_RANGE);
	run_check_rcu_neighbours(&tree);
	mtree_destroy(&tree);
	rcu_unregister_thread();
	rcu_barrier();
	return 0;
}
