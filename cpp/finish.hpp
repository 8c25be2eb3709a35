// The room of one worker, and what every finish of a row shares: the cells as a quadratic, and the terms without cells.
#pragma once
#include "accumulate.hpp"
#include "cholesky.hpp"
#include "losses.hpp"

namespace halfstep::HALFSTEP_ISA {

// Values of one row that the iterative finishes keep turned; longer rows are walked by their indices from there on.
constexpr size_t turned_limit = size_t(1) << 21;

constexpr int pulled_columns = 8;  // that are summed side by side (turned.hpp)

// Zeroed room for arrays of the given sizes, each with a little slack behind it.
template <class T, size_t N>
inline void* carve(const size_t (&sizes)[N], T** const (&places)[N]) {
  size_t total = 0;
  for (size_t size : sizes) total += (size + 31) / 16 * 16;
  void* memory = std::aligned_alloc(64, (total * sizeof(T) + 63) / 64 * 64);
  if (!memory) no_memory();
  std::memset(memory, 0, total * sizeof(T));
  T* at = static_cast<T*>(memory);
  for (size_t k = 0; k < N; ++k) *places[k] = at, at += (sizes[k] + 31) / 16 * 16;
  return memory;
}

// One worker's scratch; sized once for the whole half-step.
template <class T>
struct Workspace {
  T *panel, *quadratic, *scratch;      // see accumulate.hpp, cholesky.hpp
  T *s, *l, *z;                        // per cell of the row
  T *b, *base, *diagonal, *p, *r, *v;  // per free column, zero behind the last one
  // The iterative finishes (newton.hpp) only: per cell, per free column, and f x f as `quadratic`.
  T *half, *sign, *target, *fixed, *slope, *multiplier;
  int32_t* curved;
  T* turned;  // x of the first turned_cells cells of the row, `width` cells side by side
  int64_t turned_cells;
  T* best;
  double value = 0, zero = 0;      // of the row that was solved last, and at zero without a background
  T *unobserved, *root, *bounded;  // background matrix and its factor; trial factor under bounds
  void* memory;

  explicit Workspace(const HalfStep<T>& h) {
    const int f = h.free(), ld = panel_ld<T>(f);
    const bool chunked = h.is_quadratic();
    const size_t cells = size_t(chunked && !h.is_table() && h.longest > long_row ? long_row : h.longest) + 64;
    const size_t tall = f > panel_cells ? f : panel_cells;
    const size_t turns = chunked ? 0 : cells, squares = quadratic_size<T>(f);
    turned_cells =
        chunked ? 0 : int64_t(cells * h.d <= turned_limit ? cells : turned_limit / h.d) / width<T> * width<T>;
    const size_t dense = !chunked && h.w0 > 0 ? squares : 0;
    const size_t sizes[] = {tall * ld,
                            squares,
                            cholesky_scratch<T>(f),
                            cells,
                            cells,
                            cells,
                            size_t(ld),
                            size_t(ld),
                            size_t(ld),
                            size_t(ld),
                            size_t(ld),
                            size_t(ld),
                            turns,
                            turns,
                            turns,
                            turns,
                            turns,
                            turns,
                            turns,
                            size_t(turned_cells) * h.d + pulled_columns * width<T>,
                            size_t(ld),
                            dense,
                            dense,
                            h.nonnegative ? squares : 0};
    T* indices;  // in the room of so many T
    T** const places[] = {&panel,    &quadratic,  &scratch, &s,      &l,    &z,          &b,      &base,
                          &diagonal, &p,          &r,       &v,      &half, &sign,       &target, &fixed,
                          &slope,    &multiplier, &indices, &turned, &best, &unobserved, &root,   &bounded};
    memory = carve(sizes, places);
    curved = reinterpret_cast<int32_t*>(indices);
  }
  ~Workspace() { std::free(memory); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
};

// The cells k0..k1 of one row.
template <class T>
struct Cells {
  const HalfStep<T>& h;
  const T* own;  // the row's d columns
  const T* x;    // `other` from its first free column on
  const int32_t* indices;
  int64_t first, n;
  T row_weight, w0;

  Cells(const HalfStep<T>& h, int64_t i, int64_t k0, int64_t k1)
      : h(h),
        own(h.own + i * h.d),
        x(h.other + h.free_start),
        indices(h.indices + k0),
        first(k0),
        n(k1 - k0),
        row_weight(h.own_weights ? h.own_weights[i] : T(1)),
        w0(h.background(i)) {}
  Cells(const HalfStep<T>& h, int64_t i) : Cells(h, i, h.indptr[i], h.indptr[i + 1]) {}

  const T* row(int64_t k) const { return x + int64_t(indices[k]) * h.d; }
  T weight(int64_t k) const {
    const T weight = row_weight * (h.weights ? h.weights[first + k] : h.weight);
    return h.other_weights ? weight * h.other_weights[indices[k]] : weight;
  }
  // What an unobserved cell would weigh here.
  T background(int64_t k) const { return h.other_background ? w0 * h.other_background[indices[k]] : w0; }
  T target(int64_t k) const { return h.targets ? h.targets[first + k] : h.target; }
  T offset(int64_t k) const { return h.offsets ? h.offsets[first + k] : T(0); }
  // What the pinned columns contribute to the score.
  T pinned(int64_t k) const {
    const T* other = h.other + int64_t(indices[k]) * h.d;
    return dot(own, other, h.free_start) + dot(own + h.free_stop, other + h.free_stop, h.d - h.free_stop);
  }
  bool has_pinned() const { return h.free() < h.d; }
};

// Cells of the row after row i, which is usually solved next.
template <class T>
inline int64_t following(const HalfStep<T>& h, int64_t i) {
  return i + 1 < h.n_own ? h.indptr[i + 2] - h.indptr[i + 1] : 0;
}

// Squared loss: curvature s = w - w0_ij and linear coefficient l of each cell, so that its cost is s/2 (x'b)^2 - l x'b
// + const. In float32, where rows may need wider numbers, what they cost where the free columns are zero; else 0.
template <class T>
inline double linearise(const Cells<T>& cells, T* s, T* l) {
  const bool pins = cells.has_pinned();
  if (!pins && !cells.h.weights && !cells.h.targets && !cells.h.offsets && !cells.h.own_weights &&
      !cells.h.other_weights && !cells.h.other_background) {  // all cells are alike
    const T w = cells.h.weight, w0 = cells.w0, t = w * cells.h.target;
    for (int64_t k = 0; k < cells.n; ++k) s[k] = w - w0, l[k] = t;
    return double(t) * cells.h.target * double(cells.n) / 2;
  }
  double zero = 0;
  std::memset(l, 0, sizeof(T) * cells.n);
  const HalfStep<T>& h = cells.h;
  for (int c = 0; c < h.d; ++c) {  // what the pinned columns contribute to the scores: few columns, usually
    if (c == h.free_start) c = h.free_stop;
    if (c == h.d) break;
    for (int64_t k = 0; k < cells.n; ++k) l[k] += cells.own[c] * h.other[int64_t(cells.indices[k]) * h.d + c];
  }
  for (int64_t k = 0; k < cells.n; ++k) {
    const T w = cells.weight(k), w0 = cells.background(k), p = l[k];
    const T gap = cells.target(k) - cells.offset(k) - p;
    s[k] = w - w0;
    l[k] = w * gap + w0 * p;
    if constexpr (sizeof(T) < sizeof(double)) zero += double(w * gap) * gap;
  }
  return zero / 2;
}

// base = lam mu - w0 G_fp c: the linear terms that do not come from cells. False where they are all zero.
template <class T>
inline bool base_terms(const HalfStep<T>& h, int64_t i, T* base) {
  const int f = h.free();
  const T* mu = h.prior(i);
  const T lam = h.penalty(i), w0 = h.background(i);
  for (int c = 0; c < f; ++c) base[c] = mu ? lam * mu[c] : T(0);
  const bool pins = f < h.d && h.w0 > 0;
  if (pins) {
    const T* own = h.own + i * h.d;
    for (int c = 0; c < f; ++c) {
      const T* g = h.gram + ptrdiff_t(h.free_start + c) * h.d;
      base[c] -= w0 * (dot(g, own, h.free_start) + dot(g + h.free_stop, own + h.free_stop, h.d - h.free_stop));
    }
  }
  return mu || pins;
}

// Adds lam I + w0 G to the lower part of the quadratic, and the base terms to its last row. Without a penalty, a ridge
// of some roundings of the mean diagonal holds the directions that no cell reaches; otherwise they would grow from
// noise.
template <class T>
inline void add_base(const HalfStep<T>& h, int64_t i, T* quadratic, T* base) {
  const int f = h.free(), ld = panel_ld<T>(f);
  const T lam = h.penalty(i), w0 = h.background(i);
  if (w0 > 0 && !h.spectrum)
    for (int r = 0; r < f; ++r)
      axpy(w0, h.gram + ptrdiff_t(h.free_start + r) * h.d + h.free_start, quadratic + ptrdiff_t(r) * ld, r + 1);
  double trace = 0;
  for (int c = 0; c < f; ++c)
    trace += quadratic[ptrdiff_t(c) * ld + c] += lam + (h.spectrum ? w0 * h.spectrum[c] : T(0));
  const T ridge = lam > 0 ? T(0) : T(64 * std::numeric_limits<T>::epsilon() * trace / f);
  for (int c = 0; ridge > 0 && c < f; ++c) quadratic[ptrdiff_t(c) * ld + c] += ridge;
  if (base_terms(h, i, base)) axpy(T(1), base, quadratic + ptrdiff_t(f) * ld, f);
}

// The gap at which a row counts as solved: what was asked for, as far as numbers of type T can tell.
template <class T>
double solved_gap(const HalfStep<T>& h) {
  const double least = 1e3 * std::numeric_limits<T>::epsilon();
  return h.tolerance > least ? h.tolerance : least;
}

// What stands between the two substitutions of a solve: nothing. A draw adds its noise there.
struct Still {
  template <class T>
  void operator()(int, T*) const {}
};

// Leaves the solution in b; the quadratic may be overwritten by its factor. False: not positive definite.
template <class T, class Between = Still>
inline bool solve_quadratic(T* quadratic, int ld, int f, T* scratch, T* b, Between between = {}) {
  if (f <= cholesky_block<T>) {
    if (!factor_small(quadratic, ld, f, scratch, b)) return false;
    between(f, b);
    solve_small(scratch, f, b);
    return true;
  }
  if (!cholesky(quadratic, ld, f, f + 1, scratch)) return false;
  std::memcpy(b, quadratic + ptrdiff_t(f) * ld, sizeof(T) * f);
  between(f, b);
  solve_transposed(quadratic, ld, f, b);
  return true;
}

// The second try for a quadratic that was not positive definite in T: float64, with a ridge of a few float32 roundings
// of its mean diagonal.
template <class T, class Between = Still>
inline bool solve_repaired(const T* quadratic, int ld, int f, T* b, Between between = {}) {
  const int wide = panel_ld<double>(f);
  const Room<double> room(quadratic_size<double>(f) + cholesky_scratch<double>(f) + wide);
  double *copy = room.at, *scratch = copy + quadratic_size<double>(f);
  double* solution = scratch + cholesky_scratch<double>(f);
  double trace = 0;
  for (int r = 0; r <= f; ++r)
    for (int c = 0; c < f && c <= r; ++c) copy[ptrdiff_t(r) * wide + c] = quadratic[ptrdiff_t(r) * ld + c];
  for (int c = 0; c < f; ++c) trace += std::fabs(copy[ptrdiff_t(c) * wide + c]);
  for (int c = 0; c < f; ++c) copy[ptrdiff_t(c) * wide + c] += 1e-6 * trace / f;
  const bool solved = trace > 0 && std::isfinite(trace) && solve_quadratic(copy, wide, f, scratch, solution, between);
  for (int c = 0; solved && c < f; ++c) b[c] = T(solution[c]);
  return solved;
}

}  // namespace halfstep::HALFSTEP_ISA
