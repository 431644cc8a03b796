// The panel schedule: all agents together, a panel of rows of p at a time.
//
// Every product with the network, and the prox of a separable h*, act within one column of the dual arrays. So for a
// panel of rows, A x_hat, the exchange of messages, lam+ and then at once the panel's part of A^T lam+ for the next
// iteration follow one another, and A as well as the dual arrays are read from memory once per iteration, even where a
// single A_i is larger than the cache. The parts of A^T lam are kept chunk by chunk and added in order, so that the bits
// do not depend on which thread did what.
#pragma once
#include "agents.hpp"

namespace npga {

// out_i += A_i[lo:hi]^T lam_i[lo:hi]
template <class T> void pull_panel(const Plan<T>& plan, const T* lam, Int lo, Int hi, T* out) {
    for (Int i = 0; i < plan.n; ++i)
        add_adjoint(plan.matrices[i], lo, hi, lam + i * plan.p + lo, out + plan.offsets[i]);
}

// Rows A_i[lo:hi] x_i, `width` apart.
template <class T> void images_panel(const Plan<T>& plan, const T* x, Int lo, Int hi, T* out, Int width) {
    for (Int i = 0; i < plan.n; ++i) {
        fill(hi - lo, T(0), out + i * width);
        add_product(plan.matrices[i], lo, hi, x + plan.offsets[i], out + i * width);
    }
}

// u += C dlam + gamma B^2 v; the messages have rows of `width`.
template <class T>
void correct_panel(const Plan<T>& plan, const Arrays<T>& now, Int lo, Int m, T* message, T* reply, Int width) {
    const Int r = plan.new_powers, s = plan.kept_powers;
    for (Int power = r; power > 0; --power) {
        for (Int i = 0; i < plan.n; ++i) {
            const Int at = i * plan.p + lo;
            T* own = reply + i * width;
            fill(m, T(0), own);
            if (power < r) add_differences(plan, T(1), i, message, width, m, own);
            add_message(plan, power, m, now.lam + at, now.lam_prev + at, power_of_v(plan, now, s) + at, own);
        }
        swap(message, reply);
    }
    for (Int i = 0; i < plan.n; ++i) {
        const Int at = i * plan.p + lo;
        for (Int j = 1; j <= s; ++j) add(m, plan.b[j], power_of_v(plan, now, j) + at, now.u + at);
        if (r > 0) add_differences(plan, T(1), i, message, width, m, now.u + at);
    }
}

// K v, ..., K^s v, then lam+ = prox_{t h*}(D v); returns the sum of lam+ (finite or not).
template <class T> double finish_panel(const Plan<T>& plan, const Arrays<T>& now, Int lo, Int m, T* mixed) {
    for (Int power = 1; power <= plan.kept_powers; ++power)
        for (Int i = 0; i < plan.n; ++i) {
            T* own = power_of_v(plan, now, power) + i * plan.p + lo;
            fill(m, T(0), own);
            add_differences(plan, T(1), i, power_of_v(plan, now, power - 1) + lo, plan.p, m, own);
        }
    T total = 0;
    for (Int i = 0; i < plan.n; ++i) {
        const Int at = i * plan.p + lo;
        T* lam = now.lam_prev + at;
        for (Int j = 0; j < m; ++j) mixed[j] = now.v[at + j];
        for (Int j = 1; j <= plan.kept_powers; ++j) add(m, plan.d_powers[j], power_of_v(plan, now, j) + at, mixed);
        conj_prox(plan.h, lo, lo + m, mixed, now.lam + at, lam);
#pragma omp simd reduction(+ : total)
        for (Int j = 0; j < m; ++j) total += lam[j];
    }
    return double(total);
}

// The dual half of an iteration on the rows of a chunk; `out` receives its part of A^T lam+, and the sum of its lam+ is
// returned. The scratch has room for three times n rows of a panel: images, and messages to and fro.
template <class T>
double dual_chunk(const Plan<T>& plan, const Arrays<T>& now, Chunk chunk, T* scratch, T* out, bool pause) {
    const Int width = chunk.rows, block = plan.n * width;
    const T beta = T(plan.beta);
    double total = 0;
    fill(plan.d, T(0), out);
    for (Int lo = chunk.first; lo < chunk.last; lo += width) {
        const Int hi = lo + width < chunk.last ? lo + width : chunk.last;
        if (pause) images_panel(plan, now.x_new, lo, hi, now.Ax + lo, plan.p);
        images_panel(plan, now.x_hat, lo, hi, scratch, width);
        correct_panel(plan, now, lo, hi - lo, scratch + block, scratch + 2 * block, width);
        for (Int i = 0; i < plan.n; ++i) {
            const Int at = i * plan.p + lo;
            const T *image = scratch + i * width, *lam = now.lam + at, *u = now.u + at;
            T* v = now.v + at;
#pragma omp simd
            for (Int j = 0; j < hi - lo; ++j) v[j] = lam[j] - u[j] + beta * image[j];
        }
        total += finish_panel(plan, now, lo, hi - lo, scratch);
        pull_panel(plan, now.lam_prev, lo, hi, out);
    }
    return total;
}

// ---------------------------------------------------------------- what a thread does, for its chunks

template <class T> double dual(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    double total = 0;
    for (Int k = task.first; k < task.last; ++k)
        total += dual_chunk(plan, now, task.chunks[k], task.scratch, task.pulls + k * plan.d, task.pause);
    return total;
}

// A^T lam, by the same panels as in an iteration.
template <class T> double pull(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    for (Int k = task.first; k < task.last; ++k) {
        const Chunk chunk = task.chunks[k];
        fill(plan.d, T(0), task.pulls + k * plan.d);
        for (Int lo = chunk.first; lo < chunk.last; lo += chunk.rows) {
            const Int hi = lo + chunk.rows < chunk.last ? lo + chunk.rows : chunk.last;
            pull_panel(plan, now.lam, lo, hi, task.pulls + k * plan.d);
        }
    }
    return 0;
}

// A^T lam from the parts of all chunks, then x_new, by one thread.
template <class T> double move(const Plan<T>& plan, const Arrays<T>& now, const Task<T>& task) {
    fill(plan.d, T(0), now.force);
    for (Int k = task.first; k < task.last; ++k) add(plan.d, T(1), task.pulls + k * plan.d, now.force);
    for (Int k = 0; k < plan.group_count; ++k) move_group(plan, k, now, task.work);
    return 0;
}

} // namespace npga
