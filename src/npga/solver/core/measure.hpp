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
inline double ratio(double above, double below) { return above > 0 && below > 0 ? above / below : 1; }

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

// How far a proximal step from x moves, and the scale of that.
template <class T>
void stationarity(const Plan<T>& plan, const Gauge<T>& gauge, const T* x, const T* mean, Findings& out) {
    const Int d = plan.d;
    T *gradient = gauge.primal, *pulled = gradient + d;
    fill(2 * d, T(0), gradient);
    add_grad(plan.f, Int(0), plan.f.count, x, gradient, gauge.matrix);
    for (Int i = 0; i < plan.n; ++i) add_adjoint(plan.matrices[i], 0, plan.p, mean, pulled + plan.offsets[i]);
    const double size_x = norm(d, x), force = larger(norm(d, gradient), norm(d, pulled));
    const double s = gauge.step_x > 0 ? gauge.step_x : ratio(size_x, force);
    out.scale_x = larger(force, size_x / s);
    for (Int j = 0; j < d; ++j) gradient[j] += pulled[j];
    if (gauge.g_is_zero) {
        out.residual_x = norm(d, gradient);
        return;
    }
    const Columns<T> columns = {gauge.columns, gauge.columns + d, gauge.columns + 2 * d};
    prepare(plan.g, false, &s, 0, columns);
    for (Int j = 0; j < d; ++j) gradient[j] = x[j] - T(s) * gradient[j];
    prox(plan.g, columns.fixed(), Int(0), plan.g.count, gradient, x, gradient);
    for (Int j = 0; j < d; ++j) gradient[j] = x[j] - gradient[j];
    out.residual_x = norm(d, gradient) / s;
}

// How far z = sum_i A_i x_i is from where h would have it, and h(z).
template <class T> void coupling(const Plan<T>& plan, const Gauge<T>& gauge, const T* Ax, const T* mean, Findings& out) {
    const Int n = plan.n, p = plan.p;
    T *z = gauge.dual + p, *near = z + p;
    fill(p, T(0), z);
    for (Int i = 0; i < n; ++i)
        for (Int j = 0; j < p; ++j) z[j] += Ax[i * p + j];
    const double size_z = norm(n * p, Ax), size_mean = norm(p, mean);
    const double t = gauge.step_z > 0 ? gauge.step_z : ratio(size_z, size_mean);
    const Columns<T> columns = {gauge.columns, gauge.columns + p, gauge.columns + 2 * p};
    prepare(plan.h, false, &t, 0, columns);
    for (Int j = 0; j < p; ++j) near[j] = z[j] + T(t) * mean[j];
    prox(plan.h, columns.fixed(), Int(0), plan.h.count, near, z, near);
    out.scale_z = larger(larger(size_z, norm(p, near)), gauge.h_is_indicator ? 0 : t * size_mean);
    for (Int j = 0; j < p; ++j) near[j] = z[j] - near[j];
    out.residual_z = norm(p, near);
    if (!gauge.h_is_indicator) out.objective += value(plan.h, z, gauge.slack, gauge.matrix);
}

template <class T> void measure(const Plan<T>& plan, const Gauge<T>& gauge, const Arrays<T>& now, Findings& out) {
    T* mean = gauge.dual;
    measure_duals(plan, now.lam, now.lam_prev, mean, out);
    out.objective = value(plan.f, now.x, gauge.slack, gauge.matrix) + value(plan.g, now.x, gauge.slack, gauge.matrix);
    stationarity(plan, gauge, now.x, mean, out);
    coupling(plan, gauge, now.Ax, mean, out);
    double distance = 0;
    for (Int j = 0; gauge.reference && j < plan.d; ++j)
        distance += double(now.x[j] - gauge.reference[j]) * double(now.x[j] - gauge.reference[j]);
    out.gap = gauge.reference ? std::sqrt(distance) : std::numeric_limits<double>::quiet_NaN();
}

// Whether a rule of npga.solver would stop here: a tolerance is met, lam grows without bound, or is not a number.
inline bool stops(const Findings& found, const Stopping& to) {
    const double scale_x = larger(found.scale_x, to.floor_x), scale_z = larger(found.scale_z, to.floor_z);
    const double x = scale_x > 0 ? found.residual_x / scale_x : found.residual_x;
    const double z = scale_z > 0 ? found.residual_z / scale_z : found.residual_z;
    if (larger(x, z) <= to.tol || found.gap / to.distance <= to.gap_tol) return true;
    const double growth = found.increment / to.first_increment, size = found.largest / to.first_size;
    return !(std::isfinite(growth) && std::isfinite(size)) || (growth > to.growth && size > to.size);
}

} // namespace npga
