// How threads that run the same iterations wait for one another.
#pragma once
#include "plan.h"
#if defined(_WIN32)
extern "C" __declspec(dllimport) void __stdcall Sleep(unsigned long milliseconds);
#else
#include <time.h>
#endif

namespace npga {

// The pieces of `count` that belong to a thread begin at share(count, task, 0) and end at share(count, task, 1).
template <class T> inline Int share(Int count, const Task<T>& task, Int end) {
    return task.threads == 1 ? count * end : count * (task.thread + end) / task.threads; // to divide takes its time
}

// Look again after a moment, and sleep between looks when it takes long: a busy machine stays usable.
inline void wait(Int looks) {
    if (looks < 2000) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        return;
    }
#if defined(_WIN32)
    Sleep(0);
#else
    const timespec moment = {0, 20000};
    nanosleep(&moment, nullptr);
#endif
}

// Returns when all threads are here; what each has written before is seen by all.
template <class T> void meet(const Task<T>& task) {
    if (task.threads == 1) return;
    const Int meeting = __atomic_load_n(task.meetings, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(task.arrived, 1, __ATOMIC_ACQ_REL) == task.threads) {
        __atomic_store_n(task.arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(task.meetings, meeting + 1, __ATOMIC_RELEASE);
    }
    for (Int looks = 0; __atomic_load_n(task.meetings, __ATOMIC_ACQUIRE) == meeting; ++looks) wait(looks);
}

// The sum of what all threads say, the same for each. Two in turn, because a quick thread may say the next number before
// a slow one has read this one.
template <class T> double agree(const Task<T>& task, double own, Int turn) {
    if (task.threads == 1) return own;
    double *said = task.sums + (turn & 1) * task.threads, sum = 0;
    said[task.thread] = own;
    meet(task);
    for (Int k = 0; k < task.threads; ++k) sum += said[k];
    return sum;
}

} // namespace npga
