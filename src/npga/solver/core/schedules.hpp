// One iteration, in the two orders in which its work is done, by one thread or by several that meet between its phases.
//
// Agents: one after another, in groups whose matrices and dual rows fit the cache together; A_i^T lam_i and A_i x_hat_i
// follow one another. Panels: all agents together, a panel of rows of p at a time. Every product with the network, and
// the prox of a separable h*, act within one column of the dual arrays; so for a panel A x_hat, the messages, lam+ and
// at once its part of A^T lam+ for the next iteration follow one another, even where a single A_i outgrows the cache.
// Either way A and the dual arrays are read from memory once per iteration. Every sum belongs to one agent, or to one
// chunk of panels, whose parts of A^T lam are added in order: the bits do not depend on the number of threads.
#pragma once
#include "functions.hpp"
#include "mixing.hpp"
#include "threads.hpp"

namespace npga {

template <class T> Tile whole_rows(const Plan<T>& plan, Int first, Int last) {
    return {first, last, 0, plan.p, 1, (last - first) * plan.p, first * plan.p};
}
template <class T> Tile group(const Plan<T>& plan, Int k) { return whole_rows(plan, plan.groups[k], plan.groups[k + 1]); }

// K^power v, v itself for the power 0.
template <class T> T* power_of_v(const Plan<T>& plan, const Arrays<T>& now, Int power) {
    return power == 0 ? now.v : now.kept + (power - 1) * plan.n * plan.p;
}

// ---------------------------------------------------------------- the parts of an iteration

// x_new = prox_{alpha g}(x - alpha (grad f(x) + force)) and x_hat = x_new + theta (x_new - x), for a group.
template <class T> void move(const Plan<T>& plan, Int k, const Arrays<T>& now, T* work) {
    const Int lo = plan.offsets[plan.groups[k]], hi = plan.offsets[plan.groups[k + 1]];
    const T theta = T(plan.theta);
    add_grad(plan.f, plan.f_first[k], lo, hi, now.x, now.force, work);
    each(lo, hi, [=](Int j) { now.x_new[j] = now.x[j] - plan.alpha[j] * now.force[j]; });
    prox(plan.g, false, plan.g.ready, plan.g_first[k], lo, hi, now.x_new + lo, now.x + lo, now.x_new + lo);
    each(lo, hi, [=](Int j) { now.x_hat[j] = now.x_new[j] + theta * (now.x_new[j] - now.x[j]); });
}

// out_i += A_i^T lam_i on a tile; `cold` says that A comes from memory.
template <class T> void pull(const Plan<T>& plan, Tile t, const T* lam, T* out, bool cold) {
    for (Int i = t.first; i < t.last; ++i) {
        const Matrix<T>& A = plan.matrices[i];
        const T* next = cold ? row(A, t.lo + block_rows(A, plan.p)) : nullptr;
        add_adjoint(A, t.lo, t.hi, lam + i * plan.p + t.lo, out + plan.offsets[i], next);
    }
}

// A_i x_i on a tile, into rows that are `width` apart.
template <class T>
void images(const Plan<T>& plan, Tile t, const T* x, T* out, Int width, const T* next = nullptr) {
    for (Int k = 0; k < t.runs; ++k) fill(t.m, T(0), out + k * width);
    for (Int i = t.first; i < t.last; ++i, out += width)
        add_product(plan.matrices[i], t.lo, t.hi, x + plan.offsets[i], out, next);
}

// The message for a power m of K: c_m (lam - lam_prev) + gamma b_{s+m} K^s v, and below the highest power K times the
// message before (Horner's rule). `before` points to agent 0, `out` to the first agent of the tile.
template <class T>
void compose(const Plan<T>& plan, const Arrays<T>& now, Tile t, Int power, const T* before, T* out, Int width) {
    const T c = plan.c[power], b = plan.b[plan.kept_powers + power];
    for (Int k = 0; k < t.runs; ++k) {
        const Int at = t.at + k * plan.p;
        const T *lam = now.lam + at, *lam_prev = now.lam_prev + at, *v = power_of_v(plan, now, plan.kept_powers) + at;
        T* own = out + k * width;
        if (b == 0) each(0, t.m, [=](Int j) { own[j] = c * (lam[j] - lam_prev[j]); });
        else each(0, t.m, [=](Int j) { own[j] = c * (lam[j] - lam_prev[j]) + b * v[j]; });
    }
    if (before) add_mixed(plan, now, t, before, width, out, width);
}

// u += C dlam + gamma B^2 v: the powers of v that are known, and K times the last message.
template <class T> void correct(const Plan<T>& plan, const Arrays<T>& now, Tile t, const T* message, Int width) {
    for (Int at = t.at; at < t.at + t.runs * plan.p; at += plan.p)
        for (Int m = 1; m <= plan.kept_powers; ++m) add(t.m, plan.b[m], power_of_v(plan, now, m) + at, now.u + at);
    if (plan.new_powers) add_mixed(plan, now, t, message, width, now.u + t.at, plan.p);
}

// v+ = lam - u+ + beta A x_hat+, with the images in `scratch`. Where a run pauses, A x+ is written as well.
template <class T>
void ascend(const Plan<T>& plan, const Arrays<T>& now, Tile t, bool pause, T* scratch, Int width, const T* next = nullptr) {
    const T beta = T(plan.beta);
    if (pause) images(plan, t, now.x_new, now.Ax + t.at, plan.p);
    images(plan, t, now.x_hat, scratch, width, next);
    for (Int k = 0; k < t.runs; ++k) {
        const T *image = scratch + k * width, *lam = now.lam + t.at + k * plan.p, *u = now.u + t.at + k * plan.p;
        each(0, t.m, [=, v = now.v + t.at + k * plan.p](Int j) { v[j] = lam[j] - u[j] + beta * image[j]; });
    }
}

// K^power v
template <class T> void raise(const Plan<T>& plan, const Arrays<T>& now, Tile t, Int power) {
    T* out = power_of_v(plan, now, power) + t.at;
    for (Int k = 0; k < t.runs; ++k) fill(t.m, T(0), out + k * plan.p);
    add_mixed(plan, now, t, power_of_v(plan, now, power - 1) + t.lo, plan.p, out, plan.p);
}

// lam+ = prox_{t h*}(D v), in place of lam_prev; returns the sum of lam+ (finite or not).
template <class T> double finish(const Plan<T>& plan, const Arrays<T>& now, Tile t, T* scratch) {
    const Int row = t.hi - t.lo;
    const bool joined = plan.h.copies > 1 && row == plan.p;
    double total = 0;
    for (Int k = 0; k < t.runs; ++k) {
        const Int at = t.at + k * plan.p, m = joined ? t.m : row, from = joined ? at : t.lo;
        const T* mixed = now.v + at;
        if (plan.kept_powers) {
            for (Int j = 0; j < t.m; ++j) scratch[j] = mixed[j];
            for (Int s = 1; s <= plan.kept_powers; ++s) add(t.m, plan.d_powers[s], power_of_v(plan, now, s) + at, scratch);
            mixed = scratch;
        }
        T* lam = now.lam_prev + at;
        for (Int j = 0; j < t.m; j += m)
            prox(plan.h, true, plan.h.ready, 0, from, from + m, mixed + j, now.lam + at + j, lam + j);
        total += double(sum(t.m, lam));
    }
    return total;
}

// The new iterates become the last ones, and what was written as a reply is the message now.
template <class T> void turn(Arrays<T>& now) { swap(now.x, now.x_new), swap(now.lam, now.lam_prev), swap(now.message, now.reply); }

// ---------------------------------------------------------------- agent by agent

// All rounds of P(K) `source` but the last, for the agents first to last - 1.
template <class T>
void deepen(const Plan<T>& plan, Arrays<T>& now, const Task<T>& task, Tile own, const T* source) {
    now.source = source;
    for (Int round = 0; round < plan.degree - 1; ++round) {
        for (Int i = own.first; i < own.last; ++i) stage(plan, now, round, i);
        meet(task);
        swap(now.rest, now.rest_new);
    }
}

// The first message of an iteration, for a group, and for all groups of a thread.
template <class T> void open(const Plan<T>& plan, const Arrays<T>& now, Tile t) {
    if (plan.new_powers) compose<T>(plan, now, t, plan.new_powers, nullptr, now.message + t.at, plan.p);
}
template <class T> void begin_agents(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    for (Int k = share(plan.group_count, task, 0); k < share(plan.group_count, task, 1); ++k) open(plan, now, group(plan, k));
}

template <class T> double iterate_agents(const Plan<T>& plan, Arrays<T>& now, const Task<T>& task, bool pause) {
    const Int r = plan.new_powers, s = plan.kept_powers, p = plan.p;
    const Int first = share(plan.group_count, task, 0), last = share(plan.group_count, task, 1);
    const Tile own = whole_rows(plan, plan.groups[first], plan.groups[last]);
    for (Int power = r - 1; power > 0; --power) {
        deepen(plan, now, task, own, now.message);
        for (Int k = first; k < last; ++k)
            compose(plan, now, group(plan, k), power, now.message, now.reply + group(plan, k).at, p);
        meet(task);
        swap(now.message, now.reply);
    }
    if (r) deepen(plan, now, task, own, now.message);
    correct(plan, now, own, now.message, p);
    Arrays<T> after = now;
    turn(after);
    double total = 0;
    for (Int k = first; k < last; ++k) {
        const Tile t = group(plan, k);
        fill(plan.offsets[t.last] - plan.offsets[t.first], T(0), now.force + plan.offsets[t.first]);
        pull(plan, t, now.lam, now.force, true);
        move(plan, k, now, task.work);
        ascend(plan, now, t, pause, task.scratch, p);
        if (!s) total += finish(plan, now, t, task.scratch), open(plan, after, t);
    }
    for (Int power = 1; power <= s; ++power) {
        meet(task);
        deepen(plan, now, task, own, power_of_v(plan, now, power - 1));
        for (Int k = first; k < last; ++k) {
            raise(plan, now, group(plan, k), power);
            if (power == s) total += finish(plan, now, group(plan, k), task.scratch), open(plan, after, group(plan, k));
        }
    }
    turn(now);
    return total;
}

// ---------------------------------------------------------------- panel by panel

// The panels of a chunk: what `run` does with each of them.
template <class T, class Run> void each_panel(const Plan<T>& plan, const Task<T>& task, Int k, Run&& run) {
    for (Int lo = task.chunks[k]; lo < task.chunks[k + 1]; lo += task.rows) {
        const Int hi = lo + task.rows < task.chunks[k + 1] ? lo + task.rows : task.chunks[k + 1];
        run(Tile{0, plan.n, lo, hi, plan.n, hi - lo, lo});
    }
}

// The blocks of a panel, agent by agent: for matrices by rows what the first cache holds, else all of its rows. What `run`
// does with each of them; it is told as well which rows are next.
template <class T, class Run> void each_block(const Plan<T>& plan, Tile t, Run&& run) {
    for (Int i = t.first; i < t.last; ++i) {
        const Matrix<T>& A = plan.matrices[i];
        const Int rows = block_rows(A, t.hi - t.lo);
        const T* after = i + 1 < t.last ? row(plan.matrices[i + 1], t.lo) : row(plan.matrices[t.first], t.hi);
        for (Int lo = t.lo; lo < t.hi; lo += rows) {
            const Int hi = lo + rows < t.hi ? lo + rows : t.hi;
            run(Tile{i, i + 1, lo, hi, 1, hi - lo, i * plan.p + lo}, hi < t.hi ? row(A, hi) : after);
        }
    }
}

// A^T lam, by the same panels as in an iteration.
template <class T> void begin_panels(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    for (Int k = share(task.chunk_count, task, 0); k < share(task.chunk_count, task, 1) && task.fresh; ++k) {
        T* out = task.pulls + k * plan.d;
        fill(plan.d, T(0), out);
        each_panel(plan, task, k, [&](Tile t) { pull(plan, t, now.lam, out, true); });
    }
}

// The scratch has room for three times n rows of a panel, images and messages to and fro, a line of the cache longer than
// the panel: rows whose distance is a power of two would share few places of a cache. Where no round lies between v and
// lam+ (s = 0), a block of A is read a second time at once.
template <class T> double iterate_panels(const Plan<T>& plan, Arrays<T>& now, const Task<T>& task, bool pause) {
    const Int width = task.rows + 8, block = plan.n * width;
    for (Int k = share(plan.group_count, task, 0); k < share(plan.group_count, task, 1); ++k) {
        const Int lo = plan.offsets[plan.groups[k]], m = plan.offsets[plan.groups[k + 1]] - lo;
        fill(m, T(0), now.force + lo);
        for (Int c = 0; c < task.chunk_count; ++c) add(m, T(1), task.pulls + c * plan.d + lo, now.force + lo);
        move(plan, k, now, task.work);
    }
    meet(task);
    double total = 0;
    for (Int k = share(task.chunk_count, task, 0); k < share(task.chunk_count, task, 1); ++k) {
        T* out = task.pulls + k * plan.d;
        fill(plan.d, T(0), out);
        each_panel(plan, task, k, [&](Tile t) {
            T *message = nullptr, *reply = task.scratch + block, *spare = reply + block;
            for (Int power = plan.new_powers; power > 0; --power) {
                compose(plan, now, t, power, message, reply, width);
                message = reply, swap(reply, spare);
            }
            correct(plan, now, t, message, width);
            const auto conclude = [&](Tile own) {
                total += finish(plan, now, own, task.scratch);
                pull(plan, own, now.lam_prev, out, false);
            };
            each_block(plan, t, [&](Tile own, const T* next) {
                ascend(plan, now, own, pause, task.scratch, width, next);
                if (!plan.kept_powers) conclude(own);
            });
            for (Int power = 1; power <= plan.kept_powers; ++power) raise(plan, now, t, power);
            if (plan.kept_powers) conclude(t);
        });
    }
    turn(now);
    return total;
}

} // namespace npga
