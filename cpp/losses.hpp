// phi of one cell: value, gradient, curvature in the score z, at the reported scale (squared = (t - z)^2).
#pragma once
#include <cmath>

#include "row.hpp"
#include "simd.hpp"

namespace halfstep::HALFSTEP_ISA {

inline int interval_of(const Loss& loss, double x) {
  int k = 0;
  while (k < loss.n_breaks && x > loss.breaks[k]) ++k;
  return k;
}

// log(1 + e^x) without overflow.
inline double softplus(double x) { return (x > 0 ? x : 0.0) + std::log1p(std::exp(-std::fabs(x))); }
inline double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

inline double loss_value(const Loss& loss, double z, double t) {
  switch (loss.kind) {
    case LossKind::squared:
      return (t - z) * (t - z);
    case LossKind::plq: {
      const double x = loss.margin() ? t * z : z - t;
      const int k = interval_of(loss, x);
      return (loss.a[k] * x + loss.b[k]) * x + loss.c[k];
    }
    case LossKind::logistic:
      return softplus(-t * z);
    case LossKind::bernoulli:
      return softplus(z) - t * z;
    case LossKind::poisson:
      return std::exp(z) - t * z;
    case LossKind::ordinal: {
      // -log(sigmoid(upper - z) - sigmoid(lower - z)), with nothing that cancels.
      const double* edge = loss.edges + int(t);
      return softplus(edge[0] - z) + softplus(z - edge[1]) - std::log1p(-std::exp(edge[0] - edge[1]));
    }
  }
  return 0;
}

// A bound of |phi(z + e) - phi(z)| over |e| <= h: what rounding of the score may have made of phi.
inline double loss_shaken(const Loss& loss, double z, double t, double h) {
  switch (loss.kind) {
    case LossKind::squared:
      return (2 * std::fabs(t - z) + h) * h;
    case LossKind::plq: {
      const double now = loss_value(loss, z, t);
      return std::fmax(std::fabs(loss_value(loss, z + h, t) - now), std::fabs(loss_value(loss, z - h, t) - now));
    }
    case LossKind::poisson:
      return (std::exp(z) + t) * h;
    default:  // nowhere steeper than 1
      return h;
  }
}

// Both of m cells; what is piecewise by whole vectors. z, t and h have room for those.
constexpr int valued_cells = 64;
inline void loss_values(const Loss& loss, int m, const double* z, const double* t, const double* h, double* value,
                        double* shaken) {
  if (loss.kind != LossKind::plq) {
    for (int j = 0; j < m; ++j)
      value[j] = loss_value(loss, z[j], t[j]), shaken[j] = loss_shaken(loss, z[j], t[j], h[j]);
    return;
  }
  using V = Vec<double>;
  const auto at = [&](V score, V target) {
    const V x = loss.margin() ? target * score : score - target;
    V phi = (loss.a[0] * x + loss.b[0]) * x + loss.c[0];
    for (int k = 0; k < loss.n_breaks; ++k)
      phi = x > loss.breaks[k] ? (loss.a[k + 1] * x + loss.b[k + 1]) * x + loss.c[k + 1] : phi;
    return phi;
  };
  const auto size = [](V x) { return x < 0 ? -x : x; };
  for (int j = 0; j < m; j += width<double>) {
    const V score = load(z + j), target = load(t + j), step = load(h + j), phi = at(score, target);
    const V up = size(at(score + step, target) - phi), down = size(at(score - step, target) - phi);
    store(value + j, phi), store(shaken + j, up > down ? up : down);
  }
}

// First and second derivative in z; smooth kinds and, away from breaks, PLQ.
inline void loss_slopes(const Loss& loss, double z, double t, double& gradient, double& curvature) {
  switch (loss.kind) {
    case LossKind::squared:
      gradient = 2 * (z - t), curvature = 2;
      return;
    case LossKind::plq: {
      const double sign = loss.margin() ? t : 1.0, x = loss.margin() ? t * z : z - t;
      const int k = interval_of(loss, x);
      gradient = sign * (2 * loss.a[k] * x + loss.b[k]), curvature = 2 * loss.a[k];
      return;
    }
    case LossKind::logistic: {
      const double p = sigmoid(-t * z);
      gradient = -t * p, curvature = p * (1 - p);
      return;
    }
    case LossKind::bernoulli: {
      const double p = sigmoid(z);
      gradient = p - t, curvature = p * (1 - p);
      return;
    }
    case LossKind::poisson: {
      const double e = std::exp(z);
      gradient = e - t, curvature = e;
      return;
    }
    case LossKind::ordinal: {
      const double* edge = loss.edges + int(t);
      const double below = sigmoid(edge[0] - z), above = sigmoid(z - edge[1]);
      gradient = above - below, curvature = below * (1 - below) + above * (1 - above);
      return;
    }
  }
}

}  // namespace halfstep::HALFSTEP_ISA
