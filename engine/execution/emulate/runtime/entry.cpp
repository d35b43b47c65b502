// Compiled once for each kernel, with the kernel's text included before it (-include); LOOM_LAUNCHES calls its entries:
// "case 0: return call(first_entry, arguments); case 1: ...".
#include "machine.hpp"

namespace loom {

namespace {

// A constructor's braces evaluate their arguments from left to right, so that one counter can number the parameters.
template <class... Pointers>
struct Call {
    Call(void (*kernel)(Pointers...), Pointers... pointers) { kernel(pointers...); }
};

template <class... Pointers>
void call(void (*kernel)(Pointers...), void* const* arguments) {
    Call<Pointers...>{kernel, static_cast<Pointers>(*arguments++)...};
}

}  // namespace

void call_kernel(int launch, void* const* arguments) {
    switch (launch) { LOOM_LAUNCHES }
}

}  // namespace loom
