// What Python hands to the core, by named fields: npga/solver/core/__init__.py reads the structs from this very file.
//
// Nothing here owns memory: Python keeps it alive during a call. T is float or double; the layout is the same for both.
#pragma once
#include <cstdint>

namespace npga {

using Int = std::int64_t;

enum Form : Int { BY_COLUMNS, BY_ROWS, SPARSE };

// One matrix where it lies in memory; `lead` is the distance between its columns or rows. A sparse one has compressed
// rows, and where most of these are empty also the row of every entry.
template <class T> struct Matrix {
    Int form, rows, columns;
    const T* data;
    Int lead;
    const std::int32_t* indices;
    const Int* pointers;
    const std::int32_t* entry_rows;
};

// The formulas of npga.functions.Kind.
enum Kind : Int {
    ZERO, LINEAR, SQUARE, ELASTIC, HUBER, KINKED, INTERVAL, LOGISTIC, NEG_LOG, ENTROPY,
    NORM = 16, GROUPS, BALL, SIMPLEX,
    QUADRATIC = 32, LEAST_SQUARES,
    BENT = 48 // any of these with `is_bent` below
};

// One formula on the coordinates start to stop. Group k, whose norm is taken, has the members[ends[k]] to
// members[ends[k + 1] - 1], counted from `start`, or these very numbers where `members` is null; matrix, vector and
// weight belong to the kinds with a matrix.
template <class T> struct Segment {
    Int kind, start, stop, is_bent;
    Int groups;
    const Int* ends;
    const Int* members;
    Matrix<T> matrix;
    const T* vector;
    double weight;
};

// Numbers for each coordinate: the parameters of its formula, or what a prox reads, made from them and from its step t.
template <class T> struct Columns {
    T *a, *b, *c, *t;
};

// A function of all coordinates: segments, and parameters for each coordinate. Bent segments have their formula plus
// tilt x + (ridge/2) x^2 + base, for lo <= x <= hi. The ready columns are for its prox (g) or that of its conjugate (h),
// which is repeated in them `copies` times, so that the rows of several agents can be one loop.
template <class T> struct Function {
    Int count;
    const Segment<T>* segments;
    Columns<T> own, ready;
    const T *tilt, *ridge, *base, *lo, *hi;
    Int copies;
};

// A problem on a network under a version and steps.
template <class T> struct Plan {
    Int n, p, d;
    double beta, theta;
    const T* alpha;            // a step for each coordinate
    const Matrix<T>* matrices; // of each agent, which owns the coordinates offsets[i] to offsets[i + 1]
    const Int* offsets;
    Function<T> f, g, h;
    const Int* groups; // group k: the agents groups[k] to groups[k + 1], which fit the cache together
    Int group_count;
    const Int *links, *neighbours; // neighbours[links[i]] to neighbours[links[i + 1] - 1] of agent i, in order
    const T* weights;
    const T *b, *c, *d_powers;   // gamma B^2, C and D in powers of K, lowest first
    Int new_powers, kept_powers; // rounds of the correction before the gradient step, and of the combination after it
    Int degree;                  // 1, or that of the Chebyshev polynomial P(K) in place of K
    const T *carry, *scale;      // the pairs of its recursion, see npga/networks/_exchange.py
};

// The arrays of a run: d numbers each, then n x p each. New iterates trade places with the last ones, for every thread
// in a copy of its own.
template <class T> struct Arrays {
    T *x, *x_new, *x_hat, *force; // force: A^T lam, then the whole gradient
    T *lam, *lam_prev, *u, *v; // v is followed by K v, ..., K^s v
    T *message, *reply;
    T *rest, *rest_new, *change, *total; // of P(K): what is left of its source, the last term, the sum of terms so far
};

// The part of one of several threads, which share the groups, or the chunks that panels of `rows` rows are dealt out in.
template <class T> struct Task {
    Int thread, threads;
    Int fresh;               // whether the parts of A^T lam are to be made first
    Int chunk_count, rows;   // no chunks: the agent schedule
    const Int* chunks;       // chunk k has the rows chunks[k] to chunks[k + 1],
    T* pulls;                // and its part of A^T lam
    T *scratch, *work;       // of this thread: for rows of dual arrays, and for functions with a matrix
    Int *arrived, *meetings; // of all threads: how many are here, and how often all were
    double* sums;            // two of each thread
};

// What is measured.
struct Findings {
    double kkt, overall, energy, size, spread, gap, objective, largest, increment;
};

// What the stopping test compares with; a limit that is off is -1, or infinite for growth and size.
struct Stopping {
    double tol, gap_tol, growth, size;            // the limits
    double distance, first_increment, first_size; // what they are relative to
};

// What a measurement must know beside the plan: the units of npga.problem.residual, and scratch; and where it is written.
template <class T> struct Gauge {
    double energy, least_step, largest_step, slack;
    Int g_is_zero, h_is_indicator, blocks, pieces;
    const double *curvature, *counts, *squares; // of each piece (an agent, or one of its coordinates), and of its rows
    const Int* offsets;          // coordinates offsets[q] to offsets[q + 1] are piece q
    const Int *bounds, *is_hard; // rows bounds[b] to bounds[b + 1] are measured together; is h an indicator there?
    const Int* is_smooth;        // whether h has a gradient in a row; null where it has none in any
    const T* reference;          // or null
    double* agents;                      // scratch: 5 for each piece,
    T *dual, *primal, *columns, *matrix; // 7 p, 3 d, 4 max(p, d), and that of functions with a matrix
    Findings* table;                     // a row for each measurement
    Stopping to;
};

} // namespace npga
