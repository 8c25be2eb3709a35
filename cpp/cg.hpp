// Conjugate gradients on the row's quadratic without forming it: warm start from the old row, diagonal preconditioner,
// stopped by the residual. In a rotated basis the background is diagonal and costs nothing.
#pragma once
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {

// out = (lam I + w0 G + sum s x x') v.
template <class T>
inline void apply_quadratic(const HalfStep<T>& h, T lam, const Cells<T>& cells, const T* s, const T* v, T* out) {
  const int f = h.free();
  for (int c = 0; c < f; ++c) out[c] = (lam + (h.spectrum ? h.w0 * h.spectrum[c] : T(0))) * v[c];
  if (h.w0 > 0 && !h.spectrum)
    for (int c = 0; c < f; ++c) out[c] += h.w0 * dot(h.gram + ptrdiff_t(h.free_start + c) * h.d + h.free_start, v, f);
  for (int64_t k = 0; k < cells.n; ++k) {
    const T* x = cells.row(k);
    axpy(s[k] * dot(x, v, f), x, out, f);
  }
}

// ws.b: start in, solution out. Reads ws.s and ws.l. Returns the number of steps; `gap` is the relative residual
// reached.
template <class T>
int solve_cg(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws, double& gap) {
  const int f = h.free();
  const T lam = h.penalty(i);
  T *b = ws.b, *r = ws.r, *p = ws.p, *image = ws.v, *inverse = ws.diagonal, *right = ws.base;
  base_terms(h, i, right);
  for (int c = 0; c < f; ++c)
    inverse[c] = lam + (h.spectrum ? h.w0 * h.spectrum[c]
                        : h.w0 > 0 ? h.w0 * h.gram[ptrdiff_t(h.free_start + c) * (h.d + 1)]
                                   : T(0));
  for (int64_t k = 0; k < cells.n; ++k) {
    const T* x = cells.row(k);
    axpy(ws.l[k], x, right, f);
    for (int c = 0; c < f; ++c) inverse[c] += ws.s[k] * x[c] * x[c];
  }
  for (int c = 0; c < f; ++c) inverse[c] = inverse[c] > 0 ? T(1) / inverse[c] : T(1);
  apply_quadratic(h, lam, cells, ws.s, b, image);
  double rz = 0, goal = 0;
  for (int c = 0; c < f; ++c) {
    r[c] = right[c] - image[c];
    p[c] = inverse[c] * r[c];
    rz += double(r[c]) * p[c];
    goal += double(right[c]) * right[c] * inverse[c];
  }
  const double start = goal > 0 ? goal : 1;
  goal = h.tolerance * h.tolerance * start;
  int step = 0;
  for (; step < h.max_steps && rz > goal; ++step) {
    apply_quadratic(h, lam, cells, ws.s, p, image);
    const double curvature = dot(p, image, f);
    if (!(curvature > 0)) break;
    const T alpha = T(rz / curvature);
    double next = 0;
    for (int c = 0; c < f; ++c) {
      b[c] += alpha * p[c];
      r[c] -= alpha * image[c];
      next += double(r[c]) * r[c] * inverse[c];
    }
    const T beta = T(next / rz);
    for (int c = 0; c < f; ++c) p[c] = inverse[c] * r[c] + beta * p[c];
    rz = next;
  }
  gap = std::sqrt(rz / start);
  return step;
}

}  // namespace halfstep::HALFSTEP_ISA
