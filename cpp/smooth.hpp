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
  void smooth(int m, const T* r, const T* target, const T*, Block<T>& out) const {
    for (int j = 0; j < m; ++j) {
      const double t = loss.margin() ? 1.0 : target[j];
      double gradient = 0, curvature = 0;
      loss_slopes(loss, r[j], t, gradient, curvature);
      out.value[j] = out.phi[j] = T(loss_value(loss, r[j], t));
      out.slope[j] = T(gradient), out.curvature[j] = T(curvature);
      out.gap[j] = 0;
    }
  }
  void compare(int, const T*, Block<T>&) const {}
  bool sharpen(double, double, const T*, T*, int64_t) const { return false; }

 private:
  const Loss& loss;
};

template <class T>
bool solve_smooth(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, Sums& sums) {
  SmoothTerms<T> terms(h.loss);
  return NewtonRow<T, SmoothTerms<T>>(h, i, cells, ws, terms).solve(sums);
}

}  // namespace halfstep::HALFSTEP_ISA
