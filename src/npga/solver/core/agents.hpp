// The agent schedule: agents one after another, in groups whose matrices and dual rows fit the cache together.
//
// A_i is read from memory once per iteration: A_i^T lam_i and A_i x_hat_i follow one another. Every sum belongs to one
// agent, so that the bits do not depend on the number of threads.
#pragma once
#include "functions.hpp"
#include "mixing.hpp"

namespace npga {

template <class T> struct Group {
    Int first, last; // agents
    Int at, size;    // where their rows begin in an n x p array, and how many numbers these have

    Group(const Plan<T>& plan, Int k)
        : first(plan.groups[k]), last(plan.groups[k + 1]), at(first * plan.p), size((last - first) * plan.p) {}
};

// K^power v, v itself for the power 0.
template <class T> inline T* power_of_v(const Plan<T>& plan, const Arrays<T>& now, Int power) {
    return power == 0 ? now.v : now.kept + (power - 1) * plan.n * plan.p;
}

// x_new = prox_{alpha g}(x - alpha (grad f(x) + force)) and x_hat = x_new + theta (x_new - x), for a group.
template <class T> void move_group(const Plan<T>& plan, Int k, const Arrays<T>& now, T* work) {
    const Int lo = plan.offsets[plan.groups[k]], hi = plan.offsets[plan.groups[k + 1]];
    const T theta = T(plan.theta);
    add_grad(plan.f, plan.f_bounds[k], plan.f_bounds[k + 1], now.x, now.force, work);
#pragma omp simd
    for (Int j = lo; j < hi; ++j) now.x_new[j] = now.x[j] - plan.alpha[j] * now.force[j];
    prox(plan.g, ready(plan.g), plan.g_bounds[k], plan.g_bounds[k + 1], now.x_new, now.x, now.x_new);
#pragma omp simd
    for (Int j = lo; j < hi; ++j) now.x_hat[j] = now.x_new[j] + theta * (now.x_new[j] - now.x[j]);
}

// The rows A_i x_i of a group, from its first one on.
template <class T> void images(const Plan<T>& plan, Group<T> g, const T* x, T* out) {
    fill(g.size, T(0), out);
    for (Int i = g.first; i < g.last; ++i)
        add_product(plan.matrices[i], 0, plan.p, x + plan.offsets[i], out + (i - g.first) * plan.p);
}

// The first message of a correction, c_r (lam - lam_prev) + gamma b_{s+r} K^s v.
template <class T>
void open_message(const Plan<T>& plan, Group<T> g, const Arrays<T>& now, const T* lam, const T* lam_prev, T* out) {
    if (plan.new_powers == 0) return;
    const T* latest = power_of_v(plan, now, plan.kept_powers);
    fill(g.size, T(0), out + g.at);
    add_message(plan, plan.new_powers, g.size, lam + g.at, lam_prev + g.at, latest + g.at, out + g.at);
}

// u += C dlam + gamma B^2 v for the agents first to last - 1: the powers of v that are known, and K times the last message,
// a block of columns at a time, so that an agent's neighbours find its message in the cache.
template <class T> void correct(const Plan<T>& plan, Int first, Int last, const Arrays<T>& now) {
    const Int p = plan.p, block = 128;
    for (Int m = 1; m <= plan.kept_powers; ++m)
        add((last - first) * p, plan.b[m], power_of_v(plan, now, m) + first * p, now.u + first * p);
    for (Int lo = 0; lo < p && plan.new_powers; lo += block)
        for (Int i = first; i < last; ++i) add_mixed(plan, now, i, lo, lo + block < p ? lo + block : p, now.message, now.u);
}

// lam+ = prox_{t h*}(D v), the first message of the next iteration, and the sum of lam+ (finite or not).
template <class T> double finish(const Plan<T>& plan, Group<T> g, const Arrays<T>& now, T* scratch) {
    const T* mixed = now.v + g.at;
    if (plan.kept_powers) {
        for (Int j = 0; j < g.size; ++j) scratch[j] = mixed[j];
        for (Int m = 1; m <= plan.kept_powers; ++m) add(g.size, plan.d_powers[m], power_of_v(plan, now, m) + g.at, scratch);
        mixed = scratch;
    }
    T* lam = now.lam_prev + g.at;
    const Int m = plan.h.copies > 1 ? g.size : plan.p, lo = plan.h.copies > 1 ? g.at : 0;
    for (Int i = 0; i < g.size; i += m) conj_prox(plan.h, lo, lo + m, mixed + i, now.lam + g.at + i, lam + i);
    T total = 0;
#pragma omp simd reduction(+ : total)
    for (Int j = 0; j < g.size; ++j) total += lam[j];
    open_message(plan, g, now, now.lam_prev, now.lam, now.reply);
    return double(total);
}

// x+ and v+ = lam - u+ + beta A x_hat+ for a group. With D = I also lam+, whose sum is returned. Where a run pauses, A x+
// is written as well.
template <class T> double step_group(const Plan<T>& plan, Int k, const Arrays<T>& now, const Task<T>& task) {
    const Group<T> g(plan, k);
    fill(plan.offsets[g.last] - plan.offsets[g.first], T(0), now.force + plan.offsets[g.first]);
    for (Int i = g.first; i < g.last; ++i)
        add_adjoint(plan.matrices[i], 0, plan.p, now.lam + i * plan.p, now.force + plan.offsets[i]);
    move_group(plan, k, now, task.work);
    if (task.pause) images(plan, g, now.x_new, now.Ax + g.at);
    images(plan, g, now.x_hat, task.scratch);
    const T *lam = now.lam + g.at, *u = now.u + g.at, *image = task.scratch, beta = T(plan.beta);
    T* v = now.v + g.at;
#pragma omp simd
    for (Int j = 0; j < g.size; ++j) v[j] = lam[j] - u[j] + beta * image[j];
    return plan.kept_powers ? 0.0 : finish(plan, g, now, task.scratch);
}

// ---------------------------------------------------------------- what a thread does, for its groups

template <class T> double step(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    correct(plan, plan.groups[task.first], plan.groups[task.last], now);
    double total = 0;
    for (Int k = task.first; k < task.last; ++k) total += step_group(plan, k, now, task);
    return total;
}

// A round of P(K) `source` before the last one; `power` is its number.
template <class T> double deepen(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    for (Int i = plan.groups[task.first]; i < plan.groups[task.last]; ++i) stage(plan, now, task.power, i);
    return 0;
}

// Horner's rule: the next message is K times the last one plus the new part for this power.
template <class T> double exchange(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    const T* latest = power_of_v(plan, now, plan.kept_powers);
    for (Int i = plan.groups[task.first]; i < plan.groups[task.last]; ++i) {
        const Int at = i * plan.p;
        fill(plan.p, T(0), now.reply + at);
        add_message(plan, task.power, plan.p, now.lam + at, now.lam_prev + at, latest + at, now.reply + at);
        add_mixed(plan, now, i, 0, plan.p, now.message, now.reply);
    }
    return 0;
}

// K^power v; after the last power D v and lam+, whose sum is returned.
template <class T> double combine(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    const T* source = power_of_v(plan, now, task.power - 1);
    T* mixed = power_of_v(plan, now, task.power);
    double total = 0;
    for (Int k = task.first; k < task.last; ++k) {
        const Group<T> g(plan, k);
        fill(g.size, T(0), mixed + g.at);
        for (Int i = g.first; i < g.last; ++i) add_mixed(plan, now, i, 0, plan.p, source, mixed);
        if (task.power == plan.kept_powers) total += finish(plan, g, now, task.scratch);
    }
    return total;
}

// The first messages of a stretch of iterations.
template <class T> double begin(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    for (Int k = task.first; k < task.last; ++k)
        open_message(plan, Group<T>(plan, k), now, now.lam, now.lam_prev, now.message);
    return 0;
}

template <class T> inline void swap(T*& a, T*& b) {
    T* c = a;
    a = b, b = c;
}

// All rounds of P(K) `source` but the last, by one thread.
template <class T> inline void deepen_all(const Plan<T>& plan, Arrays<T>& now, Task<T>& task, const T* source) {
    now.source = source;
    for (task.power = 0; task.power < plan.degree - 1; ++task.power) {
        deepen(plan, now, task);
        swap(now.rest, now.rest_new);
    }
}

// One iteration by one thread, whose task is all groups; returns the sum of lam+ (finite or not).
template <class T> double iterate(const Plan<T>& plan, Arrays<T>& now, Task<T>& task) {
    for (Int power = plan.new_powers - 1; power > 0; --power) {
        deepen_all(plan, now, task, now.message);
        task.power = power;
        exchange(plan, now, task);
        swap(now.message, now.reply);
    }
    if (plan.new_powers) deepen_all(plan, now, task, now.message);
    double total = step(plan, now, task);
    for (Int power = 1; power <= plan.kept_powers; ++power) {
        deepen_all(plan, now, task, power_of_v(plan, now, power - 1));
        task.power = power;
        total += combine(plan, now, task);
    }
    swap(now.x, now.x_new), swap(now.lam, now.lam_prev), swap(now.message, now.reply);
    return total;
}

} // namespace npga
