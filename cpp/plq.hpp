// Piecewise linear-quadratic losses: the terms of an augmented Lagrangian, for the Newton steps of newton.hpp.
//
// With a multiplier a_k for each cell and a width delta, the stand-in of phi(r) is
//
//   e(r) = min_y phi(y) + a (r - y) + (r - y)^2 / (2 delta),    y = prox_{delta phi}(r + delta a)
//
// It is smooth, its slope is in the subdifferential of phi at y, and it is curved only where r + delta a is near a kink
// or on a quadratic piece. So few cells reach the matrix of a Newton step: the others have left the problem as long as
// they stay on their piece. When the steps have converged as far as the smoothing allows, the slopes become the
// multipliers and delta shrinks. A loss without kinks needs neither: e = phi.
#pragma once
#include "newton.hpp"

namespace halfstep::HALFSTEP_ISA {

// Tuned on rating-like rows; the optimum does not depend on them.
constexpr double first_width = 0.35;                 // of the typical distance to a kink
constexpr double least_next = 0.2, most_next = 0.7;  // of the width before
constexpr double converged = 0.5;  // of the cells' part of the gap: as far as the steps are worth going at one width

template <class T>
class PlqTerms {
 public:
  static constexpr bool nonnegative = true;  // phi >= 0, so the row's value measures its own size
  const bool residual;

  explicit PlqTerms(const Loss& loss) : residual(!loss.margin()) {
    pieces = loss.kind == LossKind::squared ? 1 : loss.n_breaks + 1;
    for (int k = 0; k < pieces; ++k) a[k] = T(loss.a[k]), b[k] = T(loss.b[k]), c[k] = T(loss.c[k]);
    if (loss.kind == LossKind::squared) a[0] = 1, b[0] = c[0] = 0;
    for (int k = 0; k + 1 < pieces; ++k) {
      breaks[k] = T(loss.breaks[k]);
      const double left = 2 * loss.a[k] * loss.breaks[k] + loss.b[k];
      const double right = 2 * loss.a[k + 1] * loss.breaks[k] + loss.b[k + 1];
      corner[k] = T((loss.a[k] * loss.breaks[k] + loss.b[k]) * loss.breaks[k] + loss.c[k]);
      below[k] = T(left), above[k] = T(right);
      if (right - left > 1e-9 * (1 + std::fabs(left) + std::fabs(right))) kinks = true;
      if (right - left > jump) jump = right - left;
    }
  }

  // The first width follows from how far the cells are from a kink.
  void start(const T* half, const T* r, const T* multiplier, int64_t n) {
    double sums[4] = {};
    set_width(0);
    for (int64_t first = 0; kinks && first < n; first += block_cells) {
      const int64_t last = n - first < block_cells ? n : first + block_cells;
      Vec<T> costs = {}, sizes = {}, weights = {};
      for (int64_t k = first; k < last; k += width<T>) {
        const Vec<T> at = load(r + k), by = load(half + k);
        costs += by * smooth(at, nullptr, load(multiplier + k)).value;
        sizes += by * (at < 0 ? -at : at), weights += by;
      }
      Vec<T> parts[] = {costs, sizes, weights, Vec<T>{}};
      add_sums<T>(parts, sums);
    }
    const auto [cost, size, weight, none] = sums;
    if (!(weight > 0)) return;
    const double share = first_width * (cost / jump + 1e-3 * size) / (weight * jump);
    set_width(share > 0 ? share : 1.0);  // zero where every cell sits on a kink
    floor = 1e3 * std::numeric_limits<T>::epsilon() * delta;
  }

  // e, its slope and curvature.
  Smooth<T> smooth(Vec<T> r, const T*, Vec<T> multiplier) const {
    const Vec<T> goal = r + delta * multiplier;
    Vec<T> y = (goal - delta * b[0]) * shrink[0], slope = 2 * a[0] * y + b[0], value = (a[0] * y + b[0]) * y + c[0];
    Vec<T> curvature = Vec<T>{} + bend[0];
    for (int k = 0; k + 1 < pieces; ++k) {
      const auto on = goal > enter[k], past = goal > leave[k];
      const Vec<T> next = (goal - delta * b[k + 1]) * shrink[k + 1];
      y = past ? next : on ? Vec<T>{} + breaks[k] : y;
      slope = past ? 2 * a[k + 1] * next + b[k + 1] : on ? multiplier + (r - breaks[k]) * inverse : slope;
      value = past ? (a[k + 1] * next + b[k + 1]) * next + c[k + 1] : on ? Vec<T>{} + corner[k] : value;
      curvature = past ? Vec<T>{} + bend[k + 1] : on ? Vec<T>{} + inverse : curvature;
    }
    const Vec<T> miss = r - y;
    return {value + miss * (multiplier + miss * (inverse / 2)), slope, curvature, value - slope * y};
  }

  Vec<T> value(Vec<T> r, const T*) const {
    Vec<T> phi = (a[0] * r + b[0]) * r + c[0];
    for (int k = 0; k + 1 < pieces; ++k) phi = r > breaks[k] ? (a[k + 1] * r + b[k + 1]) * r + c[k + 1] : phi;
    return phi;
  }

  // phi(r), and by how much it lies above its tangent at y.
  True<T> compare(Vec<T> r, const Smooth<T>& e) const {
    const Vec<T> phi = value(r, nullptr), above = phi - e.tangent - e.slope * r;
    return {phi, above > 0 ? above : Vec<T>{}};
  }

  // Whether the smoothing is now the larger part of the gap. Then the slopes become multipliers and the width shrinks:
  // the cells' part falls by its square, and is to fall to half of what is enough.
  bool sharpen(double cells, double rest, double enough, const T* slope, T* multiplier, int64_t n) {
    if (!kinks || rest > converged * cells || delta <= floor) return false;
    std::memcpy(multiplier, slope, sizeof(T) * n);
    set_width(delta * std::fmin(std::fmax(std::sqrt(enough / (2 * cells)), least_next), most_next));
    return true;
  }

 private:
  void set_width(double to) {
    delta = kinks ? T(to) : T(0);
    inverse = delta > 0 ? 1 / delta : T(0);
    for (int k = 0; k < pieces; ++k) {
      shrink[k] = 1 / (1 + 2 * delta * a[k]);
      bend[k] = 2 * a[k] * shrink[k];
    }
    for (int k = 0; k + 1 < pieces; ++k)
      enter[k] = breaks[k] + delta * below[k], leave[k] = breaks[k] + delta * above[k];
  }

  int pieces = 1;
  bool kinks = false;
  T delta = 0, inverse = 0;
  double floor = 0, jump = 0;
  T breaks[max_breaks], corner[max_breaks], below[max_breaks], above[max_breaks], enter[max_breaks], leave[max_breaks];
  T a[max_breaks + 1], b[max_breaks + 1], c[max_breaks + 1], shrink[max_breaks + 1], bend[max_breaks + 1];
};

template <class T>
bool solve_plq(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, Sums& sums) {
  PlqTerms<T> terms(h.loss);
  return NewtonRow<T, PlqTerms<T>>(h, i, cells, ws, terms).solve(sums);
}

}  // namespace halfstep::HALFSTEP_ISA
