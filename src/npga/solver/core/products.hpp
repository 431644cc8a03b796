// Products with one matrix on its rows lo to hi, so that the caller chooses panels that fit the cache.
#pragma once
#include "plan.hpp"

namespace npga {

template <class T> inline void fill(Int m, T value, T* out) {
    for (Int j = 0; j < m; ++j) out[j] = value;
}

// out[k] += the product of x with the n numbers from data + k lead on; four at a time, for one pass over x. Each sum is
// made of as many partial sums as a vector register has numbers, which is why short rows are quick.
template <class T> inline void add_dots(const T* data, Int lead, Int n, const T* x, Int m, T* out) {
    constexpr Int lanes = 32 / sizeof(T);
    const Int whole = n - n % lanes;
    Int k = 0;
    for (; k + 4 <= m; k += 4) {
        const T *a0 = data + k * lead, *a1 = a0 + lead, *a2 = a1 + lead, *a3 = a2 + lead;
        T p0[lanes] = {}, p1[lanes] = {}, p2[lanes] = {}, p3[lanes] = {}, s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        for (Int j = 0; j < whole; j += lanes) {
#pragma omp simd
            for (Int w = 0; w < lanes; ++w) {
                const T y = x[j + w];
                p0[w] += a0[j + w] * y, p1[w] += a1[j + w] * y, p2[w] += a2[j + w] * y, p3[w] += a3[j + w] * y;
            }
        }
        for (Int w = 0; w < lanes; ++w) s0 += p0[w], s1 += p1[w], s2 += p2[w], s3 += p3[w];
        for (Int j = whole; j < n; ++j) s0 += a0[j] * x[j], s1 += a1[j] * x[j], s2 += a2[j] * x[j], s3 += a3[j] * x[j];
        out[k] += s0, out[k + 1] += s1, out[k + 2] += s2, out[k + 3] += s3;
    }
    for (; k < m; ++k) {
        const T* a0 = data + k * lead;
        T p0[lanes] = {}, s0 = 0;
        for (Int j = 0; j < whole; j += lanes) {
#pragma omp simd
            for (Int w = 0; w < lanes; ++w) p0[w] += a0[j + w] * x[j + w];
        }
        for (Int w = 0; w < lanes; ++w) s0 += p0[w];
        for (Int j = whole; j < n; ++j) s0 += a0[j] * x[j];
        out[k] += s0;
    }
}

// out += sum_k x[k] times the m numbers from data + k lead on; four at a time, for one pass over `out`.
template <class T> inline void add_multiples(const T* data, Int lead, Int n, const T* x, Int m, T* out) {
    Int k = 0;
    for (; k + 4 <= n; k += 4) {
        const T *a0 = data + k * lead, *a1 = a0 + lead, *a2 = a1 + lead, *a3 = a2 + lead;
        const T x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] += (a0[j] * x0 + a1[j] * x1) + (a2[j] * x2 + a3[j] * x3);
    }
    for (; k < n; ++k) {
        const T* a0 = data + k * lead;
        const T x0 = x[k];
#pragma omp simd
        for (Int j = 0; j < m; ++j) out[j] += a0[j] * x0;
    }
}

// out += A[lo:hi] x, of hi - lo numbers.
template <class T> void add_product(const Matrix<T>& A, Int lo, Int hi, const T* x, T* out) {
    if (A.form == BY_COLUMNS) return add_multiples(A.data + lo, A.lead, A.columns, x, hi - lo, out);
    if (A.form == BY_ROWS) return add_dots(A.data + lo * A.lead, A.lead, A.columns, x, hi - lo, out);
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

// out += A[lo:hi]^T y, one number for each column.
template <class T> void add_adjoint(const Matrix<T>& A, Int lo, Int hi, const T* y, T* out) {
    if (A.form == BY_COLUMNS) return add_dots(A.data + lo, A.lead, hi - lo, y, A.columns, out);
    if (A.form == BY_ROWS) return add_multiples(A.data + lo * A.lead, A.lead, hi - lo, y, A.columns, out);
    if (A.form != SPARSE) return;
    if (A.entry_rows) {
        for (Int k = A.pointers[lo]; k < A.pointers[hi]; ++k) out[A.indices[k]] += A.data[k] * y[A.entry_rows[k] - lo];
        return;
    }
    for (Int r = lo; r < hi; ++r)
        for (Int k = A.pointers[r]; k < A.pointers[r + 1]; ++k) out[A.indices[k]] += A.data[k] * y[r - lo];
}

} // namespace npga
