// Products with the network: K u with (K u)_i = sum_j w_ij (u_i - u_j), and messages made of powers of K.
#pragma once
#include "products.hpp"

namespace npga {

// out = (K u)_i on m columns; u points to the first of them in the row of agent 0, and rows are `width` apart.
//
// Written with differences, the sum is exactly zero on agents that agree, so that rounding does not accumulate over
// iterations as it would in a product with I - W. Four neighbours share a pass over `out`.
template <class T> inline void differences(const Plan<T>& plan, Int i, const T* u, Int width, Int m, T* out) {
    const T* own = u + i * width;
    const Int* other = plan.neighbours + plan.links[i];
    const T* weight = plan.weights + plan.links[i];
    const Int count = plan.links[i + 1] - plan.links[i];
    fill(m, T(0), out);
    Int k = 0;
    for (; k + 4 <= count; k += 4) {
        const T *u0 = u + other[k] * width, *u1 = u + other[k + 1] * width;
        const T *u2 = u + other[k + 2] * width, *u3 = u + other[k + 3] * width;
        const T w0 = weight[k], w1 = weight[k + 1], w2 = weight[k + 2], w3 = weight[k + 3];
#pragma omp simd
        for (Int j = 0; j < m; ++j) {
            const T x = own[j];
            out[j] += (w0 * (x - u0[j]) + w1 * (x - u1[j])) + (w2 * (x - u2[j]) + w3 * (x - u3[j]));
        }
    }
    for (; k < count; ++k) {
        const T* u0 = u + other[k] * width;
        const T w0 = weight[k];
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] += w0 * (own[j] - u0[j]);
    }
}

// One round of P(K) `source` for agent i, all but the last: the term e = carry e + scale K rest, its sum, and what is left
// of the source without it. P(K) is the Chebyshev polynomial of npga/networks/_chebyshev.py, in the same letters.
template <class T> inline void stage(const Plan<T>& plan, const Arrays<T>& now, Int round, Int i) {
    const Int at = i * plan.p;
    const T carry = round ? plan.carry[round] : T(0), scale = plan.scale[round];
    const T* source = now.source + at;
    T *left = now.rest_new + at, *change = now.change + at, *total = now.total + at;
    differences(plan, i, round ? now.rest : now.source, plan.p, plan.p, left);
    if (round == 0) fill(plan.p, T(0), change), fill(plan.p, T(0), total);
#pragma omp simd
    for (Int j = 0; j < plan.p; ++j) {
        change[j] = carry * change[j] + scale * left[j];
        total[j] += change[j];
        left[j] = source[j] - total[j];
    }
}

// out = (K u)_i; where the degree is above 1 (P(K) u)_i, of which all rounds but the last are done.
template <class T> inline void product(const Plan<T>& plan, const Arrays<T>& now, Int i, const T* u, T* out) {
    if (plan.degree == 1) return differences(plan, i, u, plan.p, plan.p, out);
    const T carry = plan.carry[plan.degree - 1], scale = plan.scale[plan.degree - 1];
    const T *change = now.change + i * plan.p, *total = now.total + i * plan.p;
    differences(plan, i, now.rest, plan.p, plan.p, out);
#pragma omp simd
    for (Int j = 0; j < plan.p; ++j) out[j] = total[j] + (carry * change[j] + scale * out[j]);
}

// out += factor x
template <class T> inline void add(Int m, T factor, const T* x, T* out) {
    if (factor == 0) return;
#pragma omp simd
    for (Int j = 0; j < m; ++j) out[j] += factor * x[j];
}

// out += c_m (lam - lam_prev) + gamma b_{s+m} K^s v, the new part of the message for the power m of K.
template <class T>
inline void add_message(const Plan<T>& plan, Int power, Int m, const T* lam, const T* lam_prev, const T* latest, T* out) {
    const T c = plan.c[power], b = plan.b[plan.kept_powers + power];
    if (b == 0) {
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] += c * (lam[j] - lam_prev[j]);
    } else {
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] += c * (lam[j] - lam_prev[j]) + b * latest[j];
    }
}

} // namespace npga
