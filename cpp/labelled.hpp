// A row with one logistic cell beside its squared ones: the label of an instance whose score is v'b plus its pinned
// part.
//
//   1/2 b'Q b - q'b + strength/2 [softplus(z) - t z],   z = p + v'b,   0 <= t <= 1
//
// Stationarity leaves one unknown, the score:  z = z0 - c (sigmoid(z) - t)  with  z0 = p + v'Q^-1 q  and
// c = strength/2 v'Q^-1 v. The right side falls in z, so there is one root and it lies in [z0 - c (1-t), z0 + c t].
#pragma once
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {

// The root of z + c (sigmoid(z) - t) = z0, by Newton steps inside a shrinking bracket. A step that is not half as long
// as the one before gives way to bisection: on the two flat ends of the sigmoid Newton would go to and fro.
inline double label_score(double z0, double c, double t) {
  double low = z0 - c * (1 - t), high = z0 + c * t, z = z0, last = high - low;
  for (int step = 0; step < 200; ++step) {
    const double s = sigmoid(z), value = z - z0 + c * (s - t);
    (value > 0 ? high : low) = z;
    double next = z - value / (1 + c * s * (1 - s));
    if (!(next > low && next < high) || std::fabs(next - z) > 0.5 * last) next = 0.5 * (low + high);
    last = std::fabs(next - z);
    if (last <= 1e-14 * (1 + std::fabs(z))) return next;
    z = next;
  }
  return z;
}

template <class T>
inline bool is_labelled(const HalfStep<T>& h, int64_t i) {
  return h.label_weights && h.label_weights[i] > 0;
}

// Solves the row whose quadratic stands in ws.quadratic, its right-hand side as the last row, into ws.b.
template <class T>
bool solve_labelled(const HalfStep<T>& h, int64_t i, Workspace<T>& ws) {
  const int f = h.free(), ld = panel_ld<T>(f);
  if (!cholesky(ws.quadratic, ld, f, f + 1, ws.scratch)) return false;
  const T *right = ws.quadratic + ptrdiff_t(f) * ld, *own = h.own + i * h.d, *label = h.label_vector;
  T* turned = ws.v;  // L^-1 v
  std::memcpy(turned, label + h.free_start, sizeof(T) * f);
  solve_lower(ws.quadratic, ld, f, turned);
  const double pinned = dot(own, label, h.free_start) + dot(own + h.free_stop, label + h.free_stop, h.d - h.free_stop);
  const double half = 0.5 * h.label_weights[i], t = h.label_targets[i];
  const double z = label_score(pinned + dot(turned, right, f), half * dot(turned, turned, f), t);
  std::memcpy(ws.b, right, sizeof(T) * f);
  axpy(T(-half * (sigmoid(z) - t)), turned, ws.b, f);
  solve_transposed(ws.quadratic, ld, f, ws.b);
  return true;
}

}  // namespace halfstep::HALFSTEP_ISA
