// Functions of many coordinates: loops over the segments, and the kinds that are not sums over coordinates.
#pragma once
#include "elementwise.hpp"

namespace npga {

// ---------------------------------------------------------------- functions of whole blocks, r = x - c
//
//     NORM     a |r|                   GROUPS   sum_G a_G |r_G|, the weight of its group at each coordinate
//     BALL     0 for |r| <= a          SIMPLEX  0 for r >= 0, sum(r) = a
//
// The columns are prepared for the step t: for the prox t a of a norm, and for the conjugate t c, with t a of a set.
// Then prox_{t f*}(x) = x - t prox_{f/t}(x/t) has the same shape: a norm turns into the projection onto a ball, a ball
// into a shrinkage, and what is left is not added to c.

// What `run` does with the groups of a segment: m coordinates each, of which at(k) is the k-th.
template <class T, class Run> inline void each_norm(const Segment<T>& s, Run&& run) {
    for (Int g = 0; g < s.groups; ++g) {
        const Int *members = s.members, first = s.ends[g], m = s.ends[g + 1] - first;
        members ? run(m, [=](Int k) { return members[first + k]; }) : run(m, [=](Int k) { return first + k; });
    }
}

// |r| on a group
template <class Sum, class T, class At> inline Sum length(Int m, At at, const T* x, const T* c) {
    return std::sqrt(total(0, m, [=](Int k) { return Sum(x[at(k)] - c[at(k)]) * Sum(x[at(k)] - c[at(k)]); }));
}

// r - max(r - theta, 0) or max(r - theta, 0) with theta such that the latter has the sum a. Starting from all
// coordinates, those at or below the threshold of the others are dropped until none is left to drop (Michelot, 1986): the
// same threshold as by sorting. The shift by the maximum keeps the sums small.
template <class T> inline void simplex(bool conjugate, Int m, const T* x, Columns<T> q, T* out) {
    T shift = x[0] - q.c[0], theta = -INFINITY;
    for (Int j = 1; j < m; ++j) shift = x[j] - q.c[j] > shift ? x[j] - q.c[j] : shift;
    for (Int count = m + 2, kept = m + 1; kept && kept < count;) { // none is kept of what is not a number
        T sum = 0;
        count = kept, kept = 0;
        for (Int j = 0; j < m; ++j) {
            const T r = x[j] - q.c[j] - shift;
            if (r > theta) sum += r, ++kept;
        }
        theta = (sum - q.a[0]) / T(kept);
    }
    for (Int j = 0; j < m; ++j) {
        const T inside = max(x[j] - q.c[j] - shift - theta, T(0));
        out[j] = conjugate ? x[j] - q.c[j] - inside : q.c[j] + inside;
    }
}

// Either prox: r is shrunk onto |r| <= a, or by the length a.
template <class T> inline void block_prox(const Segment<T>& s, bool conjugate, const T* x, Columns<T> q, T* out) {
    if (s.kind == SIMPLEX) return simplex(conjugate, s.stop - s.start, x, q, out);
    const bool project = (s.kind == BALL) != conjugate;
    each_norm(s, [=](Int m, auto at) {
        const T r = length<T>(m, at, x, q.c), a = m ? q.a[at(0)] : T(0);
        const T factor = project ? (r > a ? a / r : T(1)) : r > 0 ? max(1 - a / r, T(0)) : r; // NaN stays NaN
        for (Int k = 0; k < m; ++k) {
            const Int j = at(k);
            if (conjugate) out[j] = factor * (x[j] - q.c[j]);
            else out[j] = factor == 1 ? x[j] : q.c[j] + factor * (x[j] - q.c[j]);
        }
    });
}

// f(x), membership up to the tolerance of npga.functions.
template <class T> double block_value(const Segment<T>& s, const T* x, const T* a, const T* c, double slack) {
    double sum = 0, least = INFINITY, largest = 0, norms = 0;
    for (Int j = 0; j < s.stop - s.start; ++j) {
        const double r = x[j] - c[j], far = std::abs(c[j]);
        sum += r;
        least = min(least, r), largest = max(largest, far);
    }
    if (s.kind == SIMPLEX) return least >= -slack && std::abs(sum - a[0]) <= slack * (1 + double(a[0])) ? 0 : INFINITY;
    each_norm(s, [&](Int m, auto at) {
        norms += (s.kind == BALL || !m ? 1 : double(a[at(0)])) * length<double>(m, at, x, c);
    });
    return s.kind != BALL ? norms : norms <= a[0] + slack * (1 + double(a[0]) + largest) ? 0 : INFINITY;
}

// ---------------------------------------------------------------- functions with a matrix, r = x - c
//
//     QUADRATIC   w (r.M r/2 + v.r)          LEAST_SQUARES   (w/2) |M r + v|^2

// r and y = M r + v in `work`, which holds as many numbers as M has columns and rows; returns the address of y.
template <class T> inline T* image(const Segment<T>& s, const T* x, const T* c, T* work) {
    const Matrix<T>& M = s.matrix;
    T* out = work + M.columns;
    for (Int j = 0; j < M.columns; ++j) work[j] = x[j] - c[j];
    std::copy_n(s.vector, M.rows, out);
    add_product(M, 0, M.rows, work, out);
    return out;
}

// out += w y, or w M^T y
template <class T> void add_matrix_grad(const Segment<T>& s, const T* x, const T* c, T* out, T* work) {
    const T* slope = image(s, x, c, work);
    if (s.kind == LEAST_SQUARES) {
        fill_n(work, s.matrix.columns, T(0));
        add_adjoint(s.matrix, 0, s.matrix.rows, slope, work);
        slope = work;
    }
    add(s.matrix.columns, T(s.weight), slope, out);
}

// (w/2) r.(y + v), or (w/2) y.y
template <class T> double matrix_value(const Segment<T>& s, const T* x, const T* c, T* work) {
    const T* y = image(s, x, c, work);
    double total = 0;
    for (Int j = 0; j < s.matrix.rows; ++j) total += s.kind == QUADRATIC ? work[j] * (y[j] + s.vector[j]) : y[j] * y[j];
    return s.weight * total / 2;
}

// ---------------------------------------------------------------- all segments

// What `run` does with the segments between lo and hi, and with their coordinates there. Only sums over coordinates are
// cut.
template <class T, class Run> inline void each_segment(const Function<T>& f, Int lo, Int hi, Run&& run) {
    const Segment<T> *s = f.segments, *end = s + f.count;
    if (f.count > 1) s = std::partition_point(s, end, [=](const Segment<T>& other) { return other.stop <= lo; });
    for (; s < end && s->start < hi; ++s) run(*s, max(s->start, lo), min(s->stop * f.copies, hi));
}

// The columns of m coordinates for the prox of f, or of its conjugate, with the step t[j * each] at coordinate j. A bent
// segment takes the prox of its formula, for the conjugate too, at another step.
template <class T, class Step>
void prepare(const Function<T>& f, Int m, bool conjugate, const Step* t, Int each, Columns<T> out) {
    each_segment(f, 0, m, [&](const Segment<T>& s, Int start, Int stop) {
        const bool mirrored = conjugate && !s.is_bent, is_norm = s.kind == NORM || s.kind == GROUPS;
        const auto each_coordinate = [&](auto columns) {
            for (Int j = start; j < stop; ++j) {
                const double given = double(t[j * each]), ridge = s.is_bent ? double(f.ridge[j]) : 0;
                const double step = !s.is_bent ? given : conjugate ? 1 / (given + ridge) : given / (1 + given * ridge);
                const Row<double> q = columns({double(f.own.a[j]), double(f.own.b[j]), double(f.own.c[j])}, step);
                out.a[j] = T(q.a), out.b[j] = T(q.b), out.c[j] = T(q.c), out.t[j] = T(given);
            }
        };
        if (s.kind >= NORM)
            each_coordinate([=](Row<double> k, double step) -> Row<double> {
                return {mirrored == is_norm ? k.a : step * k.a, 0, mirrored ? step * k.c : k.c};
            });
        with_kind<double>(s.kind, [&](auto phi) {
            each_coordinate([=](Row<double> k, double t) { return mirrored ? phi.for_conj(k, t) : phi.for_prox(k, t); });
        });
    });
}

// Add the gradient at the coordinates lo to hi; x and `out` hold all coordinates.
template <class T> void add_grad(const Function<T>& f, Int lo, Int hi, const T* x, T* out, T* work) {
    each_segment(f, lo, hi, [&, k = f.own](const Segment<T>& s, Int start, Int stop) {
        if (s.kind >= QUADRATIC) add_matrix_grad(s, x + start, k.c + start, out + start, work);
        with_kind<T>(s.kind, [&](auto phi) {
            each(start, stop, [&](Int j) { out[j] += phi.grad(x[j], at(k, j)); });
        });
        for (Int j = start; j < stop && s.is_bent; ++j) out[j] += f.tilt[j] + f.ridge[j] * x[j];
    });
}

// One proximal map of m coordinates by the formula of one segment; `out` may be x.
template <class T>
inline void formula_prox(const Segment<T>& s, bool conjugate, Int m, const T* x, Columns<T> q, const T* guess, T* out) {
    if (s.kind >= NORM) return block_prox(s, conjugate, x, q, out);
    with_kind<T>(s.kind, [&](auto phi) {
        if constexpr (std::is_same_v<decltype(phi), Logistic<T>>)
            conjugate ? phi.conj_prox(m, x, q, guess, out) : phi.prox(m, x, q, guess, out);
        else if (conjugate)
            each(0, m, [=](Int j) { out[j] = phi.conj_prox(x[j], at(q, j)); });
        else
            each(0, m, [=](Int j) { out[j] = phi.prox(x[j], at(q, j)); });
    });
}

// Prox, or that of the conjugate, at the coordinates lo to hi; x, guess and `out` begin with lo. Bent segments complete
// the square,
//     prox_{t f}(x) = clip(prox_{s formula}((x - t tilt)/(1 + t ridge))),  s = t/(1 + t ridge),
// and that of the conjugate is x - t prox_{f/t}(x/t), for which `out` must not be x.
template <class T>
void prox(const Function<T>& f, bool conjugate, Columns<T> ready, Int lo, Int hi, const T* x, const T* guess, T* out) {
    each_segment(f, lo, hi, [&](const Segment<T>& s, Int start, Int stop) {
        const Int m = stop - start, at = start - lo;
        const Columns<T> q = from(ready, start);
        if (!s.is_bent) return formula_prox(s, conjugate, m, x + at, q, guess + at, out + at);
        for (Int j = 0; j < m; ++j) {
            const T t = q.t[j], tilt = f.tilt[start + j], ridge = f.ridge[start + j];
            out[at + j] = conjugate ? (x[at + j] - tilt) / (t + ridge) : (x[at + j] - t * tilt) / (1 + t * ridge);
        }
        formula_prox(s, false, m, out + at, q, (conjugate ? out : guess) + at, out + at);
        for (Int j = 0; j < m; ++j) {
            const T inside = clip(out[at + j], f.lo[start + j], f.hi[start + j]);
            out[at + j] = conjugate ? x[at + j] - q.t[j] * inside : inside;
        }
    });
}

// f(x) of m coordinates
template <class T> double value(const Function<T>& f, Int m, const T* x, double slack, T* work) {
    double sum = 0;
    each_segment(f, 0, m, [&, k = f.own](const Segment<T>& s, Int start, Int stop) {
        if (s.kind >= QUADRATIC) sum += matrix_value(s, x + start, k.c + start, work);
        else if (s.kind >= NORM) sum += block_value(s, x + start, k.a + start, k.c + start, slack);
        with_kind<T>(s.kind, [&](auto phi) {
            sum += total(start, stop, [&](Int j) { return double(phi.value(x[j], at(k, j), T(slack))); });
        });
        for (Int j = start; j < stop && s.is_bent; ++j)
            sum += (f.tilt[j] + f.ridge[j] * x[j] / 2) * x[j] + f.base[j] +
                   Interval<T>::value(x[j], {f.lo[j], f.hi[j], 0}, T(slack));
    });
    return sum;
}

} // namespace npga
