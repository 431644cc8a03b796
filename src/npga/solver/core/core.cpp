// The entry points, for float (suffix _32) and double (_64). They allocate nothing and decide nothing.
#include "measure.hpp"
#include "schedules.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

namespace npga {

// The columns for the prox of g with the steps alpha, and of h* with the step beta/n.
template <class T> void prepare_steps(const Plan<T>& plan) {
    const double t = plan.beta / double(plan.n);
    prepare(plan.g, plan.d, false, plan.alpha, 1, plan.g.ready);
    for (Int k = 0; k < plan.h.copies; ++k) prepare(plan.h, plan.p, true, &t, 0, from(plan.h.ready, k * plan.p));
}

// Advance by lengths[0], lengths[1], ... iterations, with a row of findings after each unless `gauge` is null. Ends where a
// stopping rule fires, and at the first lam that is not finite. Returns the number of whole lengths, and in `done` that of
// iterations. Every thread runs this with its own task and arrays, and the first of them measures. There is no other way
// to iterate, so that the bits are the same wherever a run pauses. A length of 0 measures only.
template <class T>
Int sweep_lengths(const Plan<T>& plan, Arrays<T>& now, const Task<T>& task, const Int* lengths, Int count,
                  const Gauge<T>* gauge, Int* done) {
    if (lengths[0] > 0) begin(plan, now, task);
    meet(task);
    Int turns = *done = 0;
    for (Int row = 0; row < count; ++row) {
        for (Int j = 1; j <= lengths[row]; ++j) {
            ++*done;
            const auto iteration = task.chunk_count ? iterate<true, T> : iterate<false, T>;
            if (!std::isfinite(agree(task, iteration(plan, now, task), ++turns))) return row;
        }
        if (!gauge) continue;
        if (task.thread == 0) measure(plan, *gauge, now, gauge->table[row]);
        if (agree(task, task.thread == 0 && stops(gauge->table[row], gauge->to), ++turns) > 0) return row + 1;
    }
    return count;
}

} // namespace npga

using namespace npga;

extern "C" {

// In the order of npga/solver/core/__init__.py, which calls them by address.
#define ENTRIES(T) {(void*)prepare_steps<T>, (void*)sweep_lengths<T>}
EXPORT void* entries_32[2] = ENTRIES(float);
EXPORT void* entries_64[2] = ENTRIES(double);

// Whether there is a formula for a kind of function.
EXPORT int knows(Int kind) {
    bool found = (kind >= NORM && kind <= SIMPLEX) || kind == QUADRATIC || kind == LEAST_SQUARES;
    with_kind<double>(kind, [&](auto) { found = true; });
    return found;
}

// Whether this processor and its system run code for x86-64-v3: FMA, MOVBE, XSAVE and AVX, wide registers that are saved,
// then BMI1, AVX2 and BMI2, then LZCNT.
EXPORT int has_v3() {
#if defined(__x86_64__)
    unsigned a, b, c, d, saved;
    const unsigned first = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28, second = 1u << 3 | 1u << 5 | 1u << 8, third = 1u << 5;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first) return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
    if ((saved & 6) != 6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & second) != second) return 0;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & third) == third;
#else
    return 0;
#endif
}
}
