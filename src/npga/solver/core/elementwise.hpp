// The elementwise functions, one coordinate at a time: phi(x) with parameters a, b, c and r = x - c.
//
// A prox has the same step in all iterations, so that what depends on it alone is computed before: for_prox(k, t) and
// for_conj(k, t) turn the parameters into those that prox and conj_prox read, and no division is left in their loops.
// npga.functions states the same mathematics in NumPy; a test compares all of it.
#pragma once
#include "products.hpp"
#include <cmath>
#include <limits>
#include <type_traits>

namespace npga {

template <class T> struct Row {
    T a, b, c;
};
template <class T> inline Row<T> at(Columns<T> k, Int j) { return {k.a[j], k.b[j], k.c[j]}; }
template <class T> inline Columns<T> from(Columns<T> k, Int j) { return {k.a + j, k.b + j, k.c + j, k.t + j}; }

// The number of [lo, hi] next to x; NaN stays NaN.
template <class T> inline T clip(T x, T lo, T hi) { return min(max(x, lo), hi); }

// Zero; what a formula below does not state is as here: parameters that need no preparation, and the gradient of those
// that have none.
template <class T> struct Zero {
    static T value(T, Row<T>, T) { return 0; }
    static T grad(T, Row<T>) { return 0; }
    static Row<T> for_prox(Row<T> k, T) { return k; }
    static T prox(T x, Row<T>) { return x; }
    static Row<T> for_conj(Row<T> k, T) { return k; }
    static T conj_prox(T, Row<T>) { return 0; }
};

// a r
template <class T> struct Linear : Zero<T> {
    static T value(T x, Row<T> k, T) { return k.a * (x - k.c); }
    static T grad(T, Row<T> k) { return k.a; }
    static Row<T> for_prox(Row<T> k, T t) { return {t * k.a, 0, 0}; }
    static T prox(T x, Row<T> q) { return x - q.a; }
    static T conj_prox(T, Row<T> q) { return q.a; }
};

// (a/2) r^2 + b. The prox is a correction of x, so that rounding is relative to the distance travelled.
template <class T> struct Square : Zero<T> {
    static T value(T x, Row<T> k, T) { return k.a * (x - k.c) * (x - k.c) / 2 + k.b; }
    static T grad(T x, Row<T> k) { return k.a * (x - k.c); }
    static Row<T> for_prox(Row<T> k, T t) { return {t * k.a / (1 + t * k.a), 0, k.c}; }
    static T prox(T x, Row<T> q) { return x - q.a * (x - q.c); }
    static Row<T> for_conj(Row<T> k, T t) { return {1 / (1 + t / k.a), 0, t * k.c}; }
    static T conj_prox(T x, Row<T> q) { return q.a * (x - q.c); }
};

// a |r| + (b/2) r^2, with a gradient where a = 0. The conjugate is max(|y| - a, 0)^2/(2 b) + c y.
template <class T> struct Elastic : Zero<T> {
    static T value(T x, Row<T> k, T) { return k.a * std::abs(x - k.c) + k.b * (x - k.c) * (x - k.c) / 2; }
    static T grad(T x, Row<T> k) { return k.b * (x - k.c); }
    static Row<T> for_prox(Row<T> k, T t) { return {t * k.a, 1 / (1 + t * k.b), k.c}; }
    static T prox(T x, Row<T> q) { return q.c + (x - q.c - clip(x - q.c, -q.a, q.a)) * q.b; }
    static Row<T> for_conj(Row<T> k, T t) { return {k.a, k.b / (t + k.b), t * k.c}; }
    static T conj_prox(T x, Row<T> q) {
        const T r = x - q.c, near = clip(r, -q.a, q.a);
        return near + q.b * (r - near);
    }
};

// a r^2/2 for |r| <= b, a (b |r| - b^2/2) beyond. The conjugate is y^2/(2 a) + c y on |y| <= a b.
template <class T> struct Huber : Zero<T> {
    static T value(T x, Row<T> k, T) {
        const T r = std::abs(x - k.c), q = r > k.b ? k.b : r;
        return k.a * (q * q / 2 + k.b * (r - q));
    }
    static T grad(T x, Row<T> k) { return k.a * clip(x - k.c, -k.b, k.b); }
    static Row<T> for_prox(Row<T> k, T t) { return {t * k.a / (1 + t * k.a), t * k.a * k.b, k.c}; }
    static T prox(T x, Row<T> q) { return x - clip(q.a * (x - q.c), -q.b, q.b); }
    static Row<T> for_conj(Row<T> k, T t) { return {1 / (1 + t / k.a), k.a * k.b, t * k.c}; }
    static T conj_prox(T x, Row<T> q) { return clip(q.a * (x - q.c), -q.b, q.b); }
};

// max(a r, b r), a <= b. The conjugate is c y on a <= y <= b.
template <class T> struct Kinked : Zero<T> {
    static T value(T x, Row<T> k, T) { return max(k.a * (x - k.c), k.b * (x - k.c)); }
    static Row<T> for_prox(Row<T> k, T t) { return {t * k.a, t * k.b, k.c}; }
    static T prox(T x, Row<T> q) { return x - clip(x - q.c, q.a, q.b); }
    static Row<T> for_conj(Row<T> k, T t) { return {k.a, k.b, t * k.c}; }
    static T conj_prox(T x, Row<T> q) { return clip(x - q.c, q.a, q.b); }
};

// 0 for a <= x <= b, up to `slack` times (1 + |bound|) as in npga.functions, else infinity.
template <class T> struct Interval : Zero<T> {
    static T value(T x, Row<T> k, T slack) {
        const bool member = x >= k.a - slack * (1 + std::abs(k.a)) && x <= k.b + slack * (1 + std::abs(k.b));
        return member ? T(0) : T(INFINITY);
    }
    static T prox(T x, Row<T> q) { return clip(x, q.a, q.b); }
    static Row<T> for_conj(Row<T> k, T t) { return {t * k.a, t * k.b, 0}; }
    static T conj_prox(T x, Row<T> q) { return x - clip(x, q.a, q.b); }
};

// The floating-point numbers as words: sign, exponent, fraction. Adding `whole` rounds to a whole number, which then
// fills the low bits of the fraction.
template <class T> struct Bits {
    static constexpr bool wide = sizeof(T) == 8;
    using Word = std::conditional_t<wide, std::uint64_t, std::uint32_t>;
    static constexpr int fraction = wide ? 52 : 23;
    static constexpr Word bias = wide ? 1023 : 127, half_root = Word(wide ? 0x3FE6A09E667F3BCD : 0x3F3504F3); // sqrt(1/2)
    static constexpr T whole = T(wide ? 6755399441055744.0 : 12582912.0), least = T(wide ? -708.0 : -87.0);
    static constexpr T ln2_high = T(wide ? 6.93147180369123816490e-01 : 6.93359375e-01);
    static constexpr T ln2_low = T(wide ? 1.90821492927058770002e-10 : -2.12194440e-04);
};

// exp(x) for x <= 0 without branches and calls, so that loops over it use the vector units: x = k ln 2 + r with
// |r| <= ln(2)/2, the series of exp(r), and k as exponent. NaN is not kept.
template <class T> inline T exp_negative(T x) {
    using B = Bits<T>;
    x = x > B::least ? x : B::least;
    const T shifted = x * T(1.4426950408889634) + B::whole, k = shifted - B::whole;
    const T r = (x - k * B::ln2_high) - k * B::ln2_low;
    constexpr double inverse[] = {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                  1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    const T r2 = r * r, r4 = r2 * r2, r8 = r4 * r4; // neighbours first, so that few operations wait for one another
    const auto two = [&](int j) { return T(inverse[j]) + T(inverse[j + 1]) * r; };
    const auto four = [&](int j) { return two(j) + two(j + 2) * r2; };
    T sum = four(0) + four(4) * r4;
    if (B::wide) sum += (four(8) + two(12) * r4) * r8;
    const typename B::Word power = (read<typename B::Word>(&shifted) + B::bias) << B::fraction;
    return sum * read<T>(&power);
}

// ln(x) for normal x > 0 to about nine digits, likewise: x = 2^k m with m near 1, and ln(m) = 2 artanh((m - 1)/(m + 1)).
template <class T> inline T rough_log(T x) {
    using B = Bits<T>;
    using Word = typename B::Word;
    const Word word = read<Word>(&x), k = (word - B::half_root + (B::bias << B::fraction)) >> B::fraction;
    const Word near_one = word - ((k - B::bias) << B::fraction), shifted = k + read<Word>(&B::whole);
    const T m = read<T>(&near_one), z = (m - 1) / (m + 1), zz = z * z;
    const T series = ((zz / 9 + T(1.0 / 7)) * zz + T(1.0 / 5)) * zz + T(1.0 / 3);
    const T exponent = read<T>(&shifted) - (B::whole + B::bias);
    return exponent * T(0.6931471805599453) + 2 * z * (1 + zz * series);
}

// b ln(1 + exp(-a r)), a = -1 or +1. With v = a (u - c) and y = a (x - c) its prox solves F(v) = v - y - s sigma(-v) = 0,
// s = t b, on [y, y + s]; that of the conjugate is the gradient at prox_{f/t}(x/t), which does not cancel for large t.
template <class T> struct Logistic : Zero<T> {
    static constexpr Int block = 64;

    // sigma(-v); NaN stays NaN
    static T falling(T v) {
        const T e = exp_negative(-std::abs(v));
        return (v >= 0 ? e : v < 0 ? T(1) : v) / (1 + e);
    }
    static T value(T x, Row<T> k, T) {
        const T m = -k.a * (x - k.c);
        return k.b * ((m > 0 ? m : T(0)) + std::log1p(std::exp(-std::abs(m))));
    }
    static T grad(T x, Row<T> k) { return -k.b * k.a * falling(k.a * (x - k.c)); }
    static Row<T> for_prox(Row<T> k, T t) { return {k.a, t * k.b, k.c}; }
    static Row<T> for_conj(Row<T> k, T t) { return {k.a / t, k.b, k.a * k.c}; }

    // Both proximal maps of m coordinates, a block at a time; the guess is an earlier result.
    static void prox(Int m, const T* x, Columns<T> q, const T* guess, T* out) {
        by_blocks(
            m, [=](Int j, T& y, T& s, T& v) { y = q.a[j] * (x[j] - q.c[j]), s = q.b[j], v = q.a[j] * (guess[j] - q.c[j]); },
            [=](Int j, T v) { out[j] = q.c[j] + q.a[j] * v; });
    }
    static void conj_prox(Int m, const T* x, Columns<T> q, const T* guess, T* out) {
        constexpr T tiny = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
        const auto enter = [=](Int j, T& y, T& s, T& v) {
            y = q.a[j] * x[j] - q.c[j], s = q.b[j] * std::abs(q.a[j]);
            const T slope = std::abs(guess[j]), rest = q.b[j] - slope; // b sigma(-v) and b sigma(v)
            v = rough_log(((rest > 0 ? rest : T(0)) + tiny) / (slope + tiny));
        };
        by_blocks(m, enter, [=](Int j, T v) {
            const T slope = q.b[j] * falling(v);
            out[j] = q.a[j] > 0 ? -slope : slope;
        });
    }
    template <class Enter, class Leave> static void by_blocks(Int m, Enter enter, Leave leave) {
        T y[block], s[block], v[block];
        for (Int first = 0; first < m; first += block) {
            const Int count = min(block, m - first);
            each(0, count, [&](Int k) { enter(first + k, y[k], s[k], v[k]); });
            roots(count, y, s, v);
            each(0, count, [&](Int k) { leave(first + k, v[k]); });
        }
    }

    // The roots for count <= block coordinates, from guesses in v, all together: Newton's step with its second-order
    // correction, inside a bracket that shrinks. A coordinate is finished, and then stays as it is, when |F| or what
    // the step leaves of it is within the rounding error of F, or the step changes nothing; so its bits do not depend
    // on its neighbours.
    static void roots(Int count, const T* y, const T* s, T* v) {
        constexpr T eps = std::numeric_limits<T>::epsilon();
        T lower[block], upper[block], closed[block];
        each(0, count, [&](Int k) {
            lower[k] = y[k], upper[k] = y[k] + s[k], closed[k] = 0;
            v[k] = clip(v[k], lower[k], upper[k]);
        });
        T finished = 0;
        for (int step = 0; finished < count; ++step) {
            const T newton_ends = step < 60 ? T(0) : T(1);
            finished = 0;
#pragma omp simd reduction(+ : finished)
            for (Int k = 0; k < count; ++k) {
                const T at = v[k], p = falling(at), sp = s[k] * p, F = at - y[k] - sp, slope = 1 + sp * (1 - p);
                const T noise = eps * (std::abs(at) + std::abs(y[k]) + sp);
                lower[k] = F < 0 ? at : lower[k];
                upper[k] = F > 0 ? at : upper[k];
                const T inverse = 1 / slope, newton = F * inverse, bend = (slope - 1) * (p - T(0.5)) * newton * inverse;
                const T better = at - newton * (1 + clip(bend, T(-0.5), T(0.5)));
                const T middle = lower[k] + (upper[k] - lower[k]) / 2, inside = clip(better, lower[k], upper[k]);
                const T left = std::abs(newton * newton * newton) * slope;
                const bool near = std::abs(F) <= 2 * noise || left <= noise;
                const T next = near || (inside == better && newton_ends == 0) ? inside : middle;
                const T ends = near || std::abs(next - at) <= eps * std::abs(at) || F != F ? T(1) : T(0);
                v[k] = closed[k] > 0 ? at : next;
                closed[k] = closed[k] > 0 ? T(1) : ends;
                finished += closed[k];
            }
        }
    }
};

// -a ln r for r > 0, else infinity. The prox is c + v with v (v - y) = s, v > 0, y = x - c and s = t a; that of the
// conjugate is its mirror image.
template <class T> struct NegLog : Zero<T> {
    static T root(T y, T s) {
        const T far = std::abs(y) + std::sqrt(y * y + 4 * s);
        return y >= 0 ? far / 2 : 2 * s / far;
    }
    static T value(T x, Row<T> k, T) { return x > k.c ? -k.a * std::log(x - k.c) : T(INFINITY); }
    static Row<T> for_prox(Row<T> k, T t) { return {t * k.a, 0, k.c}; }
    static T prox(T x, Row<T> q) { return q.c + root(x - q.c, q.a); }
    static Row<T> for_conj(Row<T> k, T t) { return {t * k.a, 0, t * k.c}; }
    static T conj_prox(T x, Row<T> q) { return -root(q.c - x, q.a); }
};

// a r ln r for r >= 0, else infinity. With s = t a the prox is c + s y, y + ln y = (x - c)/s - 1 - ln s. The conjugate is
// a exp(y/a - 1) + c y; with s = a/t, y + ln y = (x - t c)/a - 1 - ln s, its prox is x - t c - a y = a (1 + ln(s y)),
// the latter without cancellation where y is large.
template <class T> struct Entropy : Zero<T> {
    // y + ln y = z, Wright's omega function: a guess, and steps of fourth order (Fritsch, Shafer and Crowley, 1973).
    static T omega(T z) {
        if (!(z > -40)) return std::exp(z); // NaN stays NaN
        T y = z > 1 ? z - std::log(z) : std::exp(z < -2 ? z : 2 * (z - 1) / 3);
        for (int step = 0; step < 3; ++step) {
            const T r = z - y - std::log(y), w = 1 + y, m = w * (w + T(2.0 / 3) * r);
            y *= 1 + r / w * ((m - r / 2) / (m - r));
        }
        return y;
    }
    static T value(T x, Row<T> k, T) {
        const T r = x - k.c;
        return r > 0 ? k.a * r * std::log(r) : r == 0 ? T(0) : T(INFINITY);
    }
    static Row<T> for_prox(Row<T> k, T t) { return {t * k.a, 1 + std::log(t * k.a), k.c}; }
    static T prox(T x, Row<T> q) { return q.c + q.a * omega((x - q.c) / q.a - q.b); }
    static Row<T> for_conj(Row<T> k, T t) { return {k.a, 1 + std::log(k.a / t), t * k.c}; }
    static T conj_prox(T x, Row<T> q) {
        const T y = omega((x - q.c) / q.a - q.b);
        return y > 1 ? q.a * (q.b + std::log(y)) : x - q.c - q.a * y;
    }
};

// Which formula is decided once, outside the loop, by its place in this list; Python refuses kinds that are not in it.
template <class T, class Run> inline void with_kind(Int kind, Run&& run) {
    const auto pick = [&](auto... formulas) {
        Int place = 0;
        ((kind == place++ ? run(formulas) : void()), ...);
    };
    pick(Zero<T>{}, Linear<T>{}, Square<T>{}, Elastic<T>{}, Huber<T>{}, Kinked<T>{}, Interval<T>{}, Logistic<T>{},
         NegLog<T>{}, Entropy<T>{});
}

} // namespace npga
