// What the loop wants to know of a state (npga.problem.residual has the formulas in NumPy), and whether to stop there.
#pragma once
#include "functions.hpp"

namespace npga {

constexpr double FORCES = 1e-2, LEAST = 1e-6; // c and e of npga.problem.residual
inline double larger(double x, double y) { return x < y ? y : x; }
inline double relative(double moved, double scale) { return moved == 0 ? 0 : moved / scale; } // 0/0 is 0

template <class T> inline double norm(Int m, const T* x) {
    return std::sqrt(total(0, m, [=](Int j) { return double(x[j]) * double(x[j]); }));
}

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
    out.size = norm(n * p, lam);
    for (Int j = 0; j < p; ++j) mean[j] *= T(1) / T(n);
    for (Int i = 0; i < n; ++i, lam += p) {
#pragma omp simd reduction(+ : spread)
        for (Int j = 0; j < p; ++j) spread += double(lam[j] - mean[j]) * double(lam[j] - mean[j]);
    }
    out.spread = std::sqrt(spread);
    out.largest = broken == broken ? largest : broken, out.increment = broken == broken ? increment : broken;
}

// The two parts of the residual at (x, lam), the energy that they are measured against, and that with the step's own.
struct Moves {
    double stationarity, coupling, least, energy;
    double worse() const { return std::isnan(stationarity + coupling) ? NAN : larger(stationarity, coupling); }
};

// s_i of every piece into `steps`, and the largest energy |x_i|^2 / s_i; `size` and `force` are those of the pieces.
template <class T>
double natural_steps(const Gauge<T>& gauge, const double* size, const double* force, double* steps) {
    double present = 0;
    for (Int i = 0; i < gauge.pieces; ++i)
        present = larger(present, size[i] * (gauge.curvature[i] > 0 ? gauge.curvature[i] * size[i] : force[i]));
    for (Int i = 0; i < gauge.pieces; ++i) {
        const double flat = force[i] > 0 && present > 0 ? present / (force[i] * force[i]) : 1;
        steps[i] = clip(gauge.curvature[i] > 0 ? 1 / gauge.curvature[i] : flat, gauge.least_step, gauge.largest_step);
    }
    return present;
}

// The prox of f at y, in place, with the steps `along`.
template <class T> void step(const Function<T>& f, const Gauge<T>& gauge, Int m, const T* along, const T* guess, T* y) {
    const Columns<T> columns = {gauge.columns, gauge.columns + m, gauge.columns + 2 * m, gauge.columns + 3 * m};
    prepare(f, m, false, along, 1, columns);
    prox(f, false, columns, 0, 0, m, y, guess, y);
}

// Largest relative move of a piece in a proximal step; the steps are left in gauge.agents.
template <class T> void stationarity(const Plan<T>& plan, const Gauge<T>& gauge, const T* x, const T* lam, Moves& out) {
    const Int n = gauge.pieces, p = plan.p, d = plan.d, *offsets = gauge.offsets;
    T *ahead = gauge.primal, *pulled = ahead + d, *along = pulled + d;
    double *steps = gauge.agents, *size = steps + n, *slope = size + n, *terms = slope + n, *force = terms + n, sum = 0;
    const auto of_piece = [=](Int i, const T* y) { return norm(offsets[i + 1] - offsets[i], y + offsets[i]); };
    fill(2 * d, T(0), ahead);
    add_grad(plan.f, 0, 0, d, x, ahead, gauge.matrix);
    for (Int i = 0; i < plan.n; ++i) add_adjoint(plan.matrices[i], 0, p, lam, pulled + plan.offsets[i]);
    for (Int i = 0; i < n; ++i) {
        const double *squares = gauge.squares + i * p, pull = of_piece(i, pulled);
        size[i] = of_piece(i, x), slope[i] = of_piece(i, ahead);
        terms[i] = std::sqrt(total(0, p, [=](Int k) { return squares[k] * double(lam[k]) * double(lam[k]); }));
        force[i] = larger(larger(slope[i], pull), terms[i]);
        sum += slope[i] + pull;
    }
    out.energy = natural_steps(gauge, size, force, steps);
    out.least = larger(out.energy, gauge.energy);
    for (Int i = 0; i < n; ++i) fill(offsets[i + 1] - offsets[i], T(steps[i]), along + offsets[i]);
    for (Int j = 0; j < d; ++j) ahead[j] = x[j] - along[j] * (ahead[j] + pulled[j]);
    if (!gauge.g_is_zero) step(plan.g, gauge, d, along, x, ahead);
    out.stationarity = std::isfinite(sum) ? 0 : NAN;
    for (Int i = 0; i < n; ++i) {
        const double floor = larger(FORCES * steps[i] * larger(slope[i], terms[i]), LEAST * std::sqrt(out.least * steps[i]));
        const double scale = larger(larger(size[i], of_piece(i, ahead)), floor);
        for (Int j = offsets[i]; j < offsets[i + 1]; ++j) ahead[j] = x[j] - ahead[j];
        const double moved = of_piece(i, ahead);
        out.stationarity = larger(out.stationarity, relative(gauge.counts[i] * moved, scale));
        if (gauge.curvature[i] > 0) out.energy = larger(out.energy, moved * moved / steps[i]);
    }
}

// z = sum_i A_i x_i, and for each block of rows the largest |(A_i x_i)_block|.
template <class T> void images_met(const Plan<T>& plan, const Gauge<T>& gauge, const T* Ax, T* z, T* sizes) {
    const Int p = plan.p, *bounds = gauge.bounds;
    fill(p, T(0), z), fill(gauge.blocks, T(0), sizes);
    for (Int i = 0; i < plan.n; ++i, Ax += p) {
        each(0, p, [=](Int k) { z[k] += Ax[k]; });
        if (gauge.blocks == p) each(0, p, [=](Int k) { sizes[k] = std::abs(Ax[k]) > sizes[k] ? std::abs(Ax[k]) : sizes[k]; });
        else for (Int b = 0; b < gauge.blocks; ++b)
            sizes[b] = T(larger(sizes[b], norm(bounds[b + 1] - bounds[b], Ax + bounds[b])));
    }
}

// Largest relative move of a row, or of rows that belong together, in a step of h; after `stationarity`.
template <class T>
void coupling(const Plan<T>& plan, const Gauge<T>& gauge, const T* z, const T* sizes, const T* lam, Moves& out) {
    const Int p = plan.p, *bounds = gauge.bounds;
    T *near = gauge.dual + 2 * p, *along = gauge.dual + 3 * p;
    fill(p, T(0), along);
    for (Int i = 0; i < gauge.pieces; ++i) {
        const double *squares = gauge.squares + i * p, s = gauge.offsets[i] < gauge.offsets[i + 1] ? gauge.agents[i] : 0;
        each(0, p, [=](Int k) { along[k] = T(larger(double(along[k]), squares[k] * s)); });
    }
    for (Int b = 0; b < gauge.blocks; ++b) {
        double t = 0;
        for (Int k = bounds[b]; k < bounds[b + 1]; ++k) t = larger(t, double(along[k]));
        fill(bounds[b + 1] - bounds[b], T(clip(t > 0 ? t : 1, gauge.least_step, gauge.largest_step)), along + bounds[b]);
    }
    for (Int k = 0; k < p; ++k) near[k] = z[k] + along[k] * lam[k];
    step(plan.h, gauge, p, along, z, near);
    double sum = 0;
    out.coupling = 0;
    for (Int b = 0; b < gauge.blocks; ++b) {
        const Int lo = bounds[b], m = bounds[b + 1] - lo;
        const double t = double(along[lo]), multiplier = gauge.is_hard[b] ? 0 : FORCES * t * norm(m, lam + lo);
        const double floor = larger(multiplier, LEAST * std::sqrt(out.least * t));
        const double scale = larger(larger(norm(m, near + lo), floor), double(sizes[b]));
        for (Int k = lo; k < lo + m; ++k) near[k] = z[k] - near[k];
        const double moved = norm(m, near + lo);
        out.coupling = larger(out.coupling, relative(moved, scale));
        sum += moved + scale;
    }
    if (!std::isfinite(sum)) out.coupling = NAN;
}

template <class T> void measure(const Plan<T>& plan, const Gauge<T>& gauge, const Arrays<T>& now, Findings& out) {
    const Int p = plan.p, d = plan.d;
    T *mean = gauge.dual, *z = mean + p, *slopes = mean + 4 * p, *sizes = mean + 5 * p;
    measure_duals(plan, now.lam, now.lam_prev, mean, out);
    images_met(plan, gauge, now.Ax, z, sizes);
    out.objective = value(plan.f, d, now.x, gauge.slack, gauge.matrix) + value(plan.g, d, now.x, gauge.slack, gauge.matrix);
    if (!gauge.h_is_indicator) out.objective += value(plan.h, p, z, gauge.slack, gauge.matrix);
    const auto moves = [&](const T* lam) {
        Moves found;
        stationarity(plan, gauge, now.x, lam, found);
        coupling(plan, gauge, z, sizes, lam, found);
        return found;
    };
    const Moves found = moves(mean);
    out.kkt = found.worse(), out.energy = found.energy;
    if (gauge.is_smooth) {
        fill(p, T(0), slopes);
        add_grad(plan.h, 0, 0, p, z, slopes, gauge.matrix);
        for (Int k = 0; k < p; ++k) slopes[k] = gauge.is_smooth[k] ? slopes[k] : mean[k];
        const Moves other = moves(slopes);
        if (other.worse() < out.kkt) out.kkt = other.worse(), out.energy = other.energy;
    }
    double far = 0;
    for (Int j = 0; gauge.reference && j < d; ++j)
        far += double(now.x[j] - gauge.reference[j]) * double(now.x[j] - gauge.reference[j]);
    out.gap = gauge.reference ? std::sqrt(far) : NAN;
}

// Whether a rule of npga.solver would stop here: a tolerance is met, lam grows without bound, or is not a number.
inline bool stops(const Findings& found, const Stopping& to) {
    if (found.kkt <= to.tol || found.gap / to.distance <= to.gap_tol) return true;
    const double growth = found.increment / to.first_increment, size = found.largest / to.first_size;
    return !(std::isfinite(growth) && std::isfinite(size)) || (growth > to.growth && size > to.size);
}

} // namespace npga
