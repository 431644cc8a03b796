// Products with one matrix on its rows lo to hi, so that the caller chooses panels that fit the cache, and with the network:
// K u with (K u)_i = sum_j w_ij (u_i - u_j), and Chebyshev polynomials P(K) in place of K.
#pragma once
#include "plan.h"
#include <algorithm>
#include <cstring>
#include <type_traits>

namespace npga {

using std::fill_n, std::max, std::min, std::swap;

// Vectors of 32 bytes, whatever the processor's registers: the bits of a sum depend on their length.
template <class T> using Vector __attribute__((vector_size(32))) = T;
template <class T> constexpr Int LANES = 32 / sizeof(T);
template <class To> inline To read(const void* from) {
    To x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
template <class T> inline Vector<T> load(const T* from) { return read<Vector<T>>(from); }
template <class T, class V> inline void store(T* to, V x) { std::memcpy(to, &x, sizeof x); }
template <class T> inline T sum(Vector<T> x) {
    T total = 0;
    for (Int w = 0; w < LANES<T> / 2; ++w) total += x[w] + x[w + LANES<T> / 2];
    return total;
}

// run(lo) to run(hi - 1), many at a time, and the sum of what they return, in their type.
template <class Run> inline void each(Int lo, Int hi, Run&& run) {
#pragma omp simd
    for (Int j = lo; j < hi; ++j) run(j);
}
template <class Run> inline auto total(Int lo, Int hi, Run&& run) {
    decltype(run(lo)) sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Int j = lo; j < hi; ++j) sum += run(j);
    return sum;
}

// out += factor x
template <class T> inline void add(Int m, T factor, const T* x, T* out) {
    if (factor != 0) each(0, m, [=](Int j) { out[j] += factor * x[j]; });
}

// Lines of a matrix, columns or rows, are taken four at a time, which saves passes over the vector. Side by side they look
// like a walk to and fro, for which no processor fetches ahead. So the loops ask evenly for what is read soon: numbers
// from `next` on, `length` for each line, unless that is null. Addresses behind an array do no harm. What is run is part
// of its callers, because GCC fuses the last products with their sums, or does not, as it likes in a function of its own.
template <class T, class Run> [[gnu::always_inline]] inline void by_fours(Int count, Int length, const T* next, Run&& run) {
    Int k = 0;
    for (; k + 4 <= count; k += 4) {
        for (Int j = 0; next && j < 4 * length; j += 64 / Int(sizeof(T))) __builtin_prefetch(next + k * length + j);
        run(std::integral_constant<Int, 4>{}, k);
    }
    for (; k < count; ++k) run(std::integral_constant<Int, 1>{}, k);
}

// out[k] += the product of x with the n numbers from data + k lead on, for m lines.
template <class T> [[gnu::always_inline]] inline void add_dots(const T* data, Int lead, Int n, const T* x, Int m, T* out, const T* next = nullptr) {
    by_fours(m, n, next, [=](auto lines, Int k) __attribute__((always_inline)) {
        const T* a = data + k * lead;
        Vector<T> part[lines.value] = {};
        Int j = 0;
        for (; j + LANES<T> <= n; j += LANES<T>)
            for (Int i = 0; i < lines.value; ++i) part[i] += load(a + i * lead + j) * load(x + j);
        T total[lines.value];
        for (Int i = 0; i < lines.value; ++i) total[i] = sum<T>(part[i]);
        for (; j < n; ++j)
            for (Int i = 0; i < lines.value; ++i) total[i] += a[i * lead + j] * x[j];
        for (Int i = 0; i < lines.value; ++i) out[k + i] += total[i];
    });
}

// out += sum_k x[k] times the m numbers from data + k lead on, for n lines.
template <class T>
[[gnu::always_inline]] inline void add_multiples(const T* data, Int lead, Int n, const T* x, Int m, T* out, const T* next = nullptr) {
    by_fours(n, m, next, [=](auto lines, Int k) __attribute__((always_inline)) {
        constexpr Int last = lines.value - 1;
        const T *a0 = data + k * lead, *a1 = a0 + lead, *a2 = a1 + lead, *a3 = a2 + lead;
        const T x0 = x[k], x1 = x[k + last / 3], x2 = x[k + 2 * last / 3], x3 = x[k + last];
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] += last ? (a0[j] * x0 + a1[j] * x1) + (a2[j] * x2 + a3[j] * x3) : a0[j] * x0;
    });
}

// Of a matrix by rows: how many of `rows` rows fill a quarter of the first cache, and where a row begins if the rows lie
// one behind another.
template <class T> Int block_rows(const Matrix<T>& A, Int rows) {
    const Int fit = A.form == BY_ROWS ? 8192 / (A.columns * Int(sizeof(T))) / 4 * 4 : rows;
    return fit > 4 ? fit : 4;
}
template <class T> const T* row(const Matrix<T>& A, Int r) {
    return A.form == BY_ROWS && A.lead == A.columns ? A.data + r * A.lead : nullptr;
}

// out += A[lo:hi] x, of hi - lo numbers; `next` is where the rows are that are read after these, or null.
template <class T> void add_product(const Matrix<T>& A, Int lo, Int hi, const T* x, T* out, const T* next = nullptr) {
    if (A.form == BY_COLUMNS) return add_multiples(A.data + lo, A.lead, A.columns, x, hi - lo, out);
    if (A.form == BY_ROWS) return add_dots(A.data + lo * A.lead, A.lead, A.columns, x, hi - lo, out, next);
    if (A.entry_rows) {
        for (Int k = A.pointers[lo]; k < A.pointers[hi]; ++k) out[A.entry_rows[k] - lo] += A.data[k] * x[A.indices[k]];
        return;
    }
    for (Int r = lo; r < hi; ++r) {
        T total = 0;
        for (Int k = A.pointers[r]; k < A.pointers[r + 1]; ++k) total += A.data[k] * x[A.indices[k]];
        out[r - lo] += total;
    }
}

// out += A[lo:hi]^T y, one number for each column; `next` as above.
template <class T> void add_adjoint(const Matrix<T>& A, Int lo, Int hi, const T* y, T* out, const T* next = nullptr) {
    if (A.form == BY_COLUMNS) return add_dots(A.data + lo, A.lead, hi - lo, y, A.columns, out);
    if (A.form == BY_ROWS) return add_multiples(A.data + lo * A.lead, A.lead, hi - lo, y, A.columns, out, next);
    if (A.entry_rows) {
        for (Int k = A.pointers[lo]; k < A.pointers[hi]; ++k) out[A.indices[k]] += A.data[k] * y[A.entry_rows[k] - lo];
        return;
    }
    for (Int r = lo; r < hi; ++r)
        for (Int k = A.pointers[r]; k < A.pointers[r + 1]; ++k) out[A.indices[k]] += A.data[k] * y[r - lo];
}

// ---------------------------------------------------------------- the network

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
    const Int *other = plan.neighbours + plan.links[i], count = plan.links[i + 1] - plan.links[i], lanes = LANES<T>;
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
// left of the source without it. P(K) is the polynomial of npga/networks/_exchange.py, in the same letters.
template <class T> inline void stage(const Plan<T>& plan, const Arrays<T>& now, Int round, Int i) {
    const Int at = i * plan.p;
    const T carry = round ? plan.carry[round] : T(0), *source = now.source + at;
    T *left = now.rest_new + at, *change = now.change + at, *sum = now.total + at;
    if (round == 0) fill_n(change, plan.p, T(0)), fill_n(sum, plan.p, T(0));
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
            const Int m = min(block, t.hi - t.lo - lo), at = i * plan.p + t.lo + lo;
            T* own = out + (i - t.first) * out_width + lo;
            if (!last) add_differences(plan, T(1), i, u + lo, width, m, own);
            if (!last) continue;
            for (Int j = 0; j < m; ++j) own[j] += now.total[at + j] + plan.carry[last] * now.change[at + j];
            add_differences(plan, plan.scale[last], i, now.rest + t.lo + lo, plan.p, m, own);
        }
}

} // namespace npga
