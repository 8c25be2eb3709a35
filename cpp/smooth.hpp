// Smooth losses: their own slopes and curvatures for the Newton steps of newton.hpp.
#pragma once
#include "newton.hpp"

namespace halfstep::HALFSTEP_ISA {

template <class T>
class SmoothTerms {
 public:
  static constexpr bool nonnegative = false;  // Poisson's e^z - t z may be below zero
  static constexpr bool residual = false;
  explicit SmoothTerms(const Loss& loss) : loss(loss) {}

  void start(const T*, const T*, const T*, int64_t) const {}

  // The argument is r = t z for margin losses, whose phi(z; t) = phi(r; 1), and z for the others.
  Vec<T> value(Vec<T> r, const T* target) const {
    for (int j = 0; j < width<T>; ++j) r[j] = T(loss_value(loss, r[j], loss.margin() ? 1.0 : target[j]));
    return r;
  }

  Smooth<T> smooth(Vec<T> r, const T* target, Vec<T>) const {
    Smooth<T> e = {};
    for (int j = 0; j < width<T>; ++j) {
      const double t = loss.margin() ? 1.0 : target[j];
      double gradient = 0, curvature = 0;
      loss_slopes(loss, r[j], t, gradient, curvature);
      e.value[j] = T(loss_value(loss, r[j], t)), e.slope[j] = T(gradient), e.curvature[j] = T(curvature);
    }
    return e;
  }
  True<T> compare(Vec<T>, const Smooth<T>& e) const { return {e.value, Vec<T>{}}; }
  bool sharpen(double, double, double, const T*, T*, int64_t) const { return false; }

 private:
  const Loss& loss;
};

template <class T>
bool solve_smooth(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, Sums& sums) {
  SmoothTerms<T> terms(h.loss);
  return NewtonRow<T, SmoothTerms<T>>(h, i, cells, ws, terms).solve(sums);
}

}  // namespace halfstep::HALFSTEP_ISA
