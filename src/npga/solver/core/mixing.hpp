// Products with the network: K u with (K u)_i = sum_j w_ij (u_i - u_j), and messages made of powers of K.
#pragma once
#include "products.hpp"
#include <type_traits>

namespace npga {

// out += factor (K u)_i on m columns; u points to the first of them in the row of agent 0, and rows are `width` apart.
//
// Written with differences, the sum is exactly zero on agents that agree, so that rounding does not accumulate over
// iterations as it would in a product with I - W. The sums of several columns stay in registers for all neighbours.
template <class T> inline void add_differences(const Plan<T>& plan, T factor, Int i, const T* u, Int width, Int m, T* out) {
    const T* own = u + i * width;
    const Int* other = plan.neighbours + plan.links[i];
    const T* weight = plan.weights + plan.links[i];
    const Int count = plan.links[i + 1] - plan.links[i], lanes = Lanes<T>::count;
    const auto some = [&](auto vectors, Int j) {
        Vector<T> x[vectors.value], s[vectors.value] = {};
        for (Int w = 0; w < vectors.value; ++w) x[w] = load(own + j + w * lanes);
        for (Int k = 0; k < count; ++k)
            for (Int w = 0; w < vectors.value; ++w) s[w] += weight[k] * (x[w] - load(u + other[k] * width + j + w * lanes));
        for (Int w = 0; w < vectors.value; ++w) store(out + j + w * lanes, load(out + j + w * lanes) + factor * s[w]);
    };
    Int j = 0;
    for (; j + 4 * lanes <= m; j += 4 * lanes) some(std::integral_constant<Int, 4>{}, j);
    for (; j + lanes <= m; j += lanes) some(std::integral_constant<Int, 1>{}, j);
    for (; j < m; ++j) {
        T total = 0;
        for (Int k = 0; k < count; ++k) total += weight[k] * (own[j] - u[other[k] * width + j]);
        out[j] += factor * total;
    }
}

// One round of P(K) `source` for agent i, all but the last: the term e = carry e + scale K rest, its sum, and what is left
// of the source without it. P(K) is the Chebyshev polynomial of npga/networks/_chebyshev.py, in the same letters.
template <class T> inline void stage(const Plan<T>& plan, const Arrays<T>& now, Int round, Int i) {
    const Int at = i * plan.p;
    const T carry = round ? plan.carry[round] : T(0), scale = plan.scale[round];
    const T* source = now.source + at;
    T *left = now.rest_new + at, *change = now.change + at, *total = now.total + at;
    if (round == 0) fill(plan.p, T(0), change), fill(plan.p, T(0), total);
    for (Int j = 0; j < plan.p; ++j) change[j] *= carry;
    add_differences(plan, scale, i, round ? now.rest : now.source, plan.p, plan.p, change);
#pragma omp simd
    for (Int j = 0; j < plan.p; ++j) {
        total[j] += change[j];
        left[j] = source[j] - total[j];
    }
}

// out += (K u)_i on the columns lo to hi, where u points to lo in the row of agent 0, or (P(K) u)_i, of which all rounds
// but the last are done.
template <class T>
inline void add_mixed(const Plan<T>& plan, const Arrays<T>& now, Int i, Int lo, Int hi, const T* u, Int width, T* out) {
    if (plan.degree == 1) return add_differences(plan, T(1), i, u, width, hi - lo, out);
    const T carry = plan.carry[plan.degree - 1], scale = plan.scale[plan.degree - 1];
    const T *total = now.total + i * plan.p, *change = now.change + i * plan.p;
    for (Int j = lo; j < hi; ++j) out[j - lo] += total[j] + carry * change[j];
    add_differences(plan, scale, i, now.rest + lo, plan.p, hi - lo, out);
}

// out += factor x
template <class T> inline void add(Int m, T factor, const T* x, T* out) {
    if (factor == 0) return;
#pragma omp simd
    for (Int j = 0; j < m; ++j) out[j] += factor * x[j];
}

// c_m (lam - lam_prev) + gamma b_{s+m} K^s v, the new part of the message for the power m of K.
template <class T>
inline void new_message(const Plan<T>& plan, Int power, Int m, const T* lam, const T* lam_prev, const T* latest, T* out) {
    const T c = plan.c[power], b = plan.b[plan.kept_powers + power];
    if (b == 0) {
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] = c * (lam[j] - lam_prev[j]);
    } else {
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] = c * (lam[j] - lam_prev[j]) + b * latest[j];
    }
}

} // namespace npga
