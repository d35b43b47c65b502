// Fibers: stacks that one operating-system thread switches between.  A switch takes a few nanoseconds, which is what
// makes it possible to run every CUDA thread of a block as one.
#pragma once

#if defined(__x86_64__)
#define LOOM_OWN_SWITCH 1
#else
#define LOOM_OWN_SWITCH 0
#include <ucontext.h>
#endif

namespace loom {

struct Fiber {
#if LOOM_OWN_SWITCH
    void* stack_pointer = nullptr;
#else
    ucontext_t context;
#endif
};

// A fresh start of `body` on a stack; `body` must never return.
void prepare(Fiber& fiber, char* stack, unsigned long bytes, void (*body)());

// Suspends `from`, which is the running fiber, and resumes `to`.
void switch_fiber(Fiber& from, Fiber& to);

}  // namespace loom
