// Passes over cells, grouped by the rows of one side, that a sampler makes between two half-steps. What they sum is
// kept for each row and added by the caller in order, so no bit depends on threads.
#pragma once
#include "accumulate.hpp"
#include "kernels.hpp"
#include "philox.hpp"

namespace halfstep::HALFSTEP_ISA {

// a . x and b . x
template <class T>
inline void two_dots(const T* a, const T* b, const T* x, int n, T& ax, T& bx) {
  constexpr int w = width<T>;
  Vec<T> s0 = {}, s1 = {};
  int i = 0;
  for (; i + w <= n; i += w) {
    const Vec<T> v = load(x + i);
    s0 += load(a + i) * v, s1 += load(b + i) * v;
  }
  T t0 = 0, t1 = 0;
  if (i + w / 2 <= n) {
    using Half = HalfVec<T>;
    T h0[w / 2], h1[w / 2];
    const auto v = Half::load(x + i);
    Half::store(h0, Half::load(a + i) * v), Half::store(h1, Half::load(b + i) * v);
    for (int step = w / 4; step > 0; step /= 2)
      for (int c = 0; c < step; ++c) h0[c] += h0[c + step], h1[c] += h1[c + step];
    t0 = h0[0], t1 = h1[0], i += w / 2;
  }
  for (; i < n; ++i) t0 += a[i] * x[i], t1 += b[i] * x[i];
  ax = horizontal_sum<T>(s0) + t0, bx = horizontal_sum<T>(s1) + t1;
}

// Sums over the cells of rows first..last; see Residuals.
template <class T>
void residual_rows(const Residuals<T>& r, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    const T *own = r.left + i * r.d, *moved = r.moved + i * r.d;
    double sum[6] = {};
    for (int64_t k = r.indptr[i]; k < r.indptr[i + 1]; ++k) {
      if (k + prefetch_ahead < r.indptr[last])
        prefetch_row(r.right + int64_t(r.indices[k + prefetch_ahead]) * r.d, r.d);
      T z, x;
      two_dots(own, moved, r.right + int64_t(r.indices[k]) * r.d, r.d, z, x);
      x += r.base[i];
      const T e = r.targets[k] - z;
      const double w = r.weights ? r.weights[k] : T(1), we = w * e, wx = w * x;
      sum[0] += w, sum[1] += we, sum[2] += wx, sum[3] += we * e, sum[4] += we * x, sum[5] += wx * x;
      if (r.e) r.e[k] = e, r.x[k] = x;
    }
    for (int s = 0; s < 6; ++s) r.sums[6 * i + s] = sum[s];
  }
}

// Gamma with the given shape >= 1 and rate 1, by the rejection of Marsaglia and Tsang (2000): a cubed normal.
inline float gamma_draw(float shape, CellStream& stream) {
  const float d = shape - 1.0f / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const float x = stream.normal(), v = 1 + c * x;
    if (v <= 0) continue;
    const float cube = v * v * v;
    if (stream.exponential() > d * (cube - 1 - std::log(cube)) - x * x / 2) return d * cube;
  }
}

// Weights of cells whose residuals have a t distribution, given the residuals.
template <class T>
void weight_rows(const DrawnCells<T>& c, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i)
    for (int64_t k = c.indptr[i]; k < c.indptr[i + 1]; ++k) {
      CellStream stream(c.noise, i, k - c.indptr[i]);
      const float g = c.given ? float(c.given[k]) : 1.0f, e = float(c.values[k]);
      const float rate = (float(c.nu) + float(c.alpha) * g * e * e) / 2;
      c.out[k] = T(g * gamma_draw((float(c.nu) + g) / 2, stream) / rate);
    }
}

// A standard normal cut to (low, high), by rejection (Robert, 1995).
inline float cut_normal(float low, float high, CellStream& stream) {
  if (high < 0) return -cut_normal(-high, -low, stream);
  if (low <= 0) {
    if (high - low > 2.0f)
      while (true) {
        const float x = stream.normal();
        if (x > low && x < high) return x;
      }
    while (true) {
      const float x = low + (high - low) * stream.uniform();
      if (stream.exponential() > x * x / 2) return x;
    }
  }
  const float rate = (low + std::sqrt(low * low + 4)) / 2;
  if ((high - low) * rate < 2)
    while (true) {
      const float x = low + (high - low) * stream.uniform();
      if (stream.exponential() > (x * x - low * low) / 2) return x;
    }
  while (true) {
    const float x = low + stream.exponential() / rate;
    if (x < high && stream.exponential() > (x - rate) * (x - rate) / 2) return x;
  }
}

// Targets of cells of ordered classes: normals about the score, cut to the interval of their class.
template <class T>
void latent_rows(const DrawnCells<T>& c, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i)
    for (int64_t k = c.indptr[i]; k < c.indptr[i + 1]; ++k) {
      CellStream stream(c.noise, i, k - c.indptr[i]);
      const double z = c.values[k];
      c.out[k] = T(z + cut_normal(float(c.cuts[c.codes[k]] - z), float(c.cuts[c.codes[k] + 1] - z), stream));
    }
}

// log(Phi(b) - Phi(a)) and its slopes in a and b; a < b.
inline double log_between(double a, double b, double& slope_a, double& slope_b) {
  constexpr double half = 0.7071067811865476, density = 0.3989422804014327;
  if (a > 0) {  // both tails small: look at them from below
    double sa, sb;
    const double value = log_between(-b, -a, sb, sa);
    slope_a = -sa, slope_b = -sb;
    return value;
  }
  const double below = a > -38 ? std::erfc(-a * half) / 2 : 0, above = b < 9 ? std::erfc(-b * half) / 2 : 1;
  const double p = above - below > 1e-300 ? above - below : 1e-300;
  slope_a = a > -38 ? -density * std::exp(-a * a / 2) / p : 0;
  slope_b = b < 38 ? density * std::exp(-b * b / 2) / p : 0;
  return std::log(p);
}

// Sums over cells first..last of the log likelihood of classes: value, gradient in the K - 1 inner cuts, diagonal of
// the second derivatives, and the entries beside it; out has 3 K - 3 numbers.
template <class T>
void class_sums(const T* z, const int32_t* codes, const double* cuts, int classes, int64_t first, int64_t last,
                double* out) {
  const int inner = classes - 1;
  double *gradient = out + 1, *diagonal = gradient + inner, *beside = diagonal + inner;
  for (int64_t k = first; k < last; ++k) {
    const int y = codes[k];
    const double a = cuts[y] - double(z[k]), b = cuts[y + 1] - double(z[k]);
    double sa, sb;
    out[0] += log_between(a, b, sa, sb);
    if (y > 0) gradient[y - 1] += sa, diagonal[y - 1] += -a * sa - sa * sa;
    if (y < inner) gradient[y] += sb, diagonal[y] += -b * sb - sb * sb;
    if (y > 0 && y < inner) beside[y - 1] += -sa * sb;
  }
}

}  // namespace halfstep::HALFSTEP_ISA
