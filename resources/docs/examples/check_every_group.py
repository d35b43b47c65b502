"""Check the kernel of every group of a model on the CPU, exit with 1 where one is wrong: check_every_group.py MODEL"""

import sys

import engine

failed = False
for group in engine.fuse(engine.load(sys.argv[1])).groups:
    try:
        found = engine.check(engine.compile(group))
        failed |= found.status == "fail"
        print(f"{group.name}: {found.status}, error {found.max_error:.1e} of {found.tolerance:.1e} {found.message}")
    except engine.EngineError as error:
        print(f"{group.name}: not checked: {error}")
sys.exit(failed)
