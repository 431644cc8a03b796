// Functions of many coordinates: loops over the segments, and the kinds that are not sums over coordinates.
#pragma once
#include "elementwise.hpp"
#include "products.hpp"

namespace npga {

// ---------------------------------------------------------------- functions of whole blocks, r = x - c
//
//     NORM     a |r|                   GROUPS   sum_G a_G |r_G|, the weight of its group at each coordinate
//     BALL     0 for |r| <= a          SIMPLEX  0 for r >= 0, sum(r) = a
//
// The columns are prepared for the step t: for the prox t a of a norm, and for the conjugate t c, with t a of a set.
// Then prox_{t f*}(x) = x - t prox_{f/t}(x/t) has the same shape: a norm turns into the projection onto a ball, a ball
// into a shrinkage, and what is left is not added to c.

template <class T> inline T positive(T x) { return x < 0 ? T(0) : x; } // NaN stays NaN

// Shrink r on the coordinates at(0), ..., at(m - 1): onto |r| <= a, or by the length a.
template <class T, class At>
inline void shrink(bool project, bool conjugate, Int m, At at, const T* x, Columns<const T> q, T* out) {
    T total = 0;
    for (Int k = 0; k < m; ++k) total += (x[at(k)] - q.c[at(k)]) * (x[at(k)] - q.c[at(k)]);
    const T length = std::sqrt(total), a = m ? q.a[at(0)] : T(0);
    T factor = 1;
    if (project) {
        if (length > a) factor = a / length;
    } else {
        factor = length > 0 ? positive(1 - a / length) : length; // NaN stays NaN
    }
    for (Int k = 0; k < m; ++k) {
        const Int j = at(k);
        if (conjugate) out[j] = factor * (x[j] - q.c[j]);
        else if (factor != 1) out[j] = q.c[j] + factor * (x[j] - q.c[j]);
        else out[j] = x[j];
    }
}

// r - max(r - theta, 0) or max(r - theta, 0) with theta such that the latter has the sum a. Starting from all coordinates,
// those at or below the threshold of the others are dropped until none is left to drop (Michelot, 1986): the same
// threshold as by sorting. The shift by the maximum keeps the sums small.
template <class T> inline void simplex(bool conjugate, Int m, const T* x, Columns<const T> q, T* out) {
    T shift = x[0] - q.c[0], theta = -std::numeric_limits<T>::infinity();
    for (Int j = 1; j < m; ++j) shift = x[j] - q.c[j] > shift ? x[j] - q.c[j] : shift;
    for (Int count = m + 1, kept = 0; kept != count;) {
        if (kept) count = kept;
        T sum = 0;
        kept = 0;
        for (Int j = 0; j < m; ++j) {
            const T r = x[j] - q.c[j] - shift;
            if (r > theta) sum += r, ++kept;
        }
        if (kept != count) theta = (sum - q.a[0]) / T(kept);
        if (!kept) break; // not numbers
    }
    for (Int j = 0; j < m; ++j) {
        const T inside = positive(x[j] - q.c[j] - shift - theta);
        out[j] = conjugate ? x[j] - q.c[j] - inside : q.c[j] + inside;
    }
}

template <class T>
inline void block_prox(const Segment<T>& s, bool conjugate, const T* x, Columns<const T> q, T* out) {
    const bool project = (s.kind == BALL) != conjugate;
    const Int m = s.stop - s.start;
    if (s.kind == SIMPLEX) return simplex(conjugate, m, x, q, out);
    if (s.kind != GROUPS) return shrink(project, conjugate, m, [](Int k) { return k; }, x, q, out);
    for (Int g = 0; g < s.groups; ++g) {
        const Int* members = s.members + s.ends[g];
        shrink(project, conjugate, s.ends[g + 1] - s.ends[g], [=](Int k) { return members[k]; }, x, q, out);
    }
}

// f(x), membership up to the tolerance of npga.functions.
template <class T> double block_value(const Segment<T>& s, const T* x, Columns<const T> k, double slack) {
    const Int m = s.stop - s.start;
    const double infinity = std::numeric_limits<double>::infinity(), a = k.a[0];
    double squares = 0, sum = 0, least = infinity, largest = 0, total = 0;
    for (Int j = 0; j < m; ++j) {
        const double r = x[j] - k.c[j], c = std::abs(k.c[j]);
        squares += r * r, sum += r;
        least = r < least ? r : least;
        largest = c > largest ? c : largest;
    }
    if (s.kind == NORM) return a * std::sqrt(squares);
    if (s.kind == BALL) return std::sqrt(squares) <= a + slack * (1 + a + largest) ? 0 : infinity;
    if (s.kind == SIMPLEX) return least >= -slack && std::abs(sum - a) <= slack * (1 + a) ? 0 : infinity;
    for (Int g = 0; g < s.groups; ++g) {
        squares = 0;
        for (Int i = s.ends[g]; i < s.ends[g + 1]; ++i) {
            const double r = x[s.members[i]] - k.c[s.members[i]];
            squares += r * r;
        }
        total += k.a[s.members[s.ends[g]]] * std::sqrt(squares);
    }
    return total;
}

// ---------------------------------------------------------------- functions with a matrix, r = x - c
//
//     QUADRATIC   w (r.M r/2 + v.r)          LEAST_SQUARES   (w/2) |M r - v|^2

// r and M r in `work`, which holds as many numbers as M has columns and rows; returns the address of M r.
template <class T> inline T* image(const Segment<T>& s, const T* x, const T* c, T* work) {
    const Matrix<T>& M = s.matrix;
    T* out = work + M.columns;
    for (Int j = 0; j < M.columns; ++j) work[j] = x[j] - c[j];
    fill(M.rows, T(0), out);
    add_product(M, 0, M.rows, work, out);
    return out;
}

template <class T> void add_matrix_grad(const Segment<T>& s, const T* x, const T* c, T* out, T* work) {
    const Matrix<T>& M = s.matrix;
    const T w = T(s.weight);
    T* Mr = image(s, x, c, work);
    if (s.kind == QUADRATIC) {
        for (Int j = 0; j < M.columns; ++j) out[j] += w * (Mr[j] + s.vector[j]);
        return;
    }
    for (Int j = 0; j < M.rows; ++j) Mr[j] -= s.vector[j];
    fill(M.columns, T(0), work);
    add_adjoint(M, 0, M.rows, Mr, work);
    for (Int j = 0; j < M.columns; ++j) out[j] += w * work[j];
}

template <class T> double matrix_value(const Segment<T>& s, const T* x, const T* c, T* work) {
    const T* Mr = image(s, x, c, work);
    double total = 0;
    for (Int j = 0; j < s.matrix.rows; ++j) {
        const T r = s.kind == QUADRATIC ? work[j] : (Mr[j] - s.vector[j]) / 2;
        total += r * (s.kind == QUADRATIC ? Mr[j] / 2 + s.vector[j] : Mr[j] - s.vector[j]);
    }
    return s.weight * total;
}

// ---------------------------------------------------------------- all segments

template <class T> inline Columns<const T> parameters(const Function<T>& f) { return {f.a, f.b, f.c}; }

// What proximal maps read: columns that were prepared, and the step at each coordinate.
template <class T> struct Ready {
    Columns<T> columns;
    T* t;
    Ready from(Int j) const { return {columns.from(j), t + j}; }
};
template <class T> inline Ready<T> ready(const Function<T>& f) { return {{f.ready_a, f.ready_b, f.ready_c}, f.ready_t}; }

// Those of f, or of its conjugate, for the step t[j * each] at coordinate j. A bent segment takes the prox of its formula,
// for the conjugate too, at another step.
template <class T, class Step>
void prepare(const Function<T>& f, bool conjugate, const Step* t, Int each, Ready<T> out) {
    for (Int i = 0; i < f.count; ++i) {
        const Segment<T>& s = f.segments[i];
        const bool mirrored = conjugate && !s.is_bent, is_norm = s.kind == NORM || s.kind == GROUPS;
        auto each_coordinate = [&](auto columns) {
            for (Int j = s.start; j < s.stop; ++j) {
                const double given = double(t[j * each]), ridge = s.is_bent ? double(f.ridge[j]) : 0;
                const double step = !s.is_bent ? given : conjugate ? 1 / (given + ridge) : given / (1 + given * ridge);
                const Row<double> q = columns(Row<double>{double(f.a[j]), double(f.b[j]), double(f.c[j])}, step);
                out.columns.a[j] = T(q.a), out.columns.b[j] = T(q.b), out.columns.c[j] = T(q.c), out.t[j] = T(given);
            }
        };
        if (s.kind >= NORM)
            each_coordinate([&](Row<double> k, double step) {
                return Row<double>{mirrored == is_norm ? k.a : step * k.a, 0, mirrored ? step * k.c : k.c};
            });
        with_kind<double>(s.kind, [&](auto phi) {
            each_coordinate([&](auto k, double step) { return mirrored ? phi.for_conj(k, step) : phi.for_prox(k, step); });
        });
    }
}

// Add the gradient of the segments first to last - 1; x and `out` hold all coordinates.
template <class T> void add_grad(const Function<T>& f, Int first, Int last, const T* x, T* out, T* work) {
    const Columns<const T> k = parameters(f);
    for (Int i = first; i < last; ++i) {
        const Segment<T>& s = f.segments[i];
        if (s.kind >= QUADRATIC) add_matrix_grad(s, x + s.start, k.c + s.start, out + s.start, work);
        with_kind<T>(s.kind, [&](auto phi) {
#pragma omp simd
            for (Int j = s.start; j < s.stop; ++j) out[j] += phi.grad(x[j], k[j]);
        });
        for (Int j = s.start; j < s.stop && s.is_bent; ++j) out[j] += f.tilt[j] + f.ridge[j] * x[j];
    }
}

// One proximal map of m coordinates of one segment; `out` may be x.
template <class T>
inline void segment_prox(const Segment<T>& s, bool conjugate, Int m, const T* x, Columns<const T> q, const T* guess, T* out) {
    if (s.kind >= NORM) return block_prox(s, conjugate, x, q, out);
    with_kind<T>(s.kind, [&](auto phi) {
        if constexpr (std::is_same_v<decltype(phi), Logistic<T>>) {
            conjugate ? phi.conj_prox(m, x, q, guess, out) : phi.prox(m, x, q, guess, out);
        } else if (conjugate) {
#pragma omp simd
            for (Int j = 0; j < m; ++j) out[j] = phi.conj_prox(x[j], q[j]);
        } else {
#pragma omp simd
            for (Int j = 0; j < m; ++j) out[j] = phi.prox(x[j], q[j]);
        }
    });
}

// The same for any segment, from the coordinate `at` on, which the arrays begin with. Bent ones complete the square,
//     prox_{t f}(x) = clip(prox_{s formula}((x - t tilt)/(1 + t ridge))),  s = t/(1 + t ridge),
// and that of the conjugate is x - t prox_{f/t}(x/t), for which `out` must not be x.
template <class T>
void bent_prox(const Function<T>& f, const Segment<T>& s, bool conjugate, Int at, Int m, const T* x, Ready<T> q, const T* guess,
               T* out) {
    const Columns<const T> k = {q.columns.a, q.columns.b, q.columns.c};
    if (!s.is_bent) return segment_prox(s, conjugate, m, x, k, guess, out);
    for (Int j = 0; j < m; ++j) {
        const T t = q.t[j], tilt = f.tilt[at + j], ridge = f.ridge[at + j];
        out[j] = conjugate ? (x[j] - tilt) / (t + ridge) : (x[j] - t * tilt) / (1 + t * ridge);
    }
    segment_prox(s, false, m, out, k, conjugate ? out : guess, out);
    for (Int j = 0; j < m; ++j) {
        const T inside = clip(out[j], f.lo[at + j], f.hi[at + j]);
        out[j] = conjugate ? x[j] - q.t[j] * inside : inside;
    }
}

// Prox of the segments first to last - 1; all arrays hold all coordinates.
template <class T> void prox(const Function<T>& f, Ready<T> q, Int first, Int last, const T* x, const T* guess, T* out) {
    for (Int i = first; i < last; ++i) {
        const Segment<T>& s = f.segments[i];
        const Int k = s.start;
        bent_prox(f, s, false, k, s.stop - k, x + k, q.from(k), guess + k, out + k);
    }
}

// Prox of the conjugate at the coordinates lo to hi, which the arrays hold; functions of blocks need all of theirs.
template <class T> void conj_prox(const Function<T>& f, Int lo, Int hi, const T* x, const T* guess, T* out) {
    for (Int i = 0; i < f.count; ++i) {
        const Segment<T>& s = f.segments[i];
        const Int start = s.start > lo ? s.start : lo, stop = s.stop * f.copies < hi ? s.stop * f.copies : hi, k = start - lo;
        if (start < stop) bent_prox(f, s, true, start, stop - start, x + k, ready(f).from(start), guess + k, out + k);
    }
}

template <class T> double value(const Function<T>& f, const T* x, double slack, T* work) {
    const Columns<const T> k = parameters(f);
    double total = 0;
    for (Int i = 0; i < f.count; ++i) {
        const Segment<T>& s = f.segments[i];
        if (s.kind >= QUADRATIC) total += matrix_value(s, x + s.start, k.c + s.start, work);
        else if (s.kind >= NORM) total += block_value(s, x + s.start, k.from(s.start), slack);
        with_kind<T>(s.kind, [&](auto phi) {
            double sum = 0;
#pragma omp simd reduction(+ : sum)
            for (Int j = s.start; j < s.stop; ++j) sum += phi.value(x[j], k[j], T(slack));
            total += sum;
        });
        for (Int j = s.start; j < s.stop && s.is_bent; ++j)
            total += (f.tilt[j] + f.ridge[j] * x[j] / 2) * x[j] + f.base[j] + Interval<T>::value(x[j], {f.lo[j], f.hi[j], 0}, T(slack));
    }
    return total;
}

} // namespace npga
