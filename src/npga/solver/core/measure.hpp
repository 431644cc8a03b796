// What the loop wants to know of a state (npga.problem.residual has the formulas in NumPy), and whether to stop there.
#pragma once
#include "functions.hpp"

namespace npga {

template <class T> inline double norm(Int m, const T* x) {
    double total = 0;
#pragma omp simd reduction(+ : total)
    for (Int j = 0; j < m; ++j) total += double(x[j]) * double(x[j]);
    return std::sqrt(total);
}
inline double larger(double x, double y) { return x < y ? y : x; }
// c and e of npga.problem.residual.
constexpr double FORCES = 1e-2, LEAST = 1e-6;

// Mean, size and spread of lam, its largest entry and that of its last change; NaN stays NaN.
template <class T> void measure_duals(const Plan<T>& plan, const T* lam, const T* lam_prev, T* mean, Findings& out) {
    const Int n = plan.n, p = plan.p;
    double largest = 0, increment = 0, broken = 0, spread = 0;
    fill(p, T(0), mean);
    for (Int i = 0; i < n; ++i) {
        const T *now = lam + i * p, *old = lam_prev + i * p;
#pragma omp simd reduction(max : largest, increment) reduction(+ : broken)
        for (Int j = 0; j < p; ++j) {
            const double size = std::abs(double(now[j])), change = std::abs(double(now[j] - old[j]));
            mean[j] += now[j];
            largest = size > largest ? size : largest;
            increment = change > increment ? change : increment;
            broken += change;
        }
    }
    for (Int j = 0; j < p; ++j) mean[j] *= T(1) / T(n);
    for (Int i = 0; i < n; ++i) {
        const T* now = lam + i * p;
#pragma omp simd reduction(+ : spread)
        for (Int j = 0; j < p; ++j) spread += double(now[j] - mean[j]) * double(now[j] - mean[j]);
    }
    out.size = norm(n * p, lam), out.spread = std::sqrt(spread);
    out.largest = broken == broken ? largest : broken, out.increment = broken == broken ? increment : broken;
}

// The two parts of the residual at (x, lam), the energy that they are measured against, and that with the step's own.
struct Moves {
    double stationarity, coupling, least, energy;
    // NaN stays NaN.
    double worse() const { return stationarity == stationarity && coupling == coupling ? larger(stationarity, coupling) : NAN; }
};

// A relative move; 0/0 is 0.
inline double relative(double moved, double scale) { return moved == 0 ? 0 : moved / scale; }

inline double within(double x, double least, double most) { return x < least ? least : x > most ? most : x; }

// s_i of every piece into `steps`, and the largest energy |x_i|^2 / s_i; `size` and `force` are those of the pieces.
template <class T>
double natural_steps(const Gauge<T>& gauge, const double* size, const double* force, double* steps) {
    double present = 0;
    for (Int i = 0; i < gauge.pieces; ++i)
        present = larger(present, size[i] * (gauge.curvature[i] > 0 ? gauge.curvature[i] * size[i] : force[i]));
    for (Int i = 0; i < gauge.pieces; ++i) {
        const double flat = force[i] > 0 && present > 0 ? present / (force[i] * force[i]) : 1;
        steps[i] = within(gauge.curvature[i] > 0 ? 1 / gauge.curvature[i] : flat, gauge.least_step, gauge.largest_step);
    }
    return present;
}

template <class T> inline Columns<T> scratch_columns(const Gauge<T>& gauge, Int m) {
    T* at = gauge.columns;
    return {at, at + m, at + 2 * m, at + 3 * m};
}

// Largest relative move of a piece in a proximal step; the steps are left in gauge.agents.
template <class T> void stationarity(const Plan<T>& plan, const Gauge<T>& gauge, const T* x, const T* lam, Moves& out) {
    const Int n = gauge.pieces, p = plan.p, d = plan.d;
    T *ahead = gauge.primal, *pulled = ahead + d, *along = pulled + d;
    double *steps = gauge.agents, *size = steps + n, *slope = size + n, *terms = slope + n, *force = terms + n;
    fill(2 * d, T(0), ahead);
    add_grad(plan.f, Int(0), plan.f.count, x, ahead, gauge.matrix);
    for (Int i = 0; i < plan.n; ++i) add_adjoint(plan.matrices[i], 0, p, lam, pulled + plan.offsets[i]);
    double total = 0;
    for (Int i = 0; i < n; ++i) {
        const Int lo = gauge.offsets[i], m = gauge.offsets[i + 1] - lo;
        const double* squares = gauge.squares + i * p;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (Int k = 0; k < p; ++k) sum += squares[k] * double(lam[k]) * double(lam[k]);
        size[i] = norm(m, x + lo), slope[i] = norm(m, ahead + lo), terms[i] = std::sqrt(sum);
        force[i] = larger(larger(slope[i], norm(m, pulled + lo)), terms[i]);
        total += slope[i] + norm(m, pulled + lo);
    }
    out.energy = natural_steps(gauge, size, force, steps);
    out.least = larger(out.energy, gauge.energy);
    for (Int i = 0; i < n; ++i)
        for (Int j = gauge.offsets[i]; j < gauge.offsets[i + 1]; ++j) along[j] = T(steps[i]);
    for (Int j = 0; j < d; ++j) ahead[j] = x[j] - along[j] * (ahead[j] + pulled[j]);
    if (!gauge.g_is_zero) {
        const Columns<T> columns = scratch_columns(gauge, d);
        prepare(plan.g, false, along, 1, columns);
        prox(plan.g, false, columns, 0, plan.g.count, 0, d, ahead, x, ahead);
    }
    out.stationarity = 0;
    for (Int i = 0; i < n; ++i) {
        const Int lo = gauge.offsets[i], m = gauge.offsets[i + 1] - lo;
        const double reached = norm(m, ahead + lo), forces = FORCES * steps[i] * larger(slope[i], terms[i]);
        for (Int j = lo; j < lo + m; ++j) ahead[j] = x[j] - ahead[j];
        const double moved = norm(m, ahead + lo), scale = larger(larger(size[i], reached), forces);
        const double least = LEAST * std::sqrt(out.least * steps[i]);
        out.stationarity = larger(out.stationarity, relative(gauge.counts[i] * moved, larger(scale, least)));
        if (gauge.curvature[i] > 0) out.energy = larger(out.energy, moved * moved / steps[i]);
    }
    if (!std::isfinite(total)) out.stationarity = NAN;
}

// z = sum_i A_i x_i, and for each block of rows the largest |(A_i x_i)_block|.
template <class T> void images_met(const Plan<T>& plan, const Gauge<T>& gauge, const T* Ax, T* z, T* sizes) {
    const Int p = plan.p;
    fill(p, T(0), z), fill(gauge.blocks, T(0), sizes);
    for (Int i = 0; i < plan.n; ++i, Ax += p) {
#pragma omp simd
        for (Int k = 0; k < p; ++k) z[k] += Ax[k];
        for (Int b = 0; b < gauge.blocks && gauge.blocks < p; ++b)
            sizes[b] = T(larger(sizes[b], norm(gauge.bounds[b + 1] - gauge.bounds[b], Ax + gauge.bounds[b])));
#pragma omp simd
        for (Int k = 0; k < (gauge.blocks < p ? 0 : p); ++k) sizes[k] = std::abs(Ax[k]) > sizes[k] ? std::abs(Ax[k]) : sizes[k];
    }
}

// Largest relative move of a row, or of rows that belong together, in a step of h; after `stationarity`.
template <class T>
void coupling(const Plan<T>& plan, const Gauge<T>& gauge, const T* z, const T* sizes, const T* lam, Moves& out) {
    const Int n = gauge.pieces, p = plan.p;
    T *near = gauge.dual + 2 * p, *along = gauge.dual + 3 * p;
    for (Int k = 0; k < p; ++k) along[k] = 0;
    for (Int i = 0; i < n; ++i) {
        const double *squares = gauge.squares + i * p, step = gauge.offsets[i] < gauge.offsets[i + 1] ? gauge.agents[i] : 0;
#pragma omp simd
        for (Int k = 0; k < p; ++k) along[k] = T(larger(double(along[k]), squares[k] * step));
    }
    for (Int b = 0; b < gauge.blocks; ++b) {
        const Int lo = gauge.bounds[b], hi = gauge.bounds[b + 1];
        double t = 0;
        for (Int k = lo; k < hi; ++k) t = larger(t, double(along[k]));
        t = within(t > 0 ? t : 1, gauge.least_step, gauge.largest_step);
        for (Int k = lo; k < hi; ++k) along[k] = T(t);
    }
    const Columns<T> columns = scratch_columns(gauge, p);
    prepare(plan.h, false, along, 1, columns);
    for (Int k = 0; k < p; ++k) near[k] = z[k] + along[k] * lam[k];
    prox(plan.h, false, columns, 0, plan.h.count, 0, p, near, z, near);
    out.coupling = 0;
    double total = 0;
    for (Int b = 0; b < gauge.blocks; ++b) {
        const Int lo = gauge.bounds[b], m = gauge.bounds[b + 1] - lo;
        const double t = double(along[lo]), multiplier = gauge.is_hard[b] ? 0 : FORCES * t * norm(m, lam + lo);
        const double floor = larger(multiplier, LEAST * std::sqrt(out.least * t));
        const double scale = larger(larger(norm(m, near + lo), floor), double(sizes[b]));
        for (Int k = lo; k < lo + m; ++k) near[k] = z[k] - near[k];
        const double moved = norm(m, near + lo);
        out.coupling = larger(out.coupling, relative(moved, scale));
        total += moved + scale;
    }
    if (!std::isfinite(total)) out.coupling = NAN;
}

template <class T>
Moves moves(const Plan<T>& plan, const Gauge<T>& gauge, const T* x, const T* z, const T* sizes, const T* lam) {
    Moves found;
    stationarity(plan, gauge, x, lam, found);
    coupling(plan, gauge, z, sizes, lam, found);
    return found;
}

template <class T> void measure(const Plan<T>& plan, const Gauge<T>& gauge, const Arrays<T>& now, Findings& out) {
    T* mean = gauge.dual;
    measure_duals(plan, now.lam, now.lam_prev, mean, out);
    out.objective = value(plan.f, now.x, gauge.slack, gauge.matrix) + value(plan.g, now.x, gauge.slack, gauge.matrix);
    T *z = mean + plan.p, *slopes = mean + 4 * plan.p, *sizes = mean + 5 * plan.p;
    images_met(plan, gauge, now.Ax, z, sizes);
    if (!gauge.h_is_indicator) out.objective += value(plan.h, z, gauge.slack, gauge.matrix);
    const Moves found = moves(plan, gauge, now.x, z, sizes, mean);
    out.kkt = found.worse(), out.energy = found.energy;
    if (gauge.is_smooth) {
        fill(plan.p, T(0), slopes);
        add_grad(plan.h, Int(0), plan.h.count, z, slopes, gauge.matrix);
        for (Int k = 0; k < plan.p; ++k) slopes[k] = gauge.is_smooth[k] ? slopes[k] : mean[k];
        const Moves other = moves(plan, gauge, now.x, z, sizes, slopes);
        if (other.worse() < out.kkt) out.kkt = other.worse(), out.energy = other.energy;
    }
    double distance = 0;
    for (Int j = 0; gauge.reference && j < plan.d; ++j)
        distance += double(now.x[j] - gauge.reference[j]) * double(now.x[j] - gauge.reference[j]);
    out.gap = gauge.reference ? std::sqrt(distance) : std::numeric_limits<double>::quiet_NaN();
}

// Whether a rule of npga.solver would stop here: a tolerance is met, lam grows without bound, or is not a number.
inline bool stops(const Findings& found, const Stopping& to) {
    if (found.kkt <= to.tol || found.gap / to.distance <= to.gap_tol) return true;
    const double growth = found.increment / to.first_increment, size = found.largest / to.first_size;
    return !(std::isfinite(growth) && std::isfinite(size)) || (growth > to.growth && size > to.size);
}

} // namespace npga
