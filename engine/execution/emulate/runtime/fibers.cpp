#include "fibers.hpp"

#if LOOM_OWN_SWITCH

// The callee-saved registers of the System V ABI go to the old stack and come from the new one; all others are dead at
// a call.  The floating-point control words are the same in every fiber.
extern "C" void loom_switch(void** save, void* load);
asm(R"(
.text
.p2align 4
.globl loom_switch
.type loom_switch, @function
loom_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size loom_switch, .-loom_switch
)");

namespace loom {

void prepare(Fiber& fiber, char* stack, unsigned long bytes, void (*body)()) {
    auto top = reinterpret_cast<unsigned long>(stack + bytes) & ~15ul;
    auto* frame = reinterpret_cast<unsigned long*>(top) - 8;
    for (int i = 0; i < 6; ++i) frame[i] = 0;           // the six saved registers
    frame[6] = reinterpret_cast<unsigned long>(body);  // where `ret` goes, with the alignment of a call
    frame[7] = 0;                                      // the return address of `body`, which is never used
    fiber.stack_pointer = frame;
}

void switch_fiber(Fiber& from, Fiber& to) { loom_switch(&from.stack_pointer, to.stack_pointer); }

}  // namespace loom

#else

namespace loom {

void prepare(Fiber& fiber, char* stack, unsigned long bytes, void (*body)()) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = bytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, body, 0);
}

void switch_fiber(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }

}  // namespace loom

#endif
