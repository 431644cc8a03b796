// One iteration, by one thread or by several that meet between its phases, in one of two orders.
//
// Agents: one after another, in groups whose matrices and dual rows fit the cache together; A_i^T lam_i and A_i x_hat_i
// follow one another. Panels: all agents together, a panel of rows of p at a time. Every product with the network, and
// the prox of a separable h*, act within one column of the dual arrays; so for a panel A x_hat, the messages, lam+ and
// at once its part of A^T lam+ for the next iteration follow one another, even where a single A_i outgrows the cache.
// Either way A and the dual arrays are read from memory once per iteration. Every sum belongs to one agent, or to one
// chunk of panels, whose parts of A^T lam are added in order: the bits do not depend on the number of threads.
#pragma once
#include "functions.hpp"
#if defined(_WIN32)
extern "C" __declspec(dllimport) void __stdcall Sleep(unsigned long milliseconds);
#else
#include <time.h>
#endif

namespace npga {

// ---------------------------------------------------------------- threads that run the same iterations

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

// ---------------------------------------------------------------- where the work is

template <class T> Tile whole_rows(const Plan<T>& plan, Int first, Int last) {
    return {first, last, 0, plan.p, 1, (last - first) * plan.p, first * plan.p};
}

// What `run` does with the groups of a thread.
template <class T, class Run> void each_group(const Plan<T>& plan, const Task<T>& task, Run&& run) {
    for (Int k = share(plan.group_count, task, 0); k < share(plan.group_count, task, 1); ++k)
        run(whole_rows(plan, plan.groups[k], plan.groups[k + 1]));
}

// With the areas of a thread, between which nothing is exchanged: all its groups in one, or the panels of its chunks, and
// where their part of A^T lam belongs.
template <class T, class Run> void each_area(const Plan<T>& plan, const Task<T>& task, Run&& run) {
    const auto agent = [&](Int end) { return plan.groups[share(plan.group_count, task, end)]; };
    if (!task.chunk_count) return run(whole_rows(plan, agent(0), agent(1)), static_cast<T*>(nullptr));
    for (Int k = share(task.chunk_count, task, 0); k < share(task.chunk_count, task, 1); ++k) {
        T* pulls = task.pulls + k * plan.d;
        fill_n(pulls, plan.d, T(0));
        for (Int lo = task.chunks[k], hi; lo < task.chunks[k + 1]; lo = hi) {
            hi = min(lo + task.rows, task.chunks[k + 1]);
            run(Tile{0, plan.n, lo, hi, plan.n, hi - lo, lo}, pulls);
        }
    }
}

// With the blocks of a panel, agent by agent: for matrices by rows what the first cache holds, else all of its rows; and
// with the address of what is read next.
template <class T, class Run> void each_block(const Plan<T>& plan, Tile t, Run&& run) {
    for (Int i = t.first; i < t.last; ++i) {
        const Matrix<T>& A = plan.matrices[i];
        const Int rows = block_rows(A, t.hi - t.lo);
        const T* after = i + 1 < t.last ? row(plan.matrices[i + 1], t.lo) : row(plan.matrices[t.first], t.hi);
        for (Int lo = t.lo, hi; lo < t.hi; lo = hi) {
            hi = min(lo + rows, t.hi);
            run(Tile{i, i + 1, lo, hi, 1, hi - lo, i * plan.p + lo}, hi < t.hi ? row(A, hi) : after);
        }
    }
}

// ---------------------------------------------------------------- the parts of an iteration

// K^power v
template <class T> T* power_of_v(const Plan<T>& plan, const Arrays<T>& now, Int power) {
    return now.v + power * plan.n * plan.p;
}

// Of fewer numbers no processor fetches ahead by itself: they are over before it has seen where they lead.
constexpr Int SHORT = 512;

// out_i += A_i^T lam_i on a tile; `cold` says that A comes from memory, and what is read after A_i is asked for: more of it,
// or with each four of few and short columns as many of the next agent's matrix.
template <class T> void pull(const Plan<T>& plan, Tile t, const T* lam, T* out, bool cold) {
    for (Int i = t.first; i < t.last; ++i) {
        const Matrix<T>& A = plan.matrices[i];
        const bool is_short = A.form == BY_COLUMNS && A.columns * plan.p <= SHORT && i + 1 < plan.n;
        const T* next = is_short ? plan.matrices[i + 1].data : row(A, t.lo + block_rows(A, plan.p));
        add_adjoint(A, t.lo, t.hi, lam + i * plan.p + t.lo, out + plan.offsets[i], cold ? next : nullptr);
    }
}

// x_new = prox_{alpha g}(x - alpha (grad f(x) + A^T lam)) and x_hat = x_new + theta (x_new - x) for the agents of a tile,
// with A^T lam made here, or from the parts that panels have left.
template <class T> void descend(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task, Tile t) {
    const Int lo = plan.offsets[t.first], hi = plan.offsets[t.last];
    const T theta = T(plan.theta);
    fill_n(now.force + lo, hi - lo, T(0));
    if (!task.chunk_count) pull(plan, t, now.lam, now.force, true);
    for (Int c = 0; c < task.chunk_count; ++c) add(hi - lo, T(1), task.pulls + c * plan.d + lo, now.force + lo);
    add_grad(plan.f, lo, hi, now.x, now.force, task.work);
    each(lo, hi, [&](Int j) { now.x_new[j] = now.x[j] - plan.alpha[j] * now.force[j]; });
    prox(plan.g, false, plan.g.ready, lo, hi, now.x_new + lo, now.x + lo, now.x_new + lo);
    each(lo, hi, [&](Int j) { now.x_hat[j] = now.x_new[j] + theta * (now.x_new[j] - now.x[j]); });
}

// The message for a power m of K: c_m (lam - lam_prev) + gamma b_{s+m} K^s v, where `next` says that lam+ is in place of
// lam_prev, and below the highest power K times the last message (Horner's rule). `out` begins with the tile. A function of
// its own, because compilers fuse one of the two products with the sum, and not the same one in every caller.
template <class T> [[gnu::noinline, gnu::noclone]] void compose(const Plan<T>& plan, const Arrays<T>& now, Tile t, Int power, bool next, T* out, Int width) {
    const T c = next ? -plan.c[power] : plan.c[power], b = plan.b[plan.kept_powers + power];
    for (Int k = 0; k < t.runs; ++k) {
        const Int at = t.at + k * plan.p;
        const T *lam = now.lam + at, *lam_prev = now.lam_prev + at, *v = power_of_v(plan, now, plan.kept_powers) + at;
        each(0, t.m, [=, own = out + k * width](Int j) { own[j] = c * (lam[j] - lam_prev[j]) + b * v[j]; });
    }
    if (power < plan.new_powers) add_mixed(plan, now, t, now.message, width, out, width);
}

// u += C dlam + gamma B^2 v: the powers of v that are known, and K times the last message.
template <class T> void correct(const Plan<T>& plan, const Arrays<T>& now, Tile t, const T* message, Int width) {
    for (Int at = t.at; at < t.at + t.runs * plan.p; at += plan.p)
        for (Int m = 1; m <= plan.kept_powers; ++m) add(t.m, plan.b[m], power_of_v(plan, now, m) + at, now.u + at);
    if (plan.new_powers) add_mixed(plan, now, t, message, width, now.u + t.at, plan.p);
}

// v+ = lam - u+ + beta A x_hat+ on a tile, with the images in `scratch`, in rows that are `width` apart.
template <class T>
void ascend(const Plan<T>& plan, const Arrays<T>& now, Tile t, T* scratch, Int width, const T* next) {
    const T beta = T(plan.beta);
    for (Int k = 0; k < t.runs; ++k) fill_n(scratch + k * width, t.m, T(0));
    for (Int i = t.first; i < t.last; ++i)
        add_product(plan.matrices[i], t.lo, t.hi, now.x_hat + plan.offsets[i], scratch + (i - t.first) * width, next);
    for (Int k = 0; k < t.runs; ++k) {
        const T *image = scratch + k * width, *lam = now.lam + t.at + k * plan.p, *u = now.u + t.at + k * plan.p;
        each(0, t.m, [=, v = now.v + t.at + k * plan.p](Int j) { v[j] = lam[j] - u[j] + beta * image[j]; });
    }
}

// That power from the one before.
template <class T> void raise(const Plan<T>& plan, const Arrays<T>& now, Tile t, Int power) {
    T* out = power_of_v(plan, now, power) + t.at;
    for (Int k = 0; k < t.runs; ++k) fill_n(out + k * plan.p, t.m, T(0));
    add_mixed(plan, now, t, power_of_v(plan, now, power - 1) + t.lo, plan.p, out, plan.p);
}

// lam+ = prox_{t h*}(D v), in place of lam_prev; returns the sum of lam+ (finite or not).
template <class T> double finish(const Plan<T>& plan, const Arrays<T>& now, Tile t, T* scratch) {
    const bool joined = plan.h.copies > 1 && t.hi - t.lo == plan.p;
    double found = 0;
    for (Int k = 0; k < t.runs; ++k) {
        const Int at = t.at + k * plan.p, m = joined ? t.m : t.hi - t.lo, from = joined ? at : t.lo;
        const T* mixed = plan.kept_powers ? scratch : now.v + at;
        for (Int j = 0; j < t.m && plan.kept_powers; ++j) scratch[j] = now.v[at + j];
        for (Int s = 1; s <= plan.kept_powers; ++s) add(t.m, plan.d_powers[s], power_of_v(plan, now, s) + at, scratch);
        T* lam = now.lam_prev + at;
        for (Int j = 0; j < t.m; j += m)
            prox(plan.h, true, plan.h.ready, from, from + m, mixed + j, now.lam + at + j, lam + j);
        found += total(0, t.m, [=](Int j) { return lam[j]; });
    }
    return found;
}

// P(K) `source` into now.total, for the agents of a tile, where that is not K itself. Every round adds a term e = carry e +
// scale K rest, and the rest is what is left of the source: npga/networks/_exchange.py, in the same letters.
template <class T> void deepen(const Plan<T>& plan, Arrays<T>& now, const Task<T>& task, Tile t, const T* source) {
    for (Int round = 0; round < plan.degree && plan.degree > 1; ++round) {
        if (round == 0) fill_n(now.change + t.at, t.m, T(0)), fill_n(now.total + t.at, t.m, T(0));
        each(t.at, t.at + t.m, [&](Int j) { now.change[j] *= plan.carry[round]; });
        for (Int i = t.first; i < t.last; ++i)
            add_differences(plan, plan.scale[round], i, round ? now.rest : source, plan.p, plan.p, now.change + i * plan.p);
        each(t.at, t.at + t.m, [&](Int j) { now.total[j] += now.change[j], now.rest_new[j] = source[j] - now.total[j]; });
        meet(task);
        swap(now.rest, now.rest_new);
    }
}

// ---------------------------------------------------------------- the whole of it

// What an iteration finds: by agents its first message, by panels A^T lam.
template <class T> void begin(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    if (task.chunk_count && !task.fresh) return;
    each_area(plan, task, [&](Tile t, T* pulls) {
        if (pulls) pull(plan, t, now.lam, pulls, true);
        else if (plan.new_powers) compose(plan, now, t, plan.new_powers, false, now.message + t.at, plan.p);
    });
}

// Returns the sum of this thread's part of lam+. For panels the scratch has room for three times n rows, images and messages
// to and fro, a line of the cache longer than the panel: rows whose distance is a power of two would share few places of
// a cache. Where no round lies between v and lam+ (s = 0), a block of A is read a second time at once.
template <bool panels, class T> double iterate(const Plan<T>& plan, Arrays<T>& now, const Task<T>& task) {
    const Int s = plan.kept_powers, width = panels ? task.rows + 8 : plan.p;
    if (panels) {
        now.message = task.scratch + plan.n * width, now.reply = now.message + plan.n * width;
        each_group(plan, task, [&](Tile t) { descend(plan, now, task, t); });
        meet(task);
    }
    double total = 0;
    each_area(plan, task, [&](Tile area, T* pulls) {
        for (Int power = panels ? plan.new_powers : plan.new_powers - 1; power > 0; --power) {
            deepen(plan, now, task, area, now.message);
            compose(plan, now, area, power, false, now.reply + (panels ? 0 : area.at), width);
            if (!panels) meet(task);
            swap(now.message, now.reply);
        }
        if (plan.new_powers) deepen(plan, now, task, area, now.message);
        correct(plan, now, area, now.message, width);
        const auto conclude = [&](Tile t) {
            total += finish(plan, now, t, task.scratch);
            if (panels) pull(plan, t, now.lam_prev, pulls, false);
            else if (plan.new_powers) compose(plan, now, t, plan.new_powers, true, now.reply + t.at, width);
        };
        const auto rise = [&](Tile t, const T* next) {
            ascend(plan, now, t, task.scratch, width, next);
            if (!s) conclude(t);
        };
        if (panels) each_block(plan, area, rise);
        else each_group(plan, task, [&](Tile t) { descend(plan, now, task, t), rise(t, nullptr); });
        for (Int power = 1; power <= s; ++power) {
            const auto mix = [&](Tile t) {
                raise(plan, now, t, power);
                if (power == s) conclude(t);
            };
            if (!panels) meet(task), deepen(plan, now, task, area, power_of_v(plan, now, power - 1));
            panels ? mix(area) : each_group(plan, task, mix);
        }
    });
    swap(now.x, now.x_new), swap(now.lam, now.lam_prev), swap(now.message, now.reply);
    return total;
}

} // namespace npga
