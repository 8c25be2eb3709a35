// Where rows are expected from their features: weights W that minimise sum_i lam_i |b_i - W'f_i|^2 + eta |W|^2, by
// conjugate gradients from where they were, preconditioned by the diagonal. Columns of W do not know of each other, so
// a strip of them is one task; F'DF s is one walk over the rows of F, and F W is kept up to date on the way.
#pragma once
#include <cstring>

#include "finish.hpp"
#include "kernels.hpp"

namespace halfstep::HALFSTEP_ISA {

template <class T>
class Strip {
 public:
  Strip(const Regression<T>& g, int first)
      : g(g),
        first(first),
        count(g.f - first < wide ? g.f - first : wide),
        size(g.p * wide),
        room(size_t(4 * g.p + 2 * g.n) * wide),
        w(room.at),
        r(w + size),
        s(r + size),
        image(s + size),
        y(image + size),
        z(y + g.n * wide) {}

  // Returns the number of steps.
  int solve() {
    for (int64_t j = 0; j < g.p; ++j) std::memcpy(w + j * wide, g.weights + j * g.f + first, sizeof(T) * count);
    for (int64_t i = 0; i < g.n; ++i) std::memcpy(y + i * wide, g.fitted + i * g.f + first, sizeof(T) * count);
    double least = 0, rz[wide] = {};
    for (int64_t i = 0; i < g.n; ++i) {
      const T* b = g.rows + i * g.f + first;
      T left[wide] = {};
      for (int c = 0; c < count; ++c) {
        least += g.tolerance * g.lam[i] * b[c] * b[c];
        left[c] = g.lam[i] * (b[c] - y[i * wide + c]);
      }
      scatter(i, left, r);
    }
    for (int64_t j = 0; j < g.p; ++j)
      for (int64_t k = j * wide; k < j * wide + wide; ++k) r[k] -= g.eta * w[k], s[k] = r[k] / g.diagonal[j];
    dots(r, s, rz);
    int step = 0;
    while (step < g.max_steps) {
      ++step;
      if (!descend(rz, least)) break;
    }
    for (int64_t j = 0; j < g.p; ++j) std::memcpy(g.weights + j * g.f + first, w + j * wide, sizeof(T) * count);
    for (int64_t i = 0; i < g.n; ++i) std::memcpy(g.fitted + i * g.f + first, y + i * wide, sizeof(T) * count);
    return step;
  }

 private:
  static constexpr int wide = strip_columns, w_ = width<T>, parts = wide / w_;

  // to = f_i' v
  void gather(int64_t i, const T* v, T* to) const {
    Vec<T> sum[parts] = {};
    for (int64_t k = g.indptr[i]; k < g.indptr[i + 1]; ++k) {
      const T* at = v + int64_t(g.indices[k]) * wide;
      for (int part = 0; part < parts; ++part) sum[part] += g.values[k] * load(at + part * w_);
    }
    for (int part = 0; part < parts; ++part) store(to + part * w_, sum[part]);
  }

  // out += f_i v'
  void scatter(int64_t i, const T* v, T* out) const {
    Vec<T> by[parts];
    for (int part = 0; part < parts; ++part) by[part] = load(v + part * w_);
    for (int64_t k = g.indptr[i]; k < g.indptr[i + 1]; ++k) {
      T* at = out + int64_t(g.indices[k]) * wide;
      for (int part = 0; part < parts; ++part) store(at + part * w_, load(at + part * w_) + g.values[k] * by[part]);
    }
  }

  // One step of every column; false where all of them gained no more than `least` of the objective.
  bool descend(double (&rz)[wide], double least) {
    for (int64_t k = 0; k < size; ++k) image[k] = g.eta * s[k];
    for (int64_t i = 0; i < g.n; ++i) {
      T by[wide];
      gather(i, s, z + i * wide);
      for (int c = 0; c < wide; ++c) by[c] = g.lam[i] * z[i * wide + c];
      scatter(i, by, image);
    }
    double curvature[wide] = {}, next[wide] = {}, gain = 0;
    dots(s, image, curvature);
    T by[wide], keep[wide];
    for (int c = 0; c < wide; ++c) {
      by[c] = curvature[c] > 0 ? T(rz[c] / curvature[c]) : T(0);
      gain += by[c] * rz[c];
    }
    for (int64_t i = 0; i < g.n; ++i)
      for (int c = 0; c < wide; ++c) y[i * wide + c] += by[c] * z[i * wide + c];
    for (int64_t j = 0; j < g.p; ++j) {
      T *to = w + j * wide, *left = r + j * wide, *held = image + j * wide;
      const T *along = s + j * wide, inverse = T(1) / g.diagonal[j];
      for (int c = 0; c < wide; ++c) {
        to[c] += by[c] * along[c];
        left[c] -= by[c] * held[c];
        held[c] = inverse * left[c];
        next[c] += double(left[c]) * held[c];
      }
    }
    for (int c = 0; c < wide; ++c) keep[c] = rz[c] > 0 ? T(next[c] / rz[c]) : T(0), rz[c] = next[c];
    for (int64_t j = 0; j < g.p; ++j)
      for (int c = 0; c < wide; ++c) s[j * wide + c] = image[j * wide + c] + keep[c] * s[j * wide + c];
    return gain > least;
  }

  void dots(const T* a, const T* b, double (&out)[wide]) const {
    for (int64_t j = 0; j < g.p; ++j)
      for (int c = 0; c < wide; ++c) out[c] += double(a[j * wide + c]) * b[j * wide + c];
  }

  const Regression<T>& g;
  const int first, count;
  const int64_t size;
  const Room<T> room;
  T *w, *r, *s, *image;  // weights, residual, direction, its image, p x wide each
  T *y, *z;              // F w, F s, n x wide each
};

template <class T>
int regress(const Regression<T>& g, int first) {
  return Strip<T>(g, first).solve();
}

}  // namespace halfstep::HALFSTEP_ISA
