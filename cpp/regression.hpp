// Where rows are expected from their features: weights W that minimise sum_i lam_i |b_i - W'f_i|^2 + eta |W|^2, by
// conjugate gradients from where they were, preconditioned by the diagonal. A step goes to the best place along the
// gradient and along what was moved last, which the caller keeps: the system stays as it is when rows change, so what
// one call has learned about it serves the next. Columns of W do not know of each other, so a strip of them is one
// task; a step walks over the stored features twice, once for the gradient and once for where it leads.
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
        room(size_t(g.p + g.n) * wide),
        d(room.at),
        z(d + g.p * wide) {}

  // Returns the number of steps.
  int solve() {
    int step = 0;
    while (step < g.max_steps)
      if (++step, !descend()) break;
    return step;
  }

 private:
  static constexpr int wide = strip_columns, w_ = width<T>, parts = wide / w_, ahead = 16;
  struct Sums {
    double of[wide] = {};
    void add(const T* a, const T* b, double weight = 1) {
      for (int c = 0; c < wide; ++c) of[c] += weight * a[c] * b[c];
    }
  };

  // This strip of a row of an array that all strips share.
  T* at(T* of, int64_t row) const { return of + row * g.f + first; }
  const T* at(const T* of, int64_t row) const { return of + row * g.f + first; }
  void take(const T* of, int64_t row, T (&to)[wide]) const {
    __builtin_prefetch(of + (row + ahead) * g.f + first);
    if (count == wide)
      std::memcpy(to, at(of, row), sizeof to);
    else
      for (int c = 0; c < count; ++c) to[c] = at(of, row)[c];
  }

  // to = f_i' v
  void gather(int64_t i, const T* v, T* to) const {
    Vec<T> sum[parts] = {};
    for (int64_t k = g.indptr[i]; k < g.indptr[i + 1]; ++k) {
      const T* from = v + int64_t(g.indices[k]) * wide;
      for (int part = 0; part < parts; ++part) sum[part] += g.values[k] * load(from + part * w_);
    }
    for (int part = 0; part < parts; ++part) store(to + part * w_, sum[part]);
  }

  // out += f_i v'
  void scatter(int64_t i, const T* v, T* out) const {
    Vec<T> by[parts];
    for (int part = 0; part < parts; ++part) by[part] = load(v + part * w_);
    for (int64_t k = g.indptr[i]; k < g.indptr[i + 1]; ++k) {
      T* to = out + int64_t(g.indices[k]) * wide;
      for (int part = 0; part < parts; ++part) store(to + part * w_, load(to + part * w_) + g.values[k] * by[part]);
    }
  }

  // One step of every column; false where all of them gained no more than the tolerance.
  bool descend() {
    const double least = residuals();
    Sums gain, last, dd, ds, ss, a, b, c;  // r'd, r's, and of the directions d and s under the system
    for (int64_t j = 0; j < g.p; ++j) {
      T w[wide] = {}, s[wide] = {}, r[wide], *to = d + j * wide;
      take(g.weights, j, w), take(g.step, j, s);
      const T inverse = T(1) / g.diagonal[j];
      for (int k = 0; k < wide; ++k) r[k] = to[k] - g.eta * w[k], to[k] = inverse * r[k];
      gain.add(r, to), last.add(r, s), dd.add(to, to), ds.add(to, s), ss.add(s, s);
    }
    for (int64_t i = 0; i < g.n; ++i) {
      T t[wide] = {}, *to = z + i * wide;
      take(g.moved, i, t);
      gather(i, d, to);
      a.add(to, to, g.lam[i]), b.add(to, t, g.lam[i]), c.add(t, t, g.lam[i]);
    }
    T by[wide], keep[wide];
    double gained = 0;
    for (int k = 0; k < wide; ++k) {
      const double aa = a.of[k] + g.eta * dd.of[k], bb = b.of[k] + g.eta * ds.of[k], cc = c.of[k] + g.eta * ss.of[k];
      const double apart = aa * cc - bb * bb;
      const bool both = apart > 1e-6 * aa * cc;  // else they are one direction, up to rounding
      const double along = both ? (gain.of[k] * cc - last.of[k] * bb) / apart : aa > 0 ? gain.of[k] / aa : 0;
      const double again = both ? (last.of[k] * aa - gain.of[k] * bb) / apart : 0;
      by[k] = T(along), keep[k] = T(again);
      gained += along * gain.of[k] + again * last.of[k];
    }
    for (int64_t j = 0; j < g.p; ++j) go(by, keep, d + j * wide, j, g.step, g.weights);
    for (int64_t i = 0; i < g.n; ++i) go(by, keep, z + i * wide, i, g.moved, g.fitted);
    return gained > least;
  }

  // d = F'D (B - F W); what a step must gain to be followed by another.
  double residuals() {
    double least = 0;
    std::memset(d, 0, sizeof(T) * g.p * wide);
    for (int64_t i = 0; i < g.n; ++i) {
      T b[wide] = {}, y[wide] = {};
      take(g.rows, i, b), take(g.fitted, i, y);
      for (int c = 0; c < wide; ++c) {
        least += double(g.lam[i]) * b[c] * b[c];
        b[c] = g.lam[i] * (b[c] - y[c]);
      }
      scatter(i, b, d);
    }
    return g.tolerance * least;
  }

  // last = by * to + keep * last, and place += last, in a row of each.
  void go(const T (&by)[wide], const T (&keep)[wide], const T* to, int64_t row, T* last, T* place) const {
    __builtin_prefetch(last + (row + ahead) * g.f + first, 1);
    __builtin_prefetch(place + (row + ahead) * g.f + first, 1);
    T *moved = at(last, row), *now = at(place, row);
    const auto one = [&](int c) { moved[c] = by[c] * to[c] + keep[c] * moved[c], now[c] += moved[c]; };
    if (count == wide)
      for (int c = 0; c < wide; ++c) one(c);
    else
      for (int c = 0; c < count; ++c) one(c);
  }

  const Regression<T>& g;
  const int first, count;
  const Room<T> room;
  T *d, *z;  // the gradient, then the direction, p x wide; F d, n x wide
};

template <class T>
int regress(const Regression<T>& g, int first) {
  return Strip<T>(g, first).solve();
}

}  // namespace halfstep::HALFSTEP_ISA
