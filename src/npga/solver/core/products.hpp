// Products with one matrix on its rows lo to hi, so that the caller chooses panels that fit the cache.
#pragma once
#include "plan.h"
#include <cstring>

namespace npga {

// Vectors of 32 bytes, whatever the processor's registers: the bits of a sum depend on their length.
template <class T> struct Lanes {
    typedef T Vector __attribute__((vector_size(32)));
    static constexpr Int count = 32 / sizeof(T);
};
template <class T> using Vector = typename Lanes<T>::Vector;
template <class T> inline Vector<T> load(const T* from) {
    Vector<T> x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
template <class T> inline void store(T* to, Vector<T> x) { std::memcpy(to, &x, sizeof x); }
template <class T> inline T sum(Vector<T> x) {
    T total = 0;
    for (Int w = 0; w < Lanes<T>::count / 2; ++w) total += x[w] + x[w + Lanes<T>::count / 2];
    return total;
}

template <class T> inline T sum(Int m, const T* x) {
    Vector<T> part = {};
    Int j = 0;
    for (; j + Lanes<T>::count <= m; j += Lanes<T>::count) part += load(x + j);
    T total = sum<T>(part);
    for (; j < m; ++j) total += x[j];
    return total;
}

inline Int smaller(Int a, Int b) { return a < b ? a : b; }
template <class T> inline void swap(T*& a, T*& b) {
    T* c = a;
    a = b, b = c;
}
template <class T> inline void fill(Int m, T value, T* out) {
    for (Int j = 0; j < m; ++j) out[j] = value;
}
// run(lo) to run(hi - 1), many at a time, and the sum of what they return.
template <class Run> inline void each(Int lo, Int hi, Run&& run) {
#pragma omp simd
    for (Int j = lo; j < hi; ++j) run(j);
}
template <class Run> inline double total(Int lo, Int hi, Run&& run) {
    double sum = 0;
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
// from `next` on, unless that is null. Addresses behind an array do no harm.
template <class T> inline void fetch(const T* next, Int count) {
    for (Int j = 0; j < count; j += 64 / Int(sizeof(T))) __builtin_prefetch(next + j);
}

// out[k] += the product of x with the n numbers from data + k lead on, for `Lines` lines from k on.
template <Int Lines, class T> [[gnu::always_inline]] inline void add_some_dots(const T* data, Int lead, Int n, const T* x, Int k, T* out) {
    constexpr Int lanes = Lanes<T>::count;
    const T* a = data + k * lead;
    Vector<T> part[Lines] = {};
    Int j = 0;
    for (; j + lanes <= n; j += lanes)
        for (Int i = 0; i < Lines; ++i) part[i] += load(a + i * lead + j) * load(x + j);
    T total[Lines];
    for (Int i = 0; i < Lines; ++i) total[i] = sum<T>(part[i]);
    for (; j < n; ++j)
        for (Int i = 0; i < Lines; ++i) total[i] += a[i * lead + j] * x[j];
    for (Int i = 0; i < Lines; ++i) out[k + i] += total[i];
}

template <class T> inline void add_dots(const T* data, Int lead, Int n, const T* x, Int m, T* out, const T* next = nullptr) {
    Int k = 0;
    for (; k + 4 <= m; k += 4) {
        if (next) fetch(next + k * n, 4 * n);
        add_some_dots<4>(data, lead, n, x, k, out);
    }
    for (; k < m; ++k) add_some_dots<1>(data, lead, n, x, k, out);
}

// out += sum_k x[k] times the m numbers from data + k lead on, for n lines.
template <class T>
inline void add_multiples(const T* data, Int lead, Int n, const T* x, Int m, T* out, const T* next = nullptr) {
    Int k = 0;
    for (; k + 4 <= n; k += 4) {
        if (next) fetch(next + k * m, 4 * m);
        const T *a0 = data + k * lead, *a1 = a0 + lead, *a2 = a1 + lead, *a3 = a2 + lead;
        const T x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] += (a0[j] * x0 + a1[j] * x1) + (a2[j] * x2 + a3[j] * x3);
    }
    for (; k < n; ++k) {
        const T *a0 = data + k * lead, x0 = x[k];
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] += a0[j] * x0;
    }
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
    if (A.form != SPARSE) return;
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
    if (A.form != SPARSE) return;
    if (A.entry_rows) {
        for (Int k = A.pointers[lo]; k < A.pointers[hi]; ++k) out[A.indices[k]] += A.data[k] * y[A.entry_rows[k] - lo];
        return;
    }
    for (Int r = lo; r < hi; ++r)
        for (Int k = A.pointers[r]; k < A.pointers[r + 1]; ++k) out[A.indices[k]] += A.data[k] * y[r - lo];
}

} // namespace npga
