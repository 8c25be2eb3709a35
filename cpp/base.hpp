// What a row minimises beside its observed cells: 1/2 b'Bb - q'b + constant, and how far a gradient is from it.
//
// B = lam I, or lam I + w0 (G - sum x x') where unobserved cells have a background: observed cells are taken out of it.
#pragma once
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {

// q is kept in ws.base; where there is a background B in ws.unobserved and its Cholesky factor in ws.root.
template <class T>
class Base {
 public:
  const double lam;
  double constant = 0;  // of it, `held` comes from the prior
  double held = 0;

  Base(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws)
      : lam(h.penalty(i)), h(h), ws(ws), f(h.free()), ld(panel_ld<T>(f)), dense(h.w0 > 0), definite(lam > 0) {
    const T* mu = h.prior(i);
    for (int c = 0; mu && c < f; ++c) held += lam / 2 * mu[c] * mu[c];
    constant = held;
    if (dense)
      read_background(i, cells);
    else
      base_terms(h, i, ws.base);
  }

  // B = lam I.
  bool plain() const { return !dense && definite; }

  // False: rounding has bent B, and in these numbers there is no minimum.
  bool sound() const { return definite || !(lam > 0); }

  void apply(const T* x, T* out) const {
    for (int c = 0; dense && c < f; ++c) out[c] = dot(ws.unobserved + ptrdiff_t(c) * ld, x, f);
    for (int c = 0; !dense && c < f; c += width<T>) store(out + c, T(lam) * load(x + c));
  }

  // B onto the lower part of a matrix.
  void add_to(T* matrix) const {
    for (int r = 0; r < f; ++r) {
      T* row = matrix + ptrdiff_t(r) * ld;
      if (dense)
        axpy(T(1), ws.unobserved + ptrdiff_t(r) * ld, row, r + 1);
      else
        row[r] += T(lam);
    }
  }

  // 1/2 g'B^-1 g. Free columns under a bound b_c >= 0 take xi_c = max(0, g_c - lam b_c) off g_c, at the price xi_c b_c.
  double distance(const T* g, const T* b) const {
    if (!definite) return INFINITY;
    if (plain() && !h.nonnegative) return dot_wide(g, g, f) / (2 * lam);
    double sum = 0, square = 0;
    for (int c = 0; c < f; ++c) {
      const bool bounded = h.nonnegative && c >= h.nonnegative_start && c < h.nonnegative_stop;
      const double xi = bounded && g[c] > lam * b[c] ? g[c] - lam * b[c] : 0.0;
      ws.p[c] = T(g[c] - xi);
      sum += xi * b[c];
    }
    if (dense) solve_lower(ws.root, ld, f, ws.p);
    for (int c = 0; c < f; ++c) square += double(ws.p[c]) * ws.p[c];
    return sum + square / (dense ? 2 : 2 * lam);
  }

 private:
  const HalfStep<T>& h;
  Workspace<T>& ws;
  const int f, ld;
  const bool dense;
  bool definite;

  void read_background(int64_t i, const Cells<T>& cells) {
    const bool pins = cells.has_pinned();
    double pinned = 0;
    for (int64_t k = 0; k < cells.n; ++k) {
      const T p = pins ? cells.pinned(k) : T(0);
      const T w0 = cells.background(k);
      ws.s[k] = -w0, ws.l[k] = w0 * p;
      pinned -= double(w0) * p * p;
    }
    accumulate(cells.x, h.d, f, cells.indices, cells.n, ws.s, ws.l, ws.unobserved, ws.panel);
    add_base(h, i, ws.unobserved, ws.base);
    std::memcpy(ws.base, ws.unobserved + ptrdiff_t(f) * ld, sizeof(T) * f);
    for (int r = 0; r < f; ++r)
      for (int c = 0; c < r; ++c) ws.unobserved[ptrdiff_t(c) * ld + r] = ws.unobserved[ptrdiff_t(r) * ld + c];
    std::memcpy(ws.root, ws.unobserved, sizeof(T) * quadratic_size<T>(f));
    definite = cholesky(ws.root, ld, f, f, ws.scratch);
    if (sizeof(T) == sizeof(double) && lam > 0) hold();
    const T* own = cells.own;
    for (int r = 0; pins && r < h.d; ++r) {
      if (r == h.free_start) r = h.free_stop;
      if (r == h.d) break;
      const T* g = h.gram + ptrdiff_t(r) * h.d;
      pinned += double(cells.w0) * own[r] *
                (dot(g, own, h.free_start) + dot(g + h.free_stop, own + h.free_stop, h.d - h.free_stop));
    }
    constant += pinned / 2;
  }

  // B is positive definite and rounding may hide it. Where there are no wider numbers, a ridge of some roundings of its
  // mean diagonal holds what is left.
  void hold() {
    double trace = 0;
    for (int c = 0; c < f; ++c) trace += std::fabs(ws.unobserved[ptrdiff_t(c) * ld + c]);
    T ridge = T(16 * std::numeric_limits<T>::epsilon() * trace / f);
    for (int tries = 0; !definite && tries < 6; ++tries, ridge *= 8) {
      for (int c = 0; c < f; ++c) ws.unobserved[ptrdiff_t(c) * ld + c] += ridge;
      std::memcpy(ws.root, ws.unobserved, sizeof(T) * quadratic_size<T>(f));
      definite = cholesky(ws.root, ld, f, f, ws.scratch);
    }
  }
};

}  // namespace halfstep::HALFSTEP_ISA
