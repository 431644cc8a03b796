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
template <class T> using Half __attribute__((vector_size(16))) = T;
template <class T> constexpr Int LANES = 32 / sizeof(T);
template <class To> inline To read(const void* from) {
    To x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
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
            for (Int i = 0; i < lines.value; ++i) part[i] += read<Vector<T>>(a + i * lead + j) * read<Vector<T>>(x + j);
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

// run(k, l, r) for the entries k to l - 1 of a sparse matrix, in row lo + r: all of a row, or single ones in short rows.
template <class T, class Run> inline void each_entry(const Matrix<T>& A, Int lo, Int hi, Run&& run) {
    if (!A.entry_rows)
        for (Int r = lo; r < hi; ++r) run(A.pointers[r], A.pointers[r + 1], r - lo);
    else for (Int k = A.pointers[lo]; k < A.pointers[hi]; ++k) run(k, k + 1, A.entry_rows[k] - lo);
}

// out += A[lo:hi] x, of hi - lo numbers; `next` is where the rows are that are read after these, or null.
template <class T> void add_product(const Matrix<T>& A, Int lo, Int hi, const T* x, T* out, const T* next = nullptr) {
    if (A.form == BY_COLUMNS) return add_multiples(A.data + lo, A.lead, A.columns, x, hi - lo, out);
    if (A.form == BY_ROWS) return add_dots(A.data + lo * A.lead, A.lead, A.columns, x, hi - lo, out, next);
    each_entry(A, lo, hi, [=](Int first, Int last, Int r) {
        T total = 0;
        for (Int k = first; k < last; ++k) total += A.data[k] * x[A.indices[k]];
        out[r] += total;
    });
}

// out += A[lo:hi]^T y, one number for each column; `next` as above.
template <class T> void add_adjoint(const Matrix<T>& A, Int lo, Int hi, const T* y, T* out, const T* next = nullptr) {
    if (A.form == BY_COLUMNS) return add_dots(A.data + lo, A.lead, hi - lo, y, A.columns, out, next);
    if (A.form == BY_ROWS) return add_multiples(A.data + lo * A.lead, A.lead, hi - lo, y, A.columns, out, next);
    each_entry(A, lo, hi, [=](Int first, Int last, Int r) {
        for (Int k = first; k < last; ++k) out[A.indices[k]] += A.data[k] * y[r];
    });
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
    const auto some = [&](auto vectors, auto zero, Int j) { // that many vectors of a type, or single numbers
        using V = decltype(zero);
        constexpr Int size = sizeof(V) / sizeof(T);
        V x[vectors.value], s[vectors.value] = {};
        for (Int w = 0; w < vectors.value; ++w) x[w] = read<V>(own + j + w * size);
        for (Int k = 0; k < count; ++k)
            for (Int w = 0; w < vectors.value; ++w)
                s[w] += weight[k] * (x[w] - read<V>(u + other[k] * width + j + w * size));
        for (Int w = 0; w < vectors.value; ++w) {
            const V changed = read<V>(out + j + w * size) + factor * s[w];
            std::memcpy(out + j + w * size, &changed, sizeof changed);
        }
    };
    Int j = 0;
    for (; j + 4 * lanes <= m; j += 4 * lanes) some(std::integral_constant<Int, 4>{}, Vector<T>{}, j);
    for (; j + lanes <= m; j += lanes) some(std::integral_constant<Int, 1>{}, Vector<T>{}, j);
    for (; j + lanes / 2 <= m; j += lanes / 2) some(std::integral_constant<Int, 1>{}, Half<T>{}, j);
    for (; j < m; ++j) some(std::integral_constant<Int, 1>{}, T(0), j);
}

// out += K u on a tile, a block of columns at a time, so that an agent's neighbours find its numbers in the cache; or P(K) u,
// which is in now.total by then. u points to the row of agent 0, `out` to that of the first agent.
template <class T>
void add_mixed(const Plan<T>& plan, const Arrays<T>& now, Tile t, const T* u, Int width, T* out, Int out_width) {
    const Int block = 128;
    for (Int lo = 0; lo < t.hi - t.lo; lo += block)
        for (Int i = t.first; i < t.last; ++i) {
            const Int m = min(block, t.hi - t.lo - lo), at = i * plan.p + t.lo + lo;
            T* own = out + (i - t.first) * out_width + lo;
            if (plan.degree == 1) add_differences(plan, T(1), i, u + lo, width, m, own);
            else add(m, T(1), now.total + at, own);
        }
}

} // namespace npga
