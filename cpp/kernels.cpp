// Compiled once for each instruction set; HALFSTEP_ISA names the namespace that everything here lives in.
#include "kernels.hpp"

#include <new>

#include "complete.hpp"
#include "dense.hpp"
#include "solve.hpp"

#define HALFSTEP_TEXT_(x) #x
#define HALFSTEP_TEXT(x) HALFSTEP_TEXT_(x)

namespace halfstep::HALFSTEP_ISA {

template <class T>
Kernels<T> table() {
  using W = Workspace<T>;
  return {
      [](const HalfStep<T>& h) -> void* {
        W* ws = new (std::nothrow) W(h);
        if (ws && ws->memory) return ws;
        delete ws;
        return nullptr;
      },
      [](void* ws) { delete static_cast<W*>(ws); },
      [](const HalfStep<T>& h, int64_t first, int64_t last, bool evaluate, void* ws, Sums& sums) {
        if (h.complete) return solve_complete(h, first, last, evaluate, *static_cast<W*>(ws), sums);
        for (int64_t i = first; i < last; ++i) solve_row(h, i, evaluate, *static_cast<W*>(ws), sums);
      },
      [](int f) { return quadratic_size<T>(f); },
      [](const HalfStep<T>& h, int64_t i, int64_t k0, int64_t k1, void* ws, T* out) {
        accumulate_part(h, i, k0, k1, *static_cast<W*>(ws), out);
      },
      add_part<T>,
      [](const HalfStep<T>& h, int64_t i, T* const* parts, int count, void* ws, Sums& sums) {
        finish_parts(h, i, parts, count, *static_cast<W*>(ws), sums);
      },
      evaluate_cells<T>,
      gram_rows<T>,
      rotate_rows<T>,
      top_rows<T>,
      pair_scores<T>,
  };
}

const InstructionSet& instruction_set() {
  static const InstructionSet set = {HALFSTEP_TEXT(HALFSTEP_ISA), table<float>(), table<double>()};
  return set;
}

}  // namespace halfstep::HALFSTEP_ISA
