"""Check the kernel of every group of a model on the CPU, exit with 1 where one is wrong: check_every_group.py MODEL"""

import sys

import engine

plan = engine.fuse(engine.load(sys.argv[1]))
checks = [engine.check(engine.compile(group)) for group in plan.groups]
for check in checks:
    print(f"{check.group}: {check.status}, {check.elements_compared:,} elements, error {check.max_error:.1e}")
sys.exit(any(check.status == "fail" for check in checks))
