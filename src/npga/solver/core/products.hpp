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
template <class T> inline void swap(T*& a, T*& b) {
    T* c = a;
    a = b, b = c;
}
template <class T> inline void fill(Int m, T value, T* out) {
    for (Int j = 0; j < m; ++j) out[j] = value;
}

// Whether four lines of a matrix, columns or rows, are read at a time, which saves passes over the vector. Long rows are
// read one after another: together they would look like a walk to and fro, and the processor would fetch nothing ahead.
template <class T> inline bool in_fours(const Matrix<T>& A) { return A.form == BY_COLUMNS || A.columns < 32; }

// out[k] += the product of x with the n numbers from data + k lead on, for m lines.
template <class T> inline void add_dots(bool fours, const T* data, Int lead, Int n, const T* x, Int m, T* out) {
    constexpr Int lanes = Lanes<T>::count;
    Int k = 0;
    for (; fours && k + 4 <= m; k += 4) {
        const T *a0 = data + k * lead, *a1 = a0 + lead, *a2 = a1 + lead, *a3 = a2 + lead;
        Vector<T> p0 = {}, p1 = {}, p2 = {}, p3 = {};
        Int j = 0;
        for (; j + lanes <= n; j += lanes) {
            const Vector<T> y = load(x + j);
            p0 += load(a0 + j) * y, p1 += load(a1 + j) * y, p2 += load(a2 + j) * y, p3 += load(a3 + j) * y;
        }
        T s0 = sum<T>(p0), s1 = sum<T>(p1), s2 = sum<T>(p2), s3 = sum<T>(p3);
        for (; j < n; ++j) s0 += a0[j] * x[j], s1 += a1[j] * x[j], s2 += a2[j] * x[j], s3 += a3[j] * x[j];
        out[k] += s0, out[k + 1] += s1, out[k + 2] += s2, out[k + 3] += s3;
    }
    for (; k < m; ++k) {
        const T* a = data + k * lead;
        Vector<T> p0 = {}, p1 = {}, p2 = {}, p3 = {};
        Int j = 0;
        for (; j + 4 * lanes <= n; j += 4 * lanes) {
            p0 += load(a + j) * load(x + j), p1 += load(a + j + lanes) * load(x + j + lanes);
            p2 += load(a + j + 2 * lanes) * load(x + j + 2 * lanes), p3 += load(a + j + 3 * lanes) * load(x + j + 3 * lanes);
        }
        for (; j + lanes <= n; j += lanes) p0 += load(a + j) * load(x + j);
        T s = sum<T>((p0 + p1) + (p2 + p3));
        for (; j < n; ++j) s += a[j] * x[j];
        out[k] += s;
    }
}

// out += sum_k x[k] times the m numbers from data + k lead on, for n lines.
template <class T> inline void add_multiples(bool fours, const T* data, Int lead, Int n, const T* x, Int m, T* out) {
    Int k = 0;
    for (; fours && k + 4 <= n; k += 4) {
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
    if (A.form == BY_COLUMNS) return add_multiples(in_fours(A), A.data + lo, A.lead, A.columns, x, hi - lo, out);
    if (A.form == BY_ROWS) return add_dots(in_fours(A), A.data + lo * A.lead, A.lead, A.columns, x, hi - lo, out);
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
    if (A.form == BY_COLUMNS) return add_dots(in_fours(A), A.data + lo, A.lead, hi - lo, y, A.columns, out);
    if (A.form == BY_ROWS) return add_multiples(in_fours(A), A.data + lo * A.lead, A.lead, hi - lo, y, A.columns, out);
    if (A.form != SPARSE) return;
    if (A.entry_rows) {
        for (Int k = A.pointers[lo]; k < A.pointers[hi]; ++k) out[A.indices[k]] += A.data[k] * y[A.entry_rows[k] - lo];
        return;
    }
    for (Int r = lo; r < hi; ++r)
        for (Int k = A.pointers[r]; k < A.pointers[r + 1]; ++k) out[A.indices[k]] += A.data[k] * y[r - lo];
}

} // namespace npga
