// Products with the network: K u with (K u)_i = sum_j w_ij (u_i - u_j), and Chebyshev polynomials P(K) in its place.
#pragma once
#include "products.hpp"
#include <type_traits>

namespace npga {

// Some agents and some of their rows. Loops over numbers see `runs` runs of `m` of them, p apart from `at` on in an
// n x p array: a run for each agent, or whole rows of all agents in one.
struct Tile {
    Int first, last, lo, hi, runs, m, at;
};

// out += factor (K u)_i on m columns; u points to the first of them in the row of agent 0, and rows are `width` apart.
//
// Written with differences, the sum is exactly zero on agents that agree, so that rounding does not accumulate over
// iterations as it would in a product with I - W. The sums of several columns stay in registers for all neighbours.
template <class T>
inline void add_differences(const Plan<T>& plan, T factor, Int i, const T* u, Int width, Int m, T* out) {
    const T *own = u + i * width, *weight = plan.weights + plan.links[i];
    const Int *other = plan.neighbours + plan.links[i], count = plan.links[i + 1] - plan.links[i], lanes = Lanes<T>::count;
    const auto some = [&](auto vectors, Int j) {
        Vector<T> x[vectors.value], s[vectors.value] = {};
        for (Int w = 0; w < vectors.value; ++w) x[w] = load(own + j + w * lanes);
        for (Int k = 0; k < count; ++k)
            for (Int w = 0; w < vectors.value; ++w)
                s[w] += weight[k] * (x[w] - load(u + other[k] * width + j + w * lanes));
        for (Int w = 0; w < vectors.value; ++w) store(out + j + w * lanes, load(out + j + w * lanes) + factor * s[w]);
    };
    Int j = 0;
    for (; j + 4 * lanes <= m; j += 4 * lanes) some(std::integral_constant<Int, 4>{}, j);
    for (; j + lanes <= m; j += lanes) some(std::integral_constant<Int, 1>{}, j);
    for (; j < m; ++j) {
        T sum = 0;
        for (Int k = 0; k < count; ++k) sum += weight[k] * (own[j] - u[other[k] * width + j]);
        out[j] += factor * sum;
    }
}

// One round of P(K) `source` for agent i, all but the last: the term e = carry e + scale K rest, its sum, and what is
// left of the source without it. P(K) is the polynomial of npga/networks/_chebyshev.py, in the same letters.
template <class T> inline void stage(const Plan<T>& plan, const Arrays<T>& now, Int round, Int i) {
    const Int at = i * plan.p;
    const T carry = round ? plan.carry[round] : T(0), *source = now.source + at;
    T *left = now.rest_new + at, *change = now.change + at, *sum = now.total + at;
    if (round == 0) fill(plan.p, T(0), change), fill(plan.p, T(0), sum);
    for (Int j = 0; j < plan.p; ++j) change[j] *= carry;
    add_differences(plan, plan.scale[round], i, round ? now.rest : now.source, plan.p, plan.p, change);
    each(0, plan.p, [=](Int j) { sum[j] += change[j], left[j] = source[j] - sum[j]; });
}

// out += K u on a tile, or P(K) u, of which all rounds but the last are done: a block of columns at a time, so that an
// agent's neighbours find its numbers in the cache. u points to the row of agent 0, `out` to that of the first agent.
template <class T>
void add_mixed(const Plan<T>& plan, const Arrays<T>& now, Tile t, const T* u, Int width, T* out, Int out_width) {
    const Int block = 128, last = plan.degree - 1;
    for (Int lo = 0; lo < t.hi - t.lo; lo += block)
        for (Int i = t.first; i < t.last; ++i) {
            const Int m = smaller(block, t.hi - t.lo - lo), at = i * plan.p + t.lo + lo;
            T* own = out + (i - t.first) * out_width + lo;
            if (!last) add_differences(plan, T(1), i, u + lo, width, m, own);
            if (!last) continue;
            for (Int j = 0; j < m; ++j) own[j] += now.total[at + j] + plan.carry[last] * now.change[at + j];
            add_differences(plan, plan.scale[last], i, now.rest + t.lo + lo, plan.p, m, own);
        }
}

} // namespace npga
