// Compiled once for each instruction set; HALFSTEP_ISA names the namespace that everything here lives in.
#include "kernels.hpp"

#include "cells.hpp"
#include "dense.hpp"
#include "lanes.hpp"
#include "regression.hpp"
#include "top.hpp"

#define HALFSTEP_TEXT_(x) #x
#define HALFSTEP_TEXT(x) HALFSTEP_TEXT_(x)

namespace halfstep::HALFSTEP_ISA {

// What a worker keeps for a half-step.
template <class T>
struct Worker {
  Workspace<T> rows;
  LaneRoom<T> lanes;
  explicit Worker(const HalfStep<T>& h) : rows(h), lanes(h) {}
};

template <class T>
Kernels<T> table() {
  using W = Worker<T>;
  return {
      [](const HalfStep<T>& h) -> void* { return new W(h); },
      [](void* worker) { delete static_cast<W*>(worker); },
      [](const HalfStep<T>& h, int64_t first, int64_t last, bool evaluate, void* worker, Sums& sums) {
        W& w = *static_cast<W*>(worker);
        if (!h.is_table()) {
          for (int64_t i = first; i < last; ++i) solve_row(h, i, evaluate, w.rows, sums);
          return;
        }
        Lanes<T>(h, w.lanes).solve_rows(first, last, evaluate, w.rows, sums);
      },
      [](const HalfStep<T>& h, int64_t rows) {
        return h.is_table() ? lane_sums<T>(h.free(), rows) : quadratic_size<T>(h.free());
      },
      [](const HalfStep<T>& h, int64_t first, int64_t last, int64_t k0, int64_t k1, void* worker, T* out) {
        W& w = *static_cast<W*>(worker);
        if (h.is_table())
          Lanes<T>(h, w.lanes).accumulate(first, last, k0, k1, out);
        else
          accumulate_part(h, first, k0, k1, w.rows, out);
      },
      [](const HalfStep<T>& h, int64_t rows, T* part, void* worker, double* out) {
        if (h.is_table())
          Lanes<T>(h, static_cast<W*>(worker)->lanes).add_quadratics(rows, part, out);
        else
          add_part(h.free(), part, out);
      },
      [](const HalfStep<T>& h, int64_t first, int64_t last, T* const* parts, int count, void* worker, Sums& sums) {
        W& w = *static_cast<W*>(worker);
        if (h.is_table())
          Lanes<T>(h, w.lanes).finish_parts(first, last, parts, count, w.rows, sums);
        else
          finish_parts(h, first, parts, count, w.rows, sums);
      },
      [](const HalfStep<T>& h, int64_t first, int64_t last, const double* quadratics, void* worker, Sums& sums) {
        const int64_t size = int64_t(h.free() + 1) * h.free();
        for (int64_t i = first; i < last; ++i)
          finish_quadratic(h, i, quadratics + i * size, static_cast<W*>(worker)->rows, sums);
      },
      [](const HalfStep<T>& h, int64_t first, int64_t last, int64_t k0, int64_t k1, void* worker, Sums& sums) {
        if (h.is_table()) return Lanes<T>(h, static_cast<W*>(worker)->lanes).evaluate(first, last, k0, k1, sums);
        for (int64_t i = first; i < last; ++i)
          evaluate_cells(h, i, k0 > h.indptr[i] ? k0 : h.indptr[i], k1 < h.indptr[i + 1] ? k1 : h.indptr[i + 1], sums);
      },
      gram_rows<T>,
      rotate_rows<T>,
      block_in_bytes<T>,
      top_rows<T>,
      pair_scores<T>,
      residual_rows<T>,
      weight_rows<T>,
      latent_rows<T>,
      class_sums<T>,
      regress<T>,
  };
}

const InstructionSet& instruction_set() {
  static const InstructionSet set = {HALFSTEP_TEXT(HALFSTEP_ISA), table<float>(), table<double>(), philox};
  return set;
}

}  // namespace halfstep::HALFSTEP_ISA
