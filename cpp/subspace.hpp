// High ranks: solve the row block of columns by block of columns, each exactly, the scores of its cells kept up to
// date. One pass costs n f block instead of n f^2; the alternating sweeps do the rest.
#pragma once
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {

// ws.b: old row in, new row out. Reads ws.s and ws.l, uses ws.z. False: a block was not positive definite.
template <class T>
bool solve_subspace(const HalfStep<T>& h, int64_t i, const Cells<T>& cells, Workspace<T>& ws) {
  const int f = h.free();
  const T lam = h.penalty(i), w0 = h.background(i);
  base_terms(h, i, ws.base);
  for (int64_t k = 0; k < cells.n; ++k) ws.z[k] = ws.l[k] - ws.s[k] * dot(cells.row(k), ws.b, f);
  for (int c0 = 0; c0 < f; c0 += h.block) {
    const int m = f - c0 < h.block ? f - c0 : h.block, ld = panel_ld<T>(m);
    accumulate(cells.x + c0, h.d, m, cells.indices, cells.n, ws.s, ws.z, ws.quadratic, ws.panel);
    T* right = ws.quadratic + ptrdiff_t(m) * ld;
    for (int c = 0; c < m; ++c) {
      T* row = ws.quadratic + ptrdiff_t(c) * ld;
      right[c] += ws.base[c0 + c] - lam * ws.b[c0 + c];
      row[c] += lam;
      if (h.spectrum) {
        row[c] += w0 * h.spectrum[c0 + c];
        right[c] -= w0 * h.spectrum[c0 + c] * ws.b[c0 + c];
      } else if (w0 > 0) {
        const T* g = h.gram + ptrdiff_t(h.free_start + c0 + c) * h.d + h.free_start;
        axpy(w0, g + c0, row, c + 1);
        right[c] -= w0 * dot(g, ws.b, f);
      }
    }
    if (!solve_quadratic(ws.quadratic, ld, m, ws.scratch, ws.p)) return false;
    for (int c = 0; c < m; ++c) ws.b[c0 + c] += ws.p[c];
    for (int64_t k = 0; k < cells.n; ++k) ws.z[k] -= ws.s[k] * dot(cells.row(k) + c0, ws.p, m);
  }
  return true;
}

}  // namespace halfstep::HALFSTEP_ISA
