// A row of float32 again in float64, where the rounding of its numbers is no small part of its value.
//
// Scores are rounded by eps of their size, and where a loss has kinks its value follows: a row whose value is far below
// the value at zero hangs on differences that float32 does not have. Its cells are copied, it is solved from where it
// is, and what is reported is the value of the row as float32 can hold it. Knows no finish: the caller brings it.
#pragma once
#include "finish.hpp"
#include "losses.hpp"

namespace halfstep::HALFSTEP_ISA {

// Shares of the value at zero. Below them 0.1% of a row's value is some roundings of float32: where there are kinks by
// the size of the rounding, where the value is a sum of squares by little more than its square.
constexpr double coarse_share = 1e-2, coarse_squares = 1e-4;

// Whether the row that was solved last needs wider numbers.
template <class T>
bool is_coarse(const HalfStep<T>& h, const Workspace<T>& ws) {
  return std::isfinite(ws.value) && std::fabs(ws.value) < (h.is_quadratic() ? coarse_squares : coarse_share) * ws.zero;
}

// One row as a half-step of its own, in float64, with cells 0 .. n - 1.
class WideRow {
 public:
  WideRow(const HalfStep<float>& h, int64_t i, const Cells<float>& cells)
      : n(cells.n),
        d(h.d),
        f(h.free()),
        room(size_t(n) * (d + 5) + size_t(d) * d + d + 2 * f),
        places((size_t(n) + 1) / 2 + 1) {
    double* at = room.at;
    const auto take = [&](size_t size) { return std::exchange(at, at + size); };
    double *own = take(d), *other = take(size_t(n) * d), *targets = take(n), *weights = take(n), *offsets = take(n);
    double *duals = take(n), *shares = take(n), *mu = take(f), *spectrum = take(f), *gram = take(size_t(d) * d);
    int32_t* indices = reinterpret_cast<int32_t*>(places.at);
    const auto widen = [](const float* from, int size, double* to) {
      for (int c = 0; c < size; ++c) to[c] = from[c];
    };
    widen(h.own + i * d, d, own);
    for (int64_t k = 0; k < n; ++k) {
      widen(h.other + int64_t(cells.indices[k]) * d, d, other + k * d);
      indices[k] = int32_t(k);
      targets[k] = cells.target(k), weights[k] = cells.weight(k), offsets[k] = cells.offset(k);
      duals[k] = h.duals ? h.duals[cells.first + k] : 0, shares[k] = cells.w0 > 0 ? cells.background(k) / cells.w0 : 1;
    }
    ends[1] = n;
    wide.n_own = 1, wide.n_other = n, wide.d = d, wide.free_start = h.free_start, wide.free_stop = h.free_stop;
    wide.own = own, wide.other = other, wide.indptr = ends, wide.indices = indices;
    wide.targets = targets, wide.weights = weights, wide.offsets = offsets;
    if (h.duals) wide.duals = duals;
    wide.lam_all = h.penalty(i);
    if (h.prior(i)) widen(h.prior(i), f, mu), wide.mu = mu;
    if (h.w0 > 0) {
      if (h.spectrum) widen(h.spectrum, f, spectrum), wide.spectrum = spectrum;
      for (int r = 0; r < d; ++r) widen(h.gram + ptrdiff_t(r) * d, d, gram + ptrdiff_t(r) * d);
      wide.gram = gram, wide.w0 = cells.w0, wide.other_background = shares;
    }
    wide.loss = h.loss, wide.nonnegative = h.nonnegative;
    wide.nonnegative_start = h.nonnegative_start, wide.nonnegative_stop = h.nonnegative_stop;
    wide.tolerance = h.tolerance, wide.max_steps = h.max_steps, wide.longest = n;
  }

  // Starts at b and leaves the solution there, as float32 holds it, unless b was better. False: there is none.
  template <class Solve>
  bool solve(float* b, Sums& sums, Solve solve_row) {
    double* own = wide.own + wide.free_start;
    const double before = put(b);
    const Cells<double> cells(wide, 0);
    Workspace<double> ws(wide);
    std::memcpy(ws.b, own, sizeof(double) * f);
    if (!solve_row(wide, cells, ws, sums)) return false;
    std::memcpy(own, ws.b, sizeof(double) * f);
    const double reached = value(), kept = put(ws.b);
    better = kept <= before;
    for (int c = 0; better && c < f; ++c) b[c] = float(own[c]);
    size = better ? kept : before, lost = size - reached;
    return true;
  }

  // By how much float32 leaves the row above what was reached, relative to its value; with it what the matrix of the
  // background has lost before it came here.
  double rounding() const {
    const double left = lost + std::numeric_limits<float>::epsilon() * background;
    return left > 0 ? left / std::fmax(std::fabs(size), 1e-300) : 0;
  }

  // The dual variables of the row that was put into b.
  void keep_duals(float* to) const {
    for (int64_t k = 0; better && to && k < n; ++k) to[k] = float(wide.duals[k]);
  }

 private:
  const int64_t n;
  const int d, f;
  const Room<double> room, places;
  int64_t ends[2] = {0, 0};
  double lost = 0, size = 0, background = 0;
  bool better = false;
  HalfStep<double> wide;

  // The row's value with its free columns at b, rounded to float32.
  template <class U>
  double put(const U* b) {
    for (int c = 0; c < f; ++c) wide.own[wide.free_start + c] = double(float(b[c]));
    return value();
  }

  double value() {
    const Cells<double> cells(wide, 0);
    double sum = 0;
    background = 0;
    for (int c = 0; c < f; ++c) {
      const double step = wide.own[wide.free_start + c] - (wide.mu ? wide.mu[c] : 0);
      sum += wide.lam_all / 2 * step * step;
    }
    for (int r = 0; wide.w0 > 0 && r < d; ++r)
      background += wide.w0 / 2 * wide.own[r] * dot(wide.gram + r * d, wide.own, d);
    sum += background;
    for (int64_t k = 0; k < n; ++k) {
      const double plain = dot(wide.other + k * d, wide.own, d);
      sum += cells.weight(k) / 2 * loss_value(wide.loss, plain + cells.offset(k), cells.target(k));
      if (wide.w0 > 0) sum -= cells.background(k) / 2 * plain * plain;
    }
    return sum;
  }
};

// The row in ws.b once more, in float64; `sums` are those of this row, and solve(h, cells, ws, sums) is its finish.
template <class T, class Solve>
void solve_wide(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, Sums& sums, Solve solve) {
  if constexpr (sizeof(T) < sizeof(double)) {
    WideRow row(h, i, cells);
    Sums again;
    if (row.solve(ws.b, again, solve)) {
      row.keep_duals(h.duals ? h.duals + cells.first : nullptr);
      sums.gap = again.gap + row.rounding(), sums.stalled = sums.gap > solved_gap(h) ? i : -1;
    }
    sums.steps += again.steps, sums.repaired += again.repaired;
  }
}

}  // namespace halfstep::HALFSTEP_ISA
