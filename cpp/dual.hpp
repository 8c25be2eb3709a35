// The short row: with n cells and f > n free columns, solve n x n instead of f x f.
// With B = lam + w0 spectrum (diagonal) and Z = B^(-1/2) x sqrt(s):   (I + Z'Z) u = l/sqrt(s) - Z' B^(1/2) b0,
// b = b0 + B^(-1/2) Z u = B^-1 (base + sum_k sqrt(s_k) u_k x_k), where b0 = B^-1 base solves the row without cells.
#pragma once
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {

// Needs every s > 0, B > 0 and n <= f. False: not positive definite.
template <class T>
bool solve_dual(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws) {
  const int f = h.free(), n = int(cells.n), ld = panel_ld<T>(f);
  const T lam = h.penalty(i), w0 = h.background(i);
  T *root = ws.diagonal, *u = ws.l;
  for (int c = 0; c < f; ++c) root[c] = T(1) / std::sqrt(lam + (h.spectrum ? w0 * h.spectrum[c] : T(0)));
  const bool based = base_terms(h, i, ws.base);
  for (int k = 0; k < n; ++k) {
    ws.s[k] = std::sqrt(ws.s[k]);
    u[k] = ws.l[k] / ws.s[k];
  }
  for (int k = 0; k < n; ++k) prefetch_row(cells.row(k), f);
  pack_transposed<T>(n, f, [&](int k) { return cells.row(k); }, [&](int k) { return ws.s[k]; }, root, ws.panel, ld);
  if (based)
    for (int c = 0; c < f; ++c) axpy(-root[c] * ws.base[c], ws.panel + ptrdiff_t(c) * ld, u, n);
  panel_gram(Put::set, f, ws.panel, ld, n, n, ws.quadratic, ld,
             Ahead<T>(cells.x, h.d, f, cells.indices + n, following(h, i), gram_tiles<T>(n)));
  for (int k = 0; k < n; ++k) ws.quadratic[ptrdiff_t(k) * ld + k] += T(1);
  std::memcpy(ws.quadratic + ptrdiff_t(n) * ld, u, sizeof(T) * n);
  const auto valued = [&](int n, const T* y) { ws.value = dot(y, y, n) / 2; };
  if (!solve_quadratic(ws.quadratic, ld, n, ws.scratch, u, valued)) return false;
  std::memset(ws.b, 0, sizeof(T) * f);
  for (int k = 0; k < n; ++k) axpy(u[k] * ws.s[k], cells.row(k), ws.b, f);
  if (based) axpy(T(1), ws.base, ws.b, f);
  for (int c = 0; c < f; ++c) ws.b[c] *= root[c] * root[c];
  return true;
}

// Multiply-adds of the two exact forms; what is counted decides which one a row takes.
inline double primal_work(double n, double f) { return f * f * (n + f / 3) / 2 + n * f; }
inline double dual_work(double n, double f) { return n * n * (f + n / 3) / 2 + 6 * n * f; }
// Two passes before the first step, one for each; what they read is used once, so that a multiply-add costs three.
inline double cg_work(double n, double f, int steps) { return 3 * n * f * (4 + 2 * steps); }

}  // namespace halfstep::HALFSTEP_ISA
