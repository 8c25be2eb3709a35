// PLQ losses (and the squared loss under constraints): dual coordinate descent. Filled in below by its own change.
#pragma once
#include "finish.hpp"

namespace halfstep::HALFSTEP_ISA {
template <class T>
bool solve_plq(const HalfStep<T>&, int64_t, const Cells<T>&, Workspace<T>&, Sums&) {
  return false;
}
}  // namespace halfstep::HALFSTEP_ISA
