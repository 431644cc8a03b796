// What the loop wants to know of a state (npga.problem.residual has the formulas in NumPy), and whether to stop there.
#pragma once
#include "functions.hpp"

namespace npga {

constexpr double FORCES = 1e-2, LEAST = 1e-6; // c and e of npga.problem.residual
inline double relative(double moved, double scale) { return moved == 0 ? 0 : moved / scale; } // 0/0 is 0

template <class T> inline double norm(Int m, const T* x) {
    return std::sqrt(total(0, m, [=](Int j) { return double(x[j]) * double(x[j]); }));
}
template <class T> inline double distance(Int m, const T* x, const T* y) {
    return std::sqrt(total(0, m, [=](Int j) { return double(x[j] - y[j]) * double(x[j] - y[j]); }));
}

// Mean, size and spread of lam, its largest entry and that of its last change; NaN stays NaN.
template <class T> void measure_duals(const Plan<T>& plan, const T* lam, const T* lam_prev, T* mean, Findings& out) {
    const Int n = plan.n, p = plan.p;
    double largest = 0, increment = 0, broken = 0, spread = 0;
#pragma omp simd reduction(max : largest, increment) reduction(+ : broken)
    for (Int j = 0; j < n * p; ++j) {
        const double size = std::abs(double(lam[j])), change = std::abs(double(lam[j] - lam_prev[j]));
        largest = max(largest, size), increment = max(increment, change);
        broken += change;
    }
    out.largest = broken == broken ? largest : broken, out.increment = broken == broken ? increment : broken;
    out.size = norm(n * p, lam);
    fill_n(mean, p, T(0));
    for (Int i = 0; i < n; ++i) add(p, T(1), lam + i * p, mean);
    for (Int j = 0; j < p; ++j) mean[j] *= T(1) / T(n);
    for (Int i = 0; i < n; ++i) spread += std::pow(distance(p, lam + i * p, mean), 2);
    out.spread = std::sqrt(spread);
}

// The residual at (x, lam), the energy that it is measured against, that with the step's own, a sum that is finite where
// the residual is to be believed, and the energies of all moves and of what they are relative to.
struct Moves {
    double worst, least, energy, sum, moved, scale;
};

// The prox of f at y, in place, with the steps `along`.
template <class T> void step(const Function<T>& f, const Gauge<T>& gauge, Int m, const T* along, const T* guess, T* y) {
    const Columns<T> columns = {gauge.columns, gauge.columns + m, gauge.columns + 2 * m, gauge.columns + 3 * m};
    prepare(f, m, false, along, 1, columns);
    prox(f, false, columns, 0, m, y, guess, y);
}

// Largest relative move of a piece in a proximal step, with A^T lam behind the first d numbers of gauge.primal; the steps
// are left in gauge.agents.
template <class T> void stationarity(const Plan<T>& plan, const Gauge<T>& gauge, const T* x, const T* lam, Moves& out) {
    const Int n = gauge.pieces, p = plan.p, d = plan.d, *offsets = gauge.offsets;
    T *ahead = gauge.primal, *pulled = ahead + d, *along = pulled + d;
    double *steps = gauge.agents, *size = steps + n, *slope = size + n, *terms = slope + n, *force = terms + n;
    const auto of_piece = [=](Int i, const T* y) { return norm(offsets[i + 1] - offsets[i], y + offsets[i]); };
    fill_n(ahead, d, T(0));
    add_grad(plan.f, 0, d, x, ahead, gauge.matrix);
    for (Int i = 0; i < n; ++i) {
        const double *squares = gauge.squares + i * p, pull = of_piece(i, pulled);
        size[i] = of_piece(i, x), slope[i] = of_piece(i, ahead);
        terms[i] = std::sqrt(total(0, p, [=](Int k) { return squares[k] * double(lam[k]) * double(lam[k]); }));
        force[i] = max(max(slope[i], pull), terms[i]);
        out.sum += slope[i] + pull;
        out.energy = max(out.energy, size[i] * (gauge.curvature[i] > 0 ? gauge.curvature[i] * size[i] : force[i]));
    }
    out.least = max(out.energy, gauge.energy);
    for (Int i = 0; i < n; ++i) { // s_i, with the largest energy |x_i|^2 / s_i for a piece that is flat
        const double flat = force[i] > 0 && out.energy > 0 ? out.energy / (force[i] * force[i]) : 1;
        steps[i] = clip(gauge.curvature[i] > 0 ? 1 / gauge.curvature[i] : flat, gauge.least_step, gauge.largest_step);
        fill_n(along + offsets[i], offsets[i + 1] - offsets[i], T(steps[i]));
    }
    for (Int j = 0; j < d; ++j) ahead[j] = x[j] - along[j] * (ahead[j] + pulled[j]);
    if (!gauge.g_is_zero) step(plan.g, gauge, d, along, x, ahead);
    for (Int i = 0; i < n; ++i) {
        const double floor = max(FORCES * steps[i] * max(slope[i], terms[i]), LEAST * std::sqrt(out.least * steps[i]));
        const double scale = max(max(size[i], of_piece(i, ahead)), floor);
        const double moved = distance(offsets[i + 1] - offsets[i], x + offsets[i], ahead + offsets[i]);
        out.worst = max(out.worst, relative(gauge.counts[i] * moved, scale));
        if (gauge.curvature[i] > 0) out.energy = max(out.energy, moved * moved / steps[i]);
        out.moved += moved * moved / steps[i], out.scale += scale * scale / steps[i];
    }
}

// Largest relative move of a row, or of rows that belong together, in a step of h; after `stationarity`.
template <class T>
void coupling(const Plan<T>& plan, const Gauge<T>& gauge, const T* z, const T* sizes, const T* lam, Moves& out) {
    const Int p = plan.p, *bounds = gauge.bounds;
    T *near = gauge.dual + 2 * p, *along = gauge.dual + 3 * p;
    fill_n(along, p, T(0));
    for (Int i = 0; i < gauge.pieces; ++i) {
        const double *squares = gauge.squares + i * p, s = gauge.offsets[i] < gauge.offsets[i + 1] ? gauge.agents[i] : 0;
        each(0, p, [=](Int k) { along[k] = T(max(double(along[k]), squares[k] * s)); });
    }
    for (Int b = 0; b < gauge.blocks; ++b) {
        double t = 0;
        for (Int k = bounds[b]; k < bounds[b + 1]; ++k) t = max(t, double(along[k]));
        t = clip(t > 0 ? t : 1, gauge.least_step, gauge.largest_step);
        fill_n(along + bounds[b], bounds[b + 1] - bounds[b], T(t));
    }
    for (Int k = 0; k < p; ++k) near[k] = z[k] + along[k] * lam[k];
    step(plan.h, gauge, p, along, z, near);
    for (Int b = 0; b < gauge.blocks; ++b) {
        const Int lo = bounds[b], m = bounds[b + 1] - lo;
        const double t = double(along[lo]), multiplier = gauge.is_hard[b] ? 0 : FORCES * t * norm(m, lam + lo);
        const double floor = max(multiplier, LEAST * std::sqrt(out.least * t));
        const double scale = max(max(norm(m, near + lo), floor), double(sizes[b]));
        const double moved = distance(m, z + lo, near + lo);
        out.worst = max(out.worst, relative(moved, scale));
        out.sum += moved + scale, out.moved += moved * moved / t, out.scale += scale * scale / t;
    }
}

template <class T> void measure(const Plan<T>& plan, const Gauge<T>& gauge, const Arrays<T>& now, Findings& out) {
    const Int p = plan.p, d = plan.d, *bounds = gauge.bounds;
    T *mean = gauge.dual, *z = mean + p, *slopes = mean + 4 * p, *sizes = mean + 5 * p, *image = mean + 6 * p;
    const auto pull = [&](Int i, const T* lam, const T* next) {
        T* pulled = gauge.primal + d + plan.offsets[i];
        fill_n(pulled, plan.offsets[i + 1] - plan.offsets[i], T(0));
        add_adjoint(plan.matrices[i], 0, p, lam, pulled, next);
    };
    const auto ahead = [&](Int i) { return row(plan.matrices[i], block_rows(plan.matrices[i], p)); };
    measure_duals(plan, now.lam, now.lam_prev, mean, out);
    fill_n(z, p, T(0)), fill_n(sizes, p, T(0)); // sum_i A_i x_i, and for each block of rows the largest |(A_i x_i)_block|
    for (Int i = 0; i < plan.n; ++i) {
        fill_n(image, p, T(0));
        add_product(plan.matrices[i], 0, p, now.x + plan.offsets[i], image, ahead(i));
        pull(i, mean, static_cast<const T*>(nullptr)); // A_i is in a cache
        add(p, T(1), image, z);
        if (gauge.blocks == p) each(0, p, [=](Int k) { sizes[k] = max(sizes[k], std::abs(image[k])); });
        else for (Int b = 0; b < gauge.blocks; ++b)
            sizes[b] = T(max(double(sizes[b]), norm(bounds[b + 1] - bounds[b], image + bounds[b])));
    }
    out.objective = value(plan.f, d, now.x, gauge.slack, gauge.matrix) + value(plan.g, d, now.x, gauge.slack, gauge.matrix);
    if (!gauge.h_is_indicator) out.objective += value(plan.h, p, z, gauge.slack, gauge.matrix);
    const auto moves = [&](const T* lam) {
        Moves found = {};
        stationarity(plan, gauge, now.x, lam, found);
        coupling(plan, gauge, z, sizes, lam, found);
        if (!std::isfinite(found.sum) || std::isnan(found.moved)) found.worst = found.moved = NAN;
        return found;
    };
    Moves found = moves(mean);
    if (gauge.is_smooth) {
        fill_n(slopes, p, T(0));
        add_grad(plan.h, 0, p, z, slopes, gauge.matrix);
        for (Int k = 0; k < p; ++k) slopes[k] = gauge.is_smooth[k] ? slopes[k] : mean[k];
        for (Int i = 0; i < plan.n; ++i) pull(i, slopes, ahead(i));
        const Moves other = moves(slopes);
        if (other.worst < found.worst) found = other;
    }
    out.kkt = found.worst, out.energy = found.energy, out.overall = std::sqrt(relative(found.moved, found.scale));
    out.gap = gauge.reference ? distance(d, now.x, gauge.reference) : NAN;
}

// Whether a rule of npga.solver would stop here: a tolerance is met, lam grows without bound, or is not a number.
inline bool stops(const Findings& found, const Stopping& to) {
    if (found.kkt <= to.tol || found.gap / to.distance <= to.gap_tol) return true;
    const double growth = found.increment / to.first_increment, size = found.largest / to.first_size;
    return !(std::isfinite(growth) && std::isfinite(size)) || (growth > to.growth && size > to.size);
}

} // namespace npga
